"""`advshift reproduce`: the paper's protocol, run by run, and its figures from what was recorded."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advshift.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from advshift.experiments.queue import Standing, Store

__all__ = ["reproduce"]


def reproduce(
    store: Annotated[Path, typer.Option(help="The folder of runs and records.")] = Path("reproduction"),
    records: Annotated[
        Path | None, typer.Option(help="Where the records lie; else the folder 'records' in the store.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Take missing runs until none is left.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Say what is done, running and missing; the default.")
    ] = False,
    tiers: Annotated[str, typer.Option(help="Which tiers, with commas.")] = "tune,A,B,C,D",
    only: Annotated[
        list[str] | None, typer.Option(help="Only runs whose key matches, such as 'main/erm/*'; may be repeated.")
    ] = None,
    linear: Annotated[
        list[str] | None,
        typer.Option(help="With --run: train every method on this set's linear models instead: digits or reuters52."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that run side by side.")] = 1,
    data: Annotated[str | None, typer.Option(help="Where the data lie; else $ADVSHIFT_DATA.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Begin no run after so many minutes.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw all figures, or those of --figure, from the records into this folder.")
    ] = None,
    figure: Annotated[list[str] | None, typer.Option(help="With --figures: draw this one; may be repeated.")] = None,
    tables: Annotated[Path | None, typer.Option(help="Write all tables into this Markdown file.")] = None,
) -> None:
    """Run the paper's protocol as a queue that can be stopped at any time, and draw its figures."""
    if figure and figures is None:
        raise InputError("--figure needs a folder to draw into: add --figures FOLDER")
    if linear and not run:
        raise InputError("--linear says what to train: add --run")
    wanted = _tiers(tiers)
    recorded = store / "records" if records is None else records
    if figures is not None or tables is not None:
        _draw(recorded, figures, figure, tables)
        return
    if linear:
        _train_linear(linear, recorded, data)
        return
    if run and jobs > 1:
        _fan_out(jobs)
        return
    from advshift.experiments.queue import Store

    place = Store(store, records)
    if run:
        _work(place, wanted, only or ["*"], data, minutes)
    else:
        _show(place, wanted, only or ["*"])


def _tiers(text: str) -> list[str]:
    from advshift.experiments.protocol import TIERS

    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in TIERS:
            raise InputError(f"unknown tier {word!r} (known: {', '.join(TIERS)})")
    return found or list(TIERS)


def _draw(records: Path, figures: Path | None, names: list[str] | None, tables: Path | None) -> None:
    """Figures and tables, from records alone."""
    from advshift.experiments.figures import draw_figures
    from advshift.experiments.linear_store import linear_records
    from advshift.experiments.records import load_records
    from advshift.experiments.tables import write_tables
    from advshift.files import check_writable, write_atomically

    if tables is not None:
        check_writable(tables)
    found = {**load_records(records), **linear_records(records)}
    if figures is not None:
        drawn = draw_figures(found, figures, names, tell=lambda line: typer.echo(line))
        typer.echo(f"{drawn} figures in {figures}, light and dark")
    if tables is not None:
        write_atomically(tables, write_tables(found))
        typer.echo(f"tables in {tables}")


def _train_linear(names: list[str], records: Path, data: str | None) -> None:
    from advshift.experiments.linear import run_linear

    for name in names:
        run_linear(name, records, data, lambda line: typer.echo(line))


def _work(store: Store, tiers: list[str], only: list[str], data: str | None, minutes: float | None) -> None:
    from advshift.experiments.queue import work

    until = None if minutes is None else time.monotonic() + 60 * minutes
    done = work(store, tiers=tiers, only=only, data=data, until=until, tell=lambda line: typer.echo(line))
    typer.echo(f"{done} runs done here")


def _fan_out(jobs: int) -> None:
    """Start this command again, as many times as asked, each for one run at a time."""
    words = list(sys.argv[1:])
    for place, word in enumerate(words):
        if word == "--jobs":
            words[place + 1] = "1"
        elif word.startswith("--jobs="):
            words[place] = "--jobs=1"
    workers = [subprocess.Popen([sys.executable, "-m", "advshift", *words]) for _ in range(jobs)]
    codes = [worker.wait() for worker in workers]
    failed = [code for code in codes if code]
    if failed:
        raise InputError(f"{len(failed)} of {jobs} processes stopped early; what they recorded is kept: run it again")


def _show(store: Store, tiers: list[str], only: list[str]) -> None:
    from rich.console import Console

    from advshift.experiments.queue import status

    Console().print(_table(status(store, tiers, only)))
    for line in _linear_lines(store.records):
        typer.echo(line)


def _linear_lines(records: Path) -> list[str]:
    """How the linear models stand."""
    from advshift.experiments.linear import planned_runs
    from advshift.experiments.linear_methods import BASES
    from advshift.experiments.linear_store import linear_path, read_linear

    lines = []
    for name in BASES:
        path = linear_path(records, name)
        done = len(read_linear(path)["runs"]) if path.exists() else 0
        lines.append(f"linear models on {name}: {done} of {planned_runs(name)} runs done")
    return lines


def _table(standings: list[Standing]) -> Table:
    from collections import Counter

    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    states = ("done", "diverged", "running", "missing", "waiting")
    for heading in ("tier", "group", "epochs", *states):
        table.add_column(heading, justify="left" if heading in ("tier", "group") else "right")
    groups: dict[tuple[str, str], Counter[str]] = {}
    epochs: Counter[tuple[str, str]] = Counter()
    for run, state in standings:
        groups.setdefault((run.tier, run.group), Counter())[state] += 1
        epochs[run.tier, run.group] += run.epochs
    for (tier, group), counts in groups.items():
        table.add_row(tier, group, f"{epochs[tier, group]:,}", *(str(counts[state] or "") for state in states))
    return table
