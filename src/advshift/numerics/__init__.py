"""Pure functions on arrays, written once for NumPy and torch."""

from __future__ import annotations

__all__: list[str] = []
