"""What every terminal report shares: letters that the terminal has, and tables that fit its width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from advshift.report.selection import readable
from advshift.report.words import brief

__all__ = ["Sheet"]

NARROW = 72  # columns below which a table keeps only what is needed to read it
TINY = 46  # columns below which it keeps even less
PLAIN = str.maketrans({"–": "-", "−": "-", "→": "->", "×": "x", "“": '"', "”": '"', "…": "...", "∞": "inf"})


class Sheet:
    """One width and one kind of letters. `level` is 2 for a wide terminal, 1 for a narrow one, 0 for less."""

    def __init__(self, width: int, *, ascii_only: bool) -> None:
        self.width = width
        self.level = 2 if width >= NARROW else 1 if width >= TINY else 0
        self.ascii_only = ascii_only

    def text(self, text: str, style: str = "") -> Text:
        """Text in letters that the terminal has; a number and its unit are one word, for no line may end between."""
        text = text.replace("\u00a0%", "%").replace("\u00a0", " ")
        if self.ascii_only:
            text = text.translate(PLAIN).encode("ascii", "backslashreplace").decode()
        return Text(text, style)

    def label(self, label: object) -> str:
        """A class's name, short enough for a table."""
        return brief(readable(label), max(12, self.width // 3))

    def table(self, title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
        """A table without lines; the column of classes is flush left, and numbers flush right."""
        heading = self.text(title, "bold")
        table = Table(title=heading, title_justify="left", caption_justify="left", box=None, pad_edge=False)
        for header in headers:
            side = "left" if header == "class" else "right"
            table.add_column(self.text(header, "dim"), justify=side, overflow="fold")  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*[self.text(cell) for cell in row[: len(headers)]])
        return table
