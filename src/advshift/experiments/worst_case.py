"""The paper's protocol on class errors: the worst case around a centre, and what two runs or many say together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.experiments.records import Record
from advshift.sets import KLBall

__all__ = ["Centre", "Summary", "curve", "paired", "summarise", "worst_case"]

Centre = str  # "training" or "uniform"


class Summary(NamedTuple):
    """Mean, standard deviation over seeds, and a 95 % interval of the mean (Student); nan with a single seed."""

    mean: float
    deviation: float
    lower: float
    upper: float
    seeds: int


def centre_of(record: Record, centre: Centre) -> Float[np.ndarray, " classes"]:
    """The centre of the ball: the training distribution, or the uniform one over its classes."""
    reference = record.reference
    if centre == "training":
        return reference
    support = reference > 0
    return np.asarray(support / support.sum())


def curve(
    record: Record,
    split: str,
    radii: Sequence[float] | Float[np.ndarray, " radii"],
    *,
    centre: Centre = "training",
    epoch: int = -1,
) -> Float[np.ndarray, " radii"]:
    """The plug-in worst-case errors of a run on a split, one for each radius."""
    return worst_case(record.risks(split, epoch), centre_of(record, centre), radii)


def worst_case(
    risks: Float[np.ndarray, " classes"],
    centre: Float[np.ndarray, " classes"],
    radii: Sequence[float] | Float[np.ndarray, " radii"],
) -> Float[np.ndarray, " radii"]:
    """The largest risk under the distributions of KL balls around a centre.

    >>> worst_case(np.array([0.1, 0.3]), np.array([0.5, 0.5]), [0.0, 1.0]).round(3)
    array([0.2, 0.3])
    """
    return np.asarray(KLBall(np.asarray(radii, float)).worst_case(risks, centre).value)


def summarise(values: Sequence[float] | Float[np.ndarray, " seeds"]) -> Summary:
    """Mean, deviation and interval of numbers that seeds gave.

    >>> summarise([1.0, 2.0, 3.0]).mean
    2.0
    """
    from scipy.stats import t

    array = np.asarray(values, float)
    mean = float(array.mean())
    if array.size < 2:
        return Summary(mean, np.nan, np.nan, np.nan, array.size)
    deviation = float(array.std(ddof=1))
    half = float(t.ppf(0.975, array.size - 1)) * deviation / np.sqrt(array.size)
    return Summary(mean, deviation, mean - half, mean + half, array.size)


def paired(first: dict[int, float], second: dict[int, float]) -> Summary:
    """Summarise `first - second` over the seeds that both have."""
    seeds = sorted(first.keys() & second.keys())
    return summarise([first[seed] - second[seed] for seed in seeds])
