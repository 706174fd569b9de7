"""What is asked of a watch, who hears of it, and how it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from advshift.audit.readers.columns import Wanted
from advshift.audit.readers.sources import MAGIC, SUFFIXES
from advshift.errors import InputError
from advshift.monitor.settings import Settings

__all__ = ["STANDARD_INPUT", "Hearing", "Request", "Signals", "Silence", "Stopped"]

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Request:
    """What the command line asks for; every field has the meaning of the option of its name."""

    source: str
    stream: str = STANDARD_INPUT
    settings: Settings = field(default_factory=Settings)
    wanted: Wanted = field(default_factory=Wanted)
    classes: str | None = None
    renormalise: bool = False
    reference: str = "empirical"
    time: str | None = None
    follow: bool = False
    replay: bool = False
    on_bad_line: str = "skip"
    state: Path | None = None
    log: Path | None = None
    prometheus: Path | None = None
    memory: str = "1GB"

    def __post_init__(self) -> None:
        if self.settings.period is not None and self.time is None:
            raise InputError("a report per period needs the times of the predictions: name their column with --time")
        if self.follow and self.stream == STANDARD_INPUT:
            raise InputError("standard input is followed by itself; --follow is for a file that grows")
        if self.source == STANDARD_INPUT:
            raise InputError("the labelled source must be a file; standard input is for the stream")

    @property
    def is_table(self) -> bool:
        """Whether the stream has an order other than that of its lines, or no lines."""
        if self.stream == STANDARD_INPUT or self.follow:
            return False
        return self.time is not None or not _has_lines(Path(self.stream))


def _has_lines(path: Path) -> bool:
    """Whether this is one file of text; a few bytes that are no text are faults of their lines."""
    if not path.is_file() or SUFFIXES.get(path.suffix.lower()) in ("parquet", "npz", "npy"):
        return False
    with path.open("rb") as file:
        return not file.read(8).startswith(tuple(MAGIC))


@dataclass(frozen=True)
class Stopped:
    """How a watch ended: examples, those that wait for a report, alarms, faulty lines, the signal that ended it."""

    examples: int
    waiting: int
    alarms: int
    bad_lines: int
    signal: int | None


class Signals:
    """Remember the first SIGINT or SIGTERM, so that nothing is torn apart; a second one stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None

    def __call__(self) -> bool:
        """Whether one came."""
        return self.received is not None

    def _receive(self, number: int, frame: Any) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch both for a while; only the main thread can."""
        try:
            before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@runtime_checkable
class Hearing(Protocol):
    """Who hears of what happens: the log's first record, the reports, and notices in words."""

    def opened(self, header: dict[str, Any]) -> None:
        """The watch begins, or goes on."""

    def reported(self, report: dict[str, Any]) -> None:
        """A report was made."""

    def noticed(self, notice: str) -> None:
        """There is something that the user should know."""


class Silence:
    """Nobody hears."""

    def opened(self, header: dict[str, Any]) -> None:
        """Say nothing."""

    def reported(self, report: dict[str, Any]) -> None:
        """Say nothing."""

    def noticed(self, notice: str) -> None:
        """Say nothing."""
