"""Estimates of `exp(λ·risk)` for a class, from its count, its sum and its sum of squares.

For 0/1 values with `X` ones among `n`, the falling factorials give unbiased estimates of the powers of the risk `e`,
`E X(X−1)…(X−k+1) / (n(n−1)…(n−k+1)) = e^k`, and with them of every term of the exponential series up to `k = n`:

    U(λ) = Σ_{k ≤ n} λ^k/k! · X_(k)/n_(k)

What is cut off lies between 0 and `e^n Σ_{k>n} λ^k/k!`, and `e^n` is the probability of `X = n`. So replacing `U` by
`exp(λ)` where `X = n` gives an estimate that is too large on average, as `U` is too small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.audit.intervals.delta import error_of_means
from advshift.audit.intervals.sample import ClassSample
from advshift.types import Array

__all__ = ["ExponentialTerms", "binary_terms", "exponential_terms", "unbiased_exponential"]

_NEGLIGIBLE = 1e-16
_LARGEST = 50.0  # of λ²·variance; such a term is never trusted
_EXACT = 2000  # examples of a class above which the series and its second order agree


class ExponentialTerms(NamedTuple):
    """Per class and rate `λ`, what the dual of the KL ball sums over the classes.

    Attributes
    ----------
    lower, upper
        Estimates of `exp(λ·risk)` whose expectations are not above and not below it.
    variance
        An unbiased estimate of the variance of `lower`.
    smooth
        The variance that a normal mean with the smoothed standard error would give it: it cannot vanish by luck.
    """

    lower: Float[Array, "classes rates"]
    upper: Float[Array, "classes rates"]
    variance: Float[Array, "classes rates"]
    smooth: Float[Array, "classes rates"]

    def take(self, index: Array) -> ExponentialTerms:
        """The terms of some classes."""
        return ExponentialTerms(*[part[index] for part in self])


def unbiased_exponential(
    ones: Float[Array, "classes"], counts: Float[Array, "classes"], rates: Float[Array, "rates"]
) -> Float[Array, "classes rates"]:
    """Sum the series `U(λ)`, which ends; every term is positive, so nothing cancels.

    >>> import numpy as np
    >>> unbiased_exponential(np.array([1.0]), np.array([1.0]), np.array([0.5])).tolist()
    [[1.5]]
    """
    term = np.ones((len(ones), len(rates)))
    total = term.copy()
    ones, counts = ones[:, None], counts[:, None]
    for k in range(int(ones.max(initial=0.0))):
        term = term * (rates / (k + 1.0)) * (np.maximum(ones - k, 0.0) / np.maximum(counts - k, 1.0))
        total += term
        if bool((term <= _NEGLIGIBLE * total).all()):
            break
    return total


def exponential_terms(sample: ClassSample, rates: Float[Array, "rates"]) -> ExponentialTerms:
    """The estimates for every class: exact for 0/1 values, of second order in `λ/n` for others."""
    if not sample.binary:
        return _second_order(sample, rates)
    pairs, place = np.unique(np.stack([sample.counts, sample.sums]), axis=1, return_inverse=True)
    return binary_terms(pairs[1], pairs[0], rates).take(place.reshape(-1))


def binary_terms(
    ones: Float[Array, "classes"], counts: Float[Array, "classes"], rates: Float[Array, "rates"]
) -> ExponentialTerms:
    """The estimates for 0/1 values from the series, and from its second order for classes of many examples."""
    sample = ClassSample(counts, ones, ones, binary=True, bounds=(0.0, 1.0))
    terms = _second_order(sample, rates)
    few = np.flatnonzero(counts <= _EXACT)
    ones, counts = ones[few], counts[few]
    series = unbiased_exponential(ones, counts, rates)
    terms.lower[few] = series
    terms.upper[few] = np.where((ones == counts)[:, None], np.exp(rates), series)
    terms.variance[few] = series**2 - unbiased_exponential(ones, counts, 2.0 * rates)
    return terms


def _second_order(sample: ClassSample, rates: Array) -> ExponentialTerms:
    """`exp(λm − λ²s²/2n)`, which is unbiased for normal means, and its lognormal variance."""
    counts = np.maximum(sample.counts, 1.0)
    level = rates * np.where(sample.observed, sample.means, 0.0)[:, None]
    own = np.minimum(rates**2 * (sample.variances / counts)[:, None], _LARGEST)
    smoothed = np.minimum(rates**2 * (error_of_means(sample) ** 2)[:, None], _LARGEST)
    estimate = np.exp(level - 0.5 * own)
    variance = estimate**2 * -np.expm1(-own)
    smooth = np.exp(2.0 * level - smoothed) * np.expm1(smoothed)
    return ExponentialTerms(estimate, estimate.copy(), variance, smooth)
