"""A record in the terminal: the answer in words, a small curve, and the tables that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from advshift.audit.record import AuditRecord, CurvePoint, ModelRecord
from advshift.report.canvas import LETTERS, Canvas
from advshift.report.selection import (
    estimate,
    first_to_fix,
    gains,
    headline,
    readable,
    titles,
    worst_classes,
)
from advshift.report.words import Words, brief, ratio_number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["render"]

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
MOST_RADII = 8
MOST_CLASSES = 5
NARROW = 72  # columns below which a table keeps only what is needed to read it
HEIGHT = 8
WIDEST = 64


def render(record: AuditRecord) -> RenderableType:
    """Return a record as something that a rich console prints, at any width, with or without colours.

    Parameters
    ----------
    record
        What the audit found.
    """
    words = Words(record)
    parts: list[RenderableType] = []
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        parts += [*_model(record, words, number, model, title), ""]
    if _drawable(record):
        parts += [_Curve(record), ""]
    parts += [_notice(warning.message) for warning in record.warnings]
    return Group(*parts)


def _model(record: AuditRecord, words: Words, number: int, model: ModelRecord, title: str) -> Iterator[RenderableType]:
    yield Text(title, style=f"bold {COLOURS[number % len(COLOURS)]}")
    yield Text(words.answer(model))
    sentences = [words.worst_class(model), *[words.breaking_point(model, broken) for broken in model.breaking_points]]
    sentences += [words.comparison(record.models[0], model)] if number else []
    for sentence in sentences:
        if sentence:
            yield Text(sentence)
    yield _Tables(record, model)


def _notice(message: str) -> RenderableType:
    return Text.assemble(("! ", "bold yellow"), readable(message))


class _Tables:
    """The tables of one model, with as many columns as the terminal has room for."""

    def __init__(self, record: AuditRecord, model: ModelRecord) -> None:
        self.record = record
        self.model = model
        self.words = Words(record)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= NARROW
        yield Padding(self._curve(wide=wide), (1, 0, 0, 0))
        for table in (self._mix(), self._fix(), self._worst(wide=wide)):
            if table.row_count:
                yield Padding(table, (1, 0, 0, 0))

    def _curve(self, *, wide: bool) -> Table:
        words = self.words
        headers = [words.radius_name, "times", "worst case", f"interval ({words.confidence})"]
        table = _table("Worst case by radius", headers + (["kind", "plug-in", "guaranteed"] if wide else []))
        for point in _spread(self.model.curve):
            ratio = "–" if point.max_ratio is None else f"×{ratio_number(point.max_ratio)}"
            row = [
                words.number(point.radius),
                ratio,
                words.value(estimate(point)),
                words.span(point.lower, point.upper),
            ]
            more = [words.kind_of(point), words.value(point.plug_in), words.value(point.guaranteed_upper)]
            table.add_row(*map(Text, row + (more if wide else [])))
        table.caption = Text("times: how many times as frequent the most favoured class is", style="dim")
        return table

    def _mix(self) -> Table:
        words, point = self.words, headline(self.record, self.model)
        where = "" if point is None else f" where {words.radius(point)}"
        table = _table(f"Who gains{where}", ["class", "times", "share", words.metric, words.adds])
        for gain in [] if point is None else gains(self.record, self.model, point, MOST_CLASSES):
            ratio = "new" if gain.ratio is None else f"×{ratio_number(gain.ratio)}"
            adds = "–" if gain.adds is None else words.bare(gain.adds)
            share = f"{words.share_of(gain.before)} → {words.share_of(gain.after)}"
            table.add_row(*map(Text, (brief(gain.label), ratio, share, words.value(gain.risk), adds)))
        return table

    def _fix(self) -> Table:
        table = _table("Fix these first", ["class", "effect on the worst case", self.words.metric])
        for entry in first_to_fix(self.model, MOST_CLASSES):
            effect = f"{entry.marginal:.3f}"
            table.add_row(*map(Text, (brief(readable(entry.label)), effect, self.words.value(entry.risk))))
        return table

    def _worst(self, *, wide: bool) -> Table:
        words = self.words
        headers = ["class", words.metric, f"interval ({words.confidence})"]
        table = _table("Worst classes", headers + (["share", "examples"] if wide else []))
        for entry in worst_classes(self.record, self.model, MOST_CLASSES):
            row = [brief(readable(entry.label)), words.value(entry.risk), words.span(entry.lower, entry.upper)]
            more = [words.share_of(entry.reference_share), f"{entry.count:,}"]
            table.add_row(*map(Text, row + (more if wide else [])))
        return table


def _table(title: str, headers: Sequence[str]) -> Table:
    table = Table(
        title=Text(title, style="bold"), title_justify="left", caption_justify="left", box=None, pad_edge=False
    )
    for header in headers:
        named = header == "class"
        table.add_column(Text(header, style="dim"), justify="left" if named else "right", overflow="fold")
    return table


def _spread(curve: Sequence[CurvePoint]) -> list[CurvePoint]:
    """So many points of a curve that they fit, both ends among them."""
    if len(curve) <= MOST_RADII:
        return list(curve)
    steps = [round(index * (len(curve) - 1) / (MOST_RADII - 1)) for index in range(MOST_RADII)]
    return [curve[index] for index in steps]


def _drawable(record: AuditRecord) -> bool:
    return any(sum(estimate(point) is not None for point in model.curve) > 1 for model in record.models)


class _Curve:
    """The worst-case curves with their intervals, in braille or, where that cannot be written, in letters."""

    def __init__(self, record: AuditRecord) -> None:
        self.record = record
        self.words = Words(record)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lowest, highest = self._range()
        labels = [self.words.value(highest), self.words.value(lowest)]
        margin = max(map(len, labels)) + 1
        width = min(WIDEST, options.max_width - margin - 1)
        if width < 10:
            return
        canvas = Canvas(width, HEIGHT)
        self._draw(canvas, lowest, highest)
        rows = canvas.rows(COLOURS, ascii_only=options.ascii_only)
        axis = "|" if options.ascii_only else "│"
        for index, row in enumerate(rows):
            label = labels[0] if index == 0 else labels[1] if index == len(rows) - 1 else ""
            yield Text.assemble((f"{label:>{margin - 1}} {axis}", "dim"), row)
        yield from self._foot(margin, width, ascii_only=options.ascii_only)

    def _range(self) -> tuple[float, float]:
        numbers = [
            number
            for model in self.record.models
            for point in model.curve
            for number in (estimate(point), point.lower, point.upper)
            if number is not None and math.isfinite(number)
        ]
        lowest, highest = min(numbers), max(numbers)
        return lowest, highest if highest > lowest else lowest + 1.0

    def _draw(self, canvas: Canvas, lowest: float, highest: float) -> None:
        for number, model in enumerate(self.record.models):
            points = [point for point in model.curve if math.isfinite(point.radius)]
            xs = _places([point.radius for point in points])
            lines = {
                True: ([point.lower for point in points], [point.upper for point in points]),
                False: ([estimate(point) for point in points],),
            }
            for sparse, found in lines.items():
                for values in found:
                    ys = [math.nan if value is None else (value - lowest) / (highest - lowest) for value in values]
                    canvas.line(xs, ys, number, sparse=sparse)

    def _foot(self, margin: int, width: int, *, ascii_only: bool) -> Iterator[Text]:
        radii = [point.radius for model in self.record.models for point in model.curve if math.isfinite(point.radius)]
        first, last = self.words.number(min(radii)), self.words.number(max(radii))
        middle = f"{self.words.radius_name} (square-root scale)"
        gap = max(width - len(first) - len(last), 1)
        middle = f"{middle:^{gap}}" if len(middle) + 2 <= gap else " " * gap
        yield Text(f"{'':>{margin}}{first}{middle}{last}", style="dim")
        if len(self.record.models) > 1:
            yield Text(" ").join(self._key(ascii_only=ascii_only))

    def _key(self, *, ascii_only: bool) -> list[Text]:
        return [
            Text(
                f"{LETTERS[number % len(LETTERS)] if ascii_only else '━━'} {brief(title)} ",
                COLOURS[number % len(COLOURS)],
            )
            for number, title in enumerate(titles(self.record))
        ]


def _places(radii: Sequence[float]) -> list[float]:
    """Where radii stand in the unit interval, on the square-root scale on which curves are about straight."""
    roots = [math.sqrt(max(radius, 0.0)) for radius in radii]
    low, high = min(roots, default=0.0), max(roots, default=0.0)
    return [(root - low) / ((high - low) or 1.0) for root in roots]
