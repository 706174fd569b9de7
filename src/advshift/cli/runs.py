"""`advshift runs`: what runs there are, and how each stands."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from advshift.training import RunInfo

__all__ = ["runs"]

STYLES = {"finished": "green", "running": "cyan", "interrupted": "yellow", "crashed": "red", "failed": "red"}


def runs(
    root: Annotated[Path, typer.Argument(help="The folder that holds the runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line instead of a table.")] = False,
) -> None:
    """List the runs of a folder: finished, running, interrupted, failed or crashed."""
    from rich.console import Console

    from advshift.training import list_runs

    found = list_runs(root)
    if json:
        for run in found:
            row = {"path": str(run.path), "name": run.name, "status": run.status, "epoch": run.epoch, "last": run.last}
            typer.echo(json_module.dumps(row))
        return
    if not found:
        typer.echo(f"no runs in {root}")
        return
    console = Console()
    console.print(_table(found, root))
    for run in found:
        if run.status == "crashed":
            console.print(
                f"{run.path}: its process is gone; go on with  advshift train --output {run.path} --resume",
                style="red",
                highlight=False,
                soft_wrap=True,
            )
        elif run.record.get("reason"):
            console.print(f"{run.path}: {run.record['reason']}", style="yellow", highlight=False, soft_wrap=True)


def _table(found: list[RunInfo], root: Path) -> Table:
    from rich.table import Table

    from advshift.training.progress import duration

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("run", "status", "epoch", "split", "error", "worst class", "worst at 1", "time"):
        table.add_column(heading, justify="left" if heading in ("run", "status", "split") else "right", overflow="fold")
    for run in found:
        split = next((name for name in ("test", "validation") if run.measured and name in run.measured), None)
        measured = run.measured[split] if run.measured and split else {}
        worst = measured.get("worst_case", {}).get("1")
        table.add_row(
            str(run.path if run.path == root else run.path.relative_to(root)),
            f"[{STYLES.get(run.status, 'default')}]{run.status}[/]",
            f"{run.epoch}/{run.epochs}",
            split or "",
            _percent(measured.get("error")),
            _percent(measured.get("worst_class_error")),
            _percent(worst),
            duration(run.last["seconds"]) if run.last else "",
        )
    return table


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
