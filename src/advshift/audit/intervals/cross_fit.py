"""The cross-fitted value: the adversary is chosen on one half of the sample and scored on the other.

It is too small on average where the plug-in value is too large, since an adversary that was chosen with noise is not
the worst one. It is not a confidence limit.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["cross_fitted_value", "split_ones"]


def cross_fitted_value(
    counts: Float[Array, "classes folds"],
    sums: Float[Array, "classes folds"],
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    repetitions: int = 10,
    generator: np.random.Generator,
) -> Float[Array, "*radii"]:
    """Average the scores of adversaries over both halves and several ways to halve the folds.

    Each class's folds are halved apart, so that its examples split as evenly as its folds allow. A class without
    examples in a half has there the mean of the half's other classes at the reference.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> counts, sums = np.full((3, 4), 10.0), np.array([[1.0] * 4, [2.0] * 4, [3.0] * 4])
    >>> cross_fitted_value(counts, sums, np.full(3, 1 / 3), KLBall(0.1), generator=generator).round(3).item()
    0.236
    """
    if counts.ndim != 2 or counts.shape != sums.shape or counts.shape[1] < 2:
        raise InputError(
            f"cross-fitting needs counts and sums of shape (classes, folds) with two folds or more; "
            f"got {counts.shape} and {sums.shape}"
        )
    if repetitions < 1:
        raise InputError(f"cross-fitting needs one repetition or more; got {repetitions}")
    scores = []
    for _ in range(repetitions):
        chosen = _halve(counts, generator)
        halves = [_risks((counts * part).sum(axis=1), (sums * part).sum(axis=1), reference) for part in chosen]
        for one, other in (halves, halves[::-1]):
            distribution = as_numpy(uncertainty_set.worst_case(one, reference).distribution)
            scores.append((distribution * other).sum(axis=-1))
    return np.mean(scores, axis=0)


def split_ones(
    ones: Float[Array, "classes"], counts: Float[Array, "classes"], folds: int, generator: np.random.Generator
) -> tuple[Float[Array, "classes folds"], Float[Array, "classes folds"]]:
    """Deal the examples of 0/1 values, of which only counts are known, into folds: as a random split would.

    Returns counts and ones by fold. The folds' sizes differ by one at most.

    >>> import numpy as np
    >>> counts, ones = split_ones(np.array([3.0]), np.array([10.0]), 2, np.random.default_rng(0))
    >>> counts.tolist(), float(ones.sum())
    ([[5.0, 5.0]], 3.0)
    """
    totals = counts.astype(np.int64)
    sizes = totals[:, None] // folds + (np.arange(folds) < (totals % folds)[:, None])
    left_ones, left = ones.astype(np.int64), totals
    dealt = np.zeros(sizes.shape)
    for fold in range(folds):
        dealt[:, fold] = generator.hypergeometric(left_ones, left - left_ones, sizes[:, fold])
        left_ones, left = left_ones - dealt[:, fold].astype(np.int64), left - sizes[:, fold]
    return sizes.astype(np.float64), dealt


def _halve(
    counts: Array, generator: np.random.Generator
) -> tuple[Bool[Array, "classes folds"], Bool[Array, "classes folds"]]:
    """Deal each class's folds, in random order, to the half that has fewer of its examples."""
    order = generator.permuted(np.tile(np.arange(counts.shape[1]), (len(counts), 1)), axis=1)
    first = np.zeros(counts.shape, dtype=bool)
    rows = np.arange(len(counts))
    balance = np.zeros(len(counts))
    for fold in order.T:
        coin = generator.random(len(counts)) < 0.5
        to_first = (balance < 0) | ((balance == 0) & coin)
        first[rows, fold] = to_first
        balance += np.where(to_first, 1.0, -1.0) * counts[rows, fold]
    return first, ~first


def _risks(counts: Array, sums: Array, reference: Array) -> Float[Array, "classes"]:
    known = counts > 0
    means = np.divide(sums, counts, out=np.zeros(sums.shape), where=known)
    weights = reference * known
    if not weights.sum() > 0:
        raise InputError("a half of the sample has no example of any class in the reference; cross-fitting needs more")
    return np.where(known, means, weights @ means / weights.sum())
