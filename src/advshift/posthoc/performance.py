"""Performance without labels: class means from the source, mixed by the target's estimated label distribution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.types import Array, ArrayLike, PriorEstimate

__all__ = ["Performance", "expected_performance"]


class Performance(NamedTuple):
    """What to expect on the target.

    Attributes
    ----------
    value
        The expected mean, `Σ_y q_y a_y`.
    low, high
        Its confidence interval; within [0, 1] where the values are.
    standard_error
        Of `value`: from the label distribution and from the class means.
    class_means
        `a`, the mean of each class on the source.
    """

    value: float
    low: float
    high: float
    standard_error: float
    class_means: Float[Array, " classes"]


def expected_performance(
    estimate: PriorEstimate, values: ArrayLike, labels: ArrayLike, *, confidence: float = 0.95
) -> Performance:
    """Predict a model's mean value (accuracy, loss, cost) on the target, whose labels nobody has.

    Right under label shift, whatever the calibration; test that assumption with `shift_test`. The variance has a part
    from the label distribution, `a'Σa`, one from the class means, `Σ q_y² s_y²/n_y`, and what both have in common where
    they come from the same source; where that cannot be known, the standard errors are added, which is careful.

    Parameters
    ----------
    estimate
        The target's label distribution, with a covariance.
    values
        One number per source example, such as 1 where the prediction is right and 0 where it is wrong; in the order
        in which the estimator was fitted.
    labels
        The class of each source example.
    confidence
        Of the interval.

    >>> from advshift.types import PriorEstimate
    >>> half = np.array([0.5, 0.5])
    >>> estimate = PriorEstimate(np.array([0.2, 0.8]), half, np.zeros((2, 2)), None, True, 1, 40, 40)
    >>> round(expected_performance(estimate, [1, 1, 1, 0] * 10, [0, 0, 1, 1] * 10).value, 6)
    0.6
    """
    found, classes = as_numpy(values), as_numpy(labels)
    if found.ndim != 1 or found.shape != classes.shape or found.dtype.kind not in "fiub":
        raise InputError(f"values and labels must be one number per example; got {found.shape} and {classes.shape}")
    if estimate.covariance is None:
        raise InputError("the estimate has no covariance; estimate with covariance='asymptotic' or 'bootstrap'")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1; got {confidence}")
    count = len(estimate.prior)
    if classes.dtype.kind not in "iu" or set(np.unique(classes)) != set(range(count)):
        raise InputError(f"labels must hold every class from 0 to {count - 1}, and no other")
    numbers = found.astype(np.float64)
    sizes, means, spread = _class_moments(numbers, classes, count)
    error = _standard_error(estimate, numbers, classes, (sizes, means, spread))
    value = float(estimate.prior @ means)
    return Performance(value, *_interval(value, error, confidence, numbers), error, means)


def _standard_error(
    estimate: PriorEstimate, values: Array, labels: Array, moments: tuple[Array, Array, Array]
) -> float:
    sizes, means, spread = moments
    assert estimate.covariance is not None
    shares, within = means @ estimate.covariance @ means, estimate.prior**2 @ (spread / sizes)
    if estimate.source_influence is None or len(values) != estimate.source_size:
        return float(np.sqrt(max(shares, 0.0)) + np.sqrt(within))
    moves = (estimate.prior / sizes)[labels] * (values - means[labels])
    common = means @ estimate.source_influence(moves)
    return float(np.sqrt(max(shares + within + 2.0 * common, 0.1 * (shares + within))))


def _interval(value: float, error: float, confidence: float, numbers: Array) -> tuple[float, float]:
    from scipy.special import ndtri

    reach = float(ndtri(0.5 + 0.5 * confidence)) * error
    low, high = value - reach, value + reach
    within = bool(numbers.min() >= 0 and numbers.max() <= 1)
    return (max(low, 0.0), min(high, 1.0)) if within else (low, high)


def _class_moments(values: Array, labels: Array, classes: int) -> tuple[Array, Array, Array]:
    """Sizes, means and variances; a proportion at 0 or 1 keeps a variance, a class of one example gets the pooled."""
    sizes = np.bincount(labels, minlength=classes)
    means = np.bincount(labels, weights=values, minlength=classes) / sizes
    if np.isin(values, (0.0, 1.0)).all():
        smoothed = (sizes * means + 0.5) / (sizes + 1.0)
        return sizes, means, smoothed * (1.0 - smoothed)
    squares = np.bincount(labels, weights=(values - means[labels]) ** 2, minlength=classes)
    pooled = squares.sum() / max(len(values) - classes, 1)
    return sizes, means, np.where(sizes > 1, squares / np.maximum(sizes - 1, 1), pooled)
