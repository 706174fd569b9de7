"""Which commit of the project this is: written in by `git archive`, else asked of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["commit"]

ARCHIVED = "$Format:%H$"


def commit() -> str | None:
    """The commit of the sources, or None where nobody knows."""
    if not ARCHIVED.startswith("$"):
        return ARCHIVED
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
