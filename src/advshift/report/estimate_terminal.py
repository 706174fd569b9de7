"""An estimate on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from advshift.estimation.record import EstimateRecord
from advshift.report.estimate_words import EstimateWords, moved_most, next_steps
from advshift.report.selection import readable
from advshift.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["list_steps", "render_estimate"]

MOST_CLASSES = 20
MOST_DEVIATING = 5


def render_estimate(record: EstimateRecord) -> RenderableType:
    """Return an estimate as something that a rich console prints, at any width, with or without Unicode.

    Parameters
    ----------
    record
        What was found.
    """
    return _Report(record)


def list_steps(record: EstimateRecord, *, saved: str | None = None, columns: Sequence[str] = ()) -> str:
    """The commands to type next as plain text, for they must survive being copied: no line of theirs is broken.

    Parameters
    ----------
    record
        What was found.
    saved
        Where it was saved as JSON.
    columns
        The options that named columns.
    """
    steps = next_steps(record, saved, columns)
    return "\n".join(["", "Next", *[f"  {reason}:\n    {command}" for reason, command in steps]])


class _Report:
    def __init__(self, record: EstimateRecord) -> None:
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _Page(self.record, options.max_width, ascii_only=options.ascii_only).parts()


class _Page(Sheet):
    """The parts of a report for one width and one kind of letters."""

    def __init__(self, record: EstimateRecord, width: int, *, ascii_only: bool) -> None:
        super().__init__(width, ascii_only=ascii_only)
        self.record = record
        self.words = EstimateWords(record)

    def parts(self) -> Iterator[RenderableType]:
        record, words = self.record, self.words
        yield self.text(f"Mix of {readable(record.target.path)}, {record.target.rows:,} rows", "bold cyan")
        yield self.text(words.verdict, "bold red" if words.fails else "")
        yield self.text(words.answer)
        yield self.text(words.distance)
        yield from map(self.text, words.accuracy)
        for table in (self._classes(), self._deviating()):
            if table.row_count:
                yield Padding(table, (1, 0, 0, 0))
        yield Text()
        yield self.text(f"How: {words.method}.", "dim")
        yield self.text(words.diagnostics, "dim")
        yield self.text(words.ball)
        for warning in record.warnings:
            yield Text.assemble(("! ", "bold yellow"), self.text(readable(warning.message)))

    def _classes(self) -> Table:
        words, shown = self.words, moved_most(self.record, MOST_CLASSES)
        headers = ["class", "source", "target", f"interval ({words.confidence})", "times", "predicted", "accuracy"]
        rows = [
            (
                self.label(entry.label),
                words.share(entry.source),
                words.share(entry.estimate),
                words.span(entry.lower, entry.upper),
                words.times(entry),
                words.share(entry.predicted),
                words.share(entry.accuracy),
            )
            for entry in shown
        ]
        count = len(self.record.classes)
        title = "Estimated mix" if len(shown) == count else f"The {len(shown)} of {count:,} classes that moved most"
        table = self.table(title, headers[: (3, 5, 7)[self.level]], rows)
        if self.level == 2:
            said = "predicted: the share of target rows predicted so; accuracy: on the source's examples of the class"
            table.caption = self.text(said, "dim")
        return table

    def _deviating(self) -> Table:
        words = self.words
        headers = ["class", "predicted", "explained", "p"]
        rows = [
            (
                self.label(entry.label),
                words.share(entry.predicted),
                words.share(entry.expected),
                "–" if entry.p_value is None else f"{entry.p_value:.2g}",
            )
            for entry in words.deviating()[:MOST_DEVIATING]
        ]
        return self.table("Predictions that no mix of the source's classes explains", headers, rows)
