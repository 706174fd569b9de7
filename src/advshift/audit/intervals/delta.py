"""The delta method: the worst case is smooth in the class risks where its maximiser is unique."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from advshift.audit.intervals.sample import ClassSample
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["delta_interval", "error_of_means", "quantile"]


def quantile(confidence: float) -> float:
    """The normal quantile of a two-sided interval.

    >>> round(quantile(0.95), 2)
    1.96
    """
    return float(ndtri(0.5 + 0.5 * confidence))


def error_of_means(sample: ClassSample) -> Float[Array, "classes"]:
    """Standard errors of the classes' means, kept away from 0: a class with no error among five is not certain.

    Within bounds an observation at either end is added to each class; for 0/1 values that gives the variance of
    `(X+1)/(n+2)`. Without bounds two observations with the classes' typical variance are added, or with their
    typical coefficient of variation where that is larger.
    """
    counts = np.maximum(sample.counts, 1.0)
    if sample.bounds is not None:
        low, high = sample.bounds
        more = sample.counts + 2.0
        mean = (sample.sums + low + high) / more
        return np.sqrt(np.maximum((sample.square_sums + low**2 + high**2) / more - mean**2, 0.0) / counts)
    freedom = np.maximum(sample.counts - 1.0, 0.0)
    own, weight = sample.variances, freedom / max(float(freedom.sum()), 1.0)
    squares = np.where(sample.observed, sample.means, 0.0) ** 2
    typical = float(weight @ own)
    relative = typical / max(float(weight @ squares), np.finfo(float).tiny)
    added = np.maximum(typical, relative * squares)
    return np.sqrt((freedom * own + 2.0 * added) / (freedom + 2.0) / counts)


def delta_interval(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    confidence: float = 0.95,
    reference_size: int | None = None,
) -> tuple[Float[Array, "*radii"], Float[Array, "*radii"]]:
    """The plug-in value plus and minus a normal quantile of its standard deviation, which is

        sd² = Σ π² s²/n + t² (Σ π²/p − 1)/N

    with the multiplier `t`; the second term only if the reference was estimated from `N = reference_size` labels.
    The plug-in's bias is not removed, so with many classes of few examples the interval misses the truth: it is here
    to be compared with.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> low, high = delta_interval(class_sample([50, 50], [5, 10], binary=True), np.array([0.5, 0.5]), KLBall(0.1))
    >>> round(float(low), 3), round(float(high), 3)
    (0.087, 0.257)
    """
    worst = uncertainty_set.worst_case(sample.means, reference)
    variance = ((worst.distribution * error_of_means(sample)) ** 2).sum(axis=-1)
    if reference_size is not None:
        variance = variance + _reference_variance(worst.distribution, worst.multiplier, reference) / reference_size
    half = quantile(confidence) * np.sqrt(variance)
    return as_numpy(worst.value) - half, as_numpy(worst.value) + half


def _reference_variance(distribution: Array, multiplier: Array, reference: Array) -> Float[Array, "*radii"]:
    ratio = np.where(reference > 0, distribution / np.where(reference > 0, reference, 1.0), 0.0)
    excess = (reference * ratio**2).sum(axis=-1) - 1.0
    finite = np.where(np.isfinite(multiplier), multiplier, 0.0)
    return finite**2 * np.maximum(excess, 0.0)
