"""What a run has measured so far: a line of numbers per epoch, and arrays by epoch and class."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from advshift.sets import KLBall
from advshift.training.folder import RunFolder
from advshift.training.tally import ClassResults

__all__ = ["History", "chosen_radius", "score", "summary"]


def summary(results: ClassResults, reference: Float[np.ndarray, " classes"], radii: Sequence[float]) -> dict[str, Any]:
    """The numbers of a split: loss, error, the worst class's error, and the worst-case errors of KL balls.

    The worst case is that of the sample (plug-in) around the training distribution; a class of which the split has no
    example takes no part in it.
    """
    found: dict[str, Any] = {"loss": results.loss, "error": results.error}
    present = (results.counts > 0) & (reference > 0)
    if not present.any():
        return found
    risks, centre = results.risks[present], reference[present]
    found["worst_class_error"] = float(risks.max())
    if radii:
        values = KLBall(np.array(radii)).worst_case(risks, centre / centre.sum()).value
        found["worst_case"] = {f"{radius:g}": float(value) for radius, value in zip(radii, values, strict=True)}
    return found


def score(measured: Mapping[str, Any] | None, name: str) -> float:
    """The number by which checkpoints compete; of the worst cases that at the largest radius up to 1.

    >>> score({"error": 0.3, "worst_case": {"0.5": 0.4, "1": 0.5, "2": 0.7}}, "worst_case")
    0.5
    """
    if measured is None:
        return math.inf
    if name != "worst_case":
        return float(measured.get(name, math.inf))
    values = measured.get("worst_case", {})
    chosen = chosen_radius(values)
    return float(measured["error"] if chosen is None else values[chosen])


def chosen_radius(values: Iterable[str]) -> str | None:
    """The largest radius up to 1, else the smallest; None of none."""
    within = [radius for radius in values if float(radius) <= 1.0]
    return max(within, key=float) if within else min(values, key=float, default=None)


class History:
    """Rows and arrays of the epochs that were recorded; saved with every checkpoint, so that both always agree."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.arrays: dict[str, list[Any]] = {}

    def add(
        self, row: dict[str, Any], splits: Mapping[str, ClassResults], **vectors: Float[np.ndarray, " classes"]
    ) -> None:
        """Record an epoch."""
        self.rows.append(row)
        named = {"epochs": np.int64(row["epoch"]), **vectors}
        for split, results in splits.items():
            named[f"{split}_counts"] = results.counts.astype(np.int64)
            named[f"{split}_errors"] = results.errors.astype(np.int64)
            named[f"{split}_losses"] = results.losses.astype(np.float32)
        for name, array in named.items():
            self.arrays.setdefault(name, []).append(array)

    def write(self, folder: RunFolder) -> None:
        """Replace the run's files."""
        folder.write_metrics(self.rows)
        folder.write_arrays(folder.classes, {name: np.stack(rows) for name, rows in self.arrays.items()})

    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for a checkpoint."""
        arrays = {name: torch.from_numpy(np.stack(rows)) for name, rows in self.arrays.items()}
        return {"rows": json.dumps(self.rows), "arrays": arrays}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> History:
        """The history that `state` described."""
        history = cls()
        history.rows = json.loads(state["rows"])
        history.arrays = {name: list(tensor.numpy()) for name, tensor in state["arrays"].items()}
        return history
