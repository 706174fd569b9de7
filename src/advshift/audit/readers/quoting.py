"""Names and constants as SQL writes them."""

from __future__ import annotations

__all__ = ["literal", "quoted"]


def quoted(name: str) -> str:
    """Quote a column's name."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int) -> str:
    """Write a text or a whole number as a constant."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(int(value))
