"""A record in the terminal: the answer in words, the tables that matter and a small curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from advshift.audit.record import AuditRecord, CurvePoint, ModelRecord
from advshift.report.canvas import draw_curves
from advshift.report.selection import (
    estimate,
    first_to_fix,
    gains,
    headline,
    readable,
    titles,
    worst_classes,
)
from advshift.report.sheet import Sheet
from advshift.report.words import Words, ratio_number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["render"]

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
MOST_RADII = 8
MOST_CLASSES = 5


def render(record: AuditRecord) -> RenderableType:
    """Return a record as something that a rich console prints, at any width, with or without colours or Unicode.

    Parameters
    ----------
    record
        What the audit found.
    """
    return _Report(record)


class _Report:
    def __init__(self, record: AuditRecord) -> None:
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _Page(self.record, options.max_width, ascii_only=options.ascii_only).parts()


class _Page(Sheet):
    """The parts of a report for one width and one kind of letters."""

    def __init__(self, record: AuditRecord, width: int, *, ascii_only: bool) -> None:
        super().__init__(width, ascii_only=ascii_only)
        self.record = record
        self.words = Words(record)

    def parts(self) -> Iterator[RenderableType]:
        names = titles(self.record)
        for number, (model, name) in enumerate(zip(self.record.models, names, strict=True)):
            yield self.text(name, f"bold {COLOURS[number % len(COLOURS)]}")
            yield from map(self.text, self._sentences(number, model))
            for table in (self._curve(model), self._mix(model), self._fix(model), self._worst(model)):
                if table.row_count:
                    yield Padding(table, (1, 0, 0, 0))
            yield Text()
        yield from draw_curves(self.record, self.width, COLOURS, self.text, ascii_only=self.ascii_only)
        for warning in self.record.warnings:
            yield Text.assemble(("! ", "bold yellow"), self.text(readable(warning.message)))

    def _sentences(self, number: int, model: ModelRecord) -> Iterator[str]:
        words = self.words
        yield words.answer(model)
        found = [
            words.together,
            words.worst_class(model),
            *[words.breaking_point(model, broken) for broken in model.breaking_points],
        ]
        found += [words.comparison(self.record.models[0], model)] if number else []
        yield from (sentence for sentence in found if sentence)

    def _curve(self, model: ModelRecord) -> Table:
        words = self.words
        headers = [words.radius_name, "worst case", f"interval ({words.confidence})", "times"]
        common = any(point.common is not None for point in model.curve)
        headers = [*headers, "kind", "guaranteed" if common else "plug-in", "guaranteed"]
        headers = headers[: (3, 4, 6 if common else 7)[self.level]]
        if common:
            headers.insert(2, "common mix")
        rows = [
            (
                words.number(point.radius),
                words.value(estimate(point)),
                *([words.value(point.common)] if common else []),
                words.span(point.lower, point.upper),
                "–" if point.max_ratio is None else f"×{ratio_number(point.max_ratio)}",
                words.kind_of(point),
                *([] if common else [words.value(point.plug_in)]),
                words.value(point.guaranteed_upper),
            )
            for point in _spread(model.curve)
        ]
        table = self.table("Worst case by radius", headers, rows)
        if self.level:
            table.caption = self.text("times: how many times as frequent the most favoured class is", "dim")
        return table

    def _mix(self, model: ModelRecord) -> Table:
        words, point = self.words, headline(self.record, model)
        found = [] if point is None else gains(self.record, model, point, MOST_CLASSES)
        headers = ["class", "times", "share", words.metric, words.adds][: (2, 3, 5)[self.level]]
        rows = [
            (
                self.label(gain.label),
                "new" if gain.ratio is None else f"×{ratio_number(gain.ratio)}",
                f"{words.share_of(gain.before)} → {words.share_of(gain.after)}",
                words.value(gain.risk),
                "–" if gain.adds is None else words.bare(gain.adds),
            )
            for gain in found
        ]
        return self.table(f"Who gains where {'' if point is None else words.radius(point)}", headers, rows)

    def _fix(self, model: ModelRecord) -> Table:
        words = self.words
        rows = [
            (self.label(entry.label), words.value(entry.risk), f"{entry.marginal:.3f}", words.bare(saves))
            for entry, saves in first_to_fix(self.record, model, MOST_CLASSES)
        ]
        return self.table("Fix these first", ["class", words.metric, "effect", words.saves], rows)

    def _worst(self, model: ModelRecord) -> Table:
        words = self.words
        headers = ["class", words.metric, "share", "examples", f"interval ({words.confidence})"]
        has_intervals = any(entry.upper is not None for entry in model.classes)
        rows = [
            (
                self.label(entry.label),
                words.value(entry.risk),
                words.share_of(entry.reference_share),
                f"{entry.count:,}",
                words.span(entry.lower, entry.upper),
            )
            for entry in worst_classes(self.record, model, MOST_CLASSES)
        ]
        return self.table("Worst classes", headers[: (2, 4, 5 if has_intervals else 4)[self.level]], rows)


def _spread(curve: Sequence[CurvePoint]) -> list[CurvePoint]:
    """So many points of a curve that they fit, both ends among them."""
    if len(curve) <= MOST_RADII:
        return list(curve)
    steps = [round(index * (len(curve) - 1) / (MOST_RADII - 1)) for index in range(MOST_RADII)]
    return [curve[index] for index in steps]
