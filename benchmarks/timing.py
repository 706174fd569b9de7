"""Ratios on a noisy machine: the peers run in turns in one process, and medians of many turns are compared."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

__all__ = ["Timing", "environment", "interleave", "ratio", "save"]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median over the turns, and the quartiles."""

    median: float
    low: float
    high: float
    turns: int

    def __str__(self) -> str:
        """The median with its quartiles in a readable unit."""
        unit, scale = next(
            (u, s) for u, s in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if self.median * s >= 1 or u == "µs"
        )
        return f"{self.median * scale:.3g} {unit} ({self.low * scale:.3g}–{self.high * scale:.3g})"


def _seconds(function: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls


def interleave(functions: dict[str, Callable[[], object]], *, turns: int = 21, slot: float = 0.02) -> dict[str, Timing]:
    """Time every function in turns; in each turn a quick function is called until its slot (in seconds) is filled."""
    calls = {}
    for name, function in functions.items():
        function()
        calls[name] = max(1, int(slot / max(_seconds(function, 1), 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(turns):
        for name, function in functions.items():
            times[name].append(_seconds(function, calls[name]))
    quartiles = {name: np.quantile(values, [0.5, 0.25, 0.75]) for name, values in times.items()}
    return {name: Timing(*map(float, values), turns) for name, values in quartiles.items()}


def ratio(slow: Timing, quick: Timing) -> tuple[float, float, float]:
    """How many times quicker: of the medians, and the range that the quartiles allow."""
    return slow.median / quick.median, slow.low / quick.high, slow.high / quick.low


def environment(*packages: str) -> dict[str, object]:
    """What the numbers were measured with."""
    here = Path(__file__).parent
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip() or None,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: version(name) for name in packages},
    }


def save(path: Path, record: dict[str, object]) -> None:
    """Write a record as JSON, timings as their numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, default=asdict) + "\n")
