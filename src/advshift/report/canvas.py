"""A picture of lines in a terminal: braille dots, or plain letters where only ASCII can be written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.text import Text

__all__ = ["Canvas"]

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
