"""The values that an audit can average: 0/1 error, top-k error, log-loss, Brier score, cost, or a column as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.audit.labels import Label
from advshift.errors import InputError
from advshift.registry import nearest
from advshift.types import Array

__all__ = [
    "SMALLEST",
    "TOLERANCE",
    "Metric",
    "as_metric",
    "check_probabilities",
    "unnormalised",
    "values_of_predictions",
    "values_of_probabilities",
]

TOLERANCE = 1e-3  # how far from one a row of probabilities may sum: half-precision outputs are within it
SMALLEST = 2.0**-52  # a probability below counts as this in the log-loss, so one example cannot make it infinite

NAMED = ("error", "log-loss", "brier", "cost")
SYNONYMS = {
    "accuracy": "error",
    "zero-one": "error",
    "0/1": "error",
    "log_loss": "log-loss",
    "logloss": "log-loss",
    "nll": "log-loss",
}


@dataclass(frozen=True)
class Metric:
    """A value per example, of which higher is worse.

    Attributes
    ----------
    name
        `error`, `top-5 error`, `log-loss`, `brier`, `cost`, or the name of a column.
    kind
        One of `error`, `top-k`, `log-loss`, `brier`, `cost`, `column`.
    k
        The number of guesses of a top-k error.
    bounds
        What the value cannot leave, where that is known beforehand.
    costs
        The cost of a prediction (second) for a label (first).
    """

    name: str
    kind: str
    k: int = 0
    bounds: tuple[float | int, float | int] | None = None
    costs: Mapping[tuple[Label, Label], float] = field(default_factory=dict)

    @property
    def needs_probabilities(self) -> bool:
        """Whether predictions alone do not suffice."""
        return self.kind in ("top-k", "log-loss", "brier")


def as_metric(
    name: str,
    *,
    costs: Mapping[tuple[Label, Label], float] | None = None,
    bounds: tuple[float | int, float | int] | None = None,
    columns: tuple[str, ...] = ("loss",),
) -> Metric:
    """Find a metric by its name; `columns` are the names of columns that hold a value per example.

    >>> as_metric("top-5").name
    'top-5 error'
    """
    wanted = SYNONYMS.get(name.lower(), name)
    guesses = re.fullmatch(r"top[-_ ]?(\d+)([-_ ]error)?", wanted.lower())
    if guesses and int(guesses[1]) > 0:
        return Metric(f"top-{int(guesses[1])} error", "top-k", k=int(guesses[1]), bounds=(0.0, 1.0))
    if wanted == "error":
        return Metric("error", "error", bounds=(0.0, 1.0))
    if wanted == "brier":
        return Metric("brier", "brier", bounds=(0.0, 2.0))
    if wanted == "log-loss":
        return Metric("log-loss", "log-loss", bounds=(0.0, -float(np.log(SMALLEST))))
    if wanted == "cost":
        if not costs:
            raise InputError("the metric 'cost' needs a cost for each label and prediction: give --costs FILE")
        return Metric("cost", "cost", bounds=(min(costs.values()), max(costs.values())), costs=costs)
    if wanted in columns:
        return Metric(wanted, "column", bounds=bounds)
    known = (*NAMED, "top-K", *columns)
    raise InputError(f"unknown metric {name!r}{nearest(name, known)} (known: {', '.join(known)}, where K is a number)")


def check_probabilities(
    probabilities: Float[Array, "examples classes"], *, renormalise: bool, name: str = "the probabilities"
) -> None:
    """Raise unless every row is a distribution; with `renormalise` its sum need not be one."""
    total = probabilities.sum(axis=1)
    lowest = probabilities.min(axis=1, initial=0.0)
    for wrong, fault in (
        (~np.isfinite(total), "are not all finite numbers"),
        (lowest < 0, "include a negative number; give probabilities, not logits"),
        (total <= 0, "are all zero"),
    ):
        if wrong.any():
            raise InputError(f"{name} of example {int(np.argmax(wrong))} (counted from 0) {fault}")
    off = np.abs(total - 1.0)
    if not renormalise and off.size and off.max() > TOLERANCE:
        row = int(np.argmax(off))
        raise InputError(unnormalised(name, f"example {row} (counted from 0)", float(total[row])))


def unnormalised(name: str, row: str, total: float) -> str:
    """Say by how much a row of probabilities misses a sum of one."""
    return (
        f"{name} must sum to 1 in every row; those of {row} sum to {total:.6g}, off by {abs(total - 1):.3g}, "
        "the most of all. Renormalise them (--renormalise), or give probabilities instead of scores"
    )


def values_of_probabilities(
    metric: Metric, probabilities: Float[Array, "examples classes"], codes: Int[Array, "examples"]
) -> Float[Array, "examples"]:
    """Compute a metric from probabilities and the columns of the true classes.

    The error's guess is the first class of the largest probability. A top-k error counts ties against the model: the
    true class must be among the k of largest probability whichever way ties are broken. Log-loss and Brier score
    divide by the row's sum first.
    """
    own = probabilities[np.arange(len(codes)), codes]
    total = probabilities.sum(axis=1)
    if metric.kind == "error":
        return (probabilities.argmax(axis=1) != codes).astype(np.float64)
    if metric.kind == "top-k":
        return ((probabilities >= own[:, None]).sum(axis=1) > metric.k).astype(np.float64)
    if metric.kind == "log-loss":
        return -np.log(np.maximum(own / total, SMALLEST))
    if metric.kind == "brier":
        return np.vecdot(probabilities, probabilities) / total**2 - 2.0 * own / total + 1.0
    raise InputError(f"the metric {metric.name!r} cannot be computed from probabilities; give predictions or losses")


def values_of_predictions(metric: Metric, labels: Any, predictions: Any) -> Float[Array, "examples"]:
    """Compute the error or the cost of predicted classes."""
    if metric.kind == "error":
        return (labels != predictions).astype(np.float64)
    if metric.kind != "cost":
        raise InputError(f"the metric {metric.name!r} needs probabilities; only predictions were given")
    return np.array([cost_of(metric, *pair) for pair in zip(labels.tolist(), predictions.tolist(), strict=True)])


def cost_of(metric: Metric, label: Label, prediction: Label) -> float:
    """Look up one cost, or say which one is missing."""
    try:
        return metric.costs[label, prediction]
    except KeyError:
        raise InputError(f"the costs have no entry for label {label!r} predicted as {prediction!r}; add one") from None
