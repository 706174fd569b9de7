"""How a watch speaks: its reports, its notices, and its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from advshift.monitor.request import Stopped

__all__ = ["Voice", "say_how_it_ended"]

FAILED = 3  # the exit code of --fail-on-alarm


class Voice:
    """Reports go to standard output as they come, notices to standard error."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.header: dict[str, Any] = {}

    def opened(self, header: dict[str, Any]) -> None:
        """Say what is watched."""
        from advshift.report.stream import beginning, columns

        self.header = header
        if self.as_json:
            _say(json.dumps(header, ensure_ascii=False))
        elif not self.quiet:
            typer.secho(beginning(header), err=True, dim=True)
            _say(columns(header))

    def reported(self, report: dict[str, Any]) -> None:
        """Say what a report holds."""
        from advshift.report.stream import sentence

        if self.as_json:
            _say(json.dumps(report, ensure_ascii=False))
        elif not self.quiet:
            _say(sentence(self.header, report))

    def noticed(self, notice: str) -> None:
        """Say what the user should know."""
        typer.secho(notice, err=True, dim=True)


def _say(line: str) -> None:
    """Print at once: what reads us may be waiting."""
    print(line, flush=True)  # noqa: T201


def say_how_it_ended(stopped: Stopped, state: Path | None, *, fail_on_alarm: bool) -> None:
    """Say how it ended, and stop with the code that belongs to that."""
    if stopped.bad_lines:
        lines = "1 faulty line was" if stopped.bad_lines == 1 else f"{stopped.bad_lines:,} faulty lines were"
        typer.secho(f"{lines} passed over", err=True, fg=typer.colors.YELLOW)
    if stopped.waiting:
        kept = f", kept in {state}" if state is not None else ""
        some = "1 example waits" if stopped.waiting == 1 else f"{stopped.waiting:,} examples wait"
        typer.secho(f"{some} for the next report{kept}", err=True, dim=True)
    if stopped.signal is not None:
        how = "the same command goes on from there" if state is not None else "nothing was kept: --state FILE would"
        typer.secho(f"stopped after {stopped.examples:,} examples; {how}", err=True)
        raise typer.Exit(128 + stopped.signal)
    if fail_on_alarm and stopped.alarms:
        raise typer.Exit(FAILED)
