"""A picture of lines in a terminal: braille dots, or plain letters where only ASCII can be written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich.text import Text

from advshift.audit.record import AuditRecord
from advshift.report.curves import drawable, positions_of
from advshift.report.selection import estimate, titles
from advshift.report.words import Words, brief

__all__ = ["Canvas", "draw_curves"]

HEIGHT = 8
WIDEST = 64
NARROWEST = 10

# The bit of a braille character for the dot in column x (of 2) and row y (of 4).
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
LETTERS = "*o+x#@"


class Canvas:
    """A grid of characters, each with 2 by 4 dots, on which lines are drawn in unit coordinates.

    Parameters
    ----------
    width, height
        The size in characters.
    """

    def __init__(self, width: int, height: int) -> None:
        self.bits = np.zeros((height, width), dtype=np.int64)
        self.owner = np.full((height, width), -1, dtype=np.int64)

    def line(self, xs: Sequence[float], ys: Sequence[float], owner: int, *, sparse: bool = False) -> None:
        """Join points in the unit square; what is not finite breaks the line. `sparse` leaves every second dot out."""
        height, width = self.bits.shape
        pairs = list(zip(xs, ys, strict=True))
        for (x0, y0), (x1, y1) in zip(pairs, [*pairs[1:], pairs[-1]], strict=True):
            if not all(math.isfinite(number) for number in (x0, y0, x1, y1)):
                continue
            steps = max(int(abs(x1 - x0) * 2 * width), int(abs(y1 - y0) * 4 * height), 1)
            for step in range(0, steps + 1, 3 if sparse else 1):
                self._dot(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, owner, over=not sparse)

    def _dot(self, x: float, y: float, owner: int, *, over: bool) -> None:
        height, width = self.bits.shape
        column = min(max(round(x * (2 * width - 1)), 0), 2 * width - 1)
        row = min(max(round((1.0 - y) * (4 * height - 1)), 0), 4 * height - 1)
        place = (row // 4, column // 2)
        self.bits[place] |= DOTS[column % 2][row % 4]
        if over or self.owner[place] < 0:
            self.owner[place] = owner

    def rows(self, styles: Sequence[str], *, ascii_only: bool) -> list[Text]:
        """The lines of text, from the top down, each character in the style of the line that it shows."""
        rows = []
        for bits, owners in zip(self.bits, self.owner, strict=True):
            text = Text()
            for bit, owner in zip(bits, owners, strict=True):
                character = LETTERS[owner % len(LETTERS)] if ascii_only else chr(0x2800 + int(bit))
                text.append(character if bit else " ", style=styles[owner % len(styles)] if bit else "")
            rows.append(text)
        return rows


def draw_curves(
    record: AuditRecord, width: int, styles: Sequence[str], write: Callable[..., Text], *, ascii_only: bool
) -> Iterator[Text]:
    """Draw the worst-case curves, with their intervals as dotted lines, in so many columns.

    Parameters
    ----------
    record
        What the audit found; nothing is drawn where no model has a curve.
    width
        The columns to fill at most; a curve that would be too narrow to read is left out.
    styles
        Rich styles, one per model, repeated.
    write
        Turns a string and a style into text.
    ascii_only
        Draw with letters instead of braille.
    """
    words = Words(record)
    if not drawable(record):
        return
    low, high = _range(record)
    labels = [write(words.value(number)).plain for number in (high, low)]
    margin = max(map(len, labels)) + 1
    columns = min(WIDEST, width - margin - 1)
    if columns < NARROWEST:
        return
    canvas = Canvas(columns, HEIGHT)
    _draw(canvas, record, low, high)
    for index, row in enumerate(canvas.rows(styles, ascii_only=ascii_only)):
        label = {0: labels[0], HEIGHT - 1: labels[1]}.get(index, "")
        yield Text.assemble((f"{label:>{margin - 1}} {'|' if ascii_only else '│'}", "dim"), row)
    yield _foot(record, words, margin, columns, write)
    if len(record.models) > 1:
        yield from _key(record, styles, write, ascii_only=ascii_only)
    yield Text()


def _range(record: AuditRecord) -> tuple[float, float]:
    numbers = [
        number
        for model in record.models
        for point in model.curve
        for number in (estimate(point), point.lower, point.upper)
        if number is not None and math.isfinite(number)
    ]
    low, high = min(numbers), max(numbers)
    return low, high if high > low else low + 1.0


def _draw(canvas: Canvas, record: AuditRecord, low: float, high: float) -> None:
    places = positions_of(record)
    first, last = min(places.values()), max(places.values())
    for number, model in enumerate(record.models):
        xs = [(places[point.radius] - first) / ((last - first) or 1.0) for point in model.curve]
        for name in ("lower", "upper", ""):
            values = [getattr(point, name) if name else estimate(point) for point in model.curve]
            ys = [math.nan if value is None else (value - low) / (high - low) for value in values]
            canvas.line(xs, ys, number, sparse=bool(name))


def _foot(record: AuditRecord, words: Words, margin: int, columns: int, write: Callable[..., Text]) -> Text:
    places = positions_of(record)
    radii = sorted(places, key=lambda radius: places[radius])
    first, last = (write(words.number(radius)).plain for radius in (radii[0], radii[-1]))
    room = max(columns - len(first) - len(last), 1)
    middle = words.radius_name if len(words.radius_name) + 2 <= room else ""
    return Text(f"{'':>{margin}}{first}{middle:^{room}}{last}", style="dim")


def _key(record: AuditRecord, styles: Sequence[str], write: Callable[..., Text], *, ascii_only: bool) -> Iterator[Text]:
    for number, title in enumerate(titles(record)):
        mark = LETTERS[number % len(LETTERS)] if ascii_only else "━━"
        yield write(f"{mark} {brief(title)}", styles[number % len(styles)])
