"""Functions `g` of a binomial count with `E_e g(X) ≤ exp(−a·exp(λe))` for every probability `e`.

They make bounds on `Σ_y exp(λ e_y)` by Markov's inequality (see `dual_bound`). The nearer `−log g(X)/a` is to an
unbiased estimate of `exp(λe)` the sharper the bound. The start is the unbiased estimate plus `a/2` times an unbiased
estimate of its variance, which is right up to the third order in `a`; then `g` is lowered until the inequality holds.

The inequality is *checked* on a grid `0 = e_0 < … < e_m = 1`, in a form that proves it in between. `g` does not
increase with `X`, so `E_e g` does not increase with `e`, and neither does the right-hand side:

    E_{e_i} g(X) ≤ exp(−a·exp(λ e_{i+1}))   for all i   implies it for all e.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, xlog1py, xlogy

from advshift.audit.intervals.exponential import unbiased_exponential
from advshift.types import Array

__all__ = ["Certificate", "Precision", "binomial_masses", "certificate"]

_LARGEST = 600.0  # the largest `a·exp(λ)`: beyond it the right-hand side leaves the range of floats
_HOPELESS = 5.0  # a violation that is left after some rounds; such a row is given up
_ROUNDING = 1e-9  # added to every checked exponent


class Precision(NamedTuple):
    """How finely certificates are made: points of the grid of probabilities, ratio of the weights `a`, rounds."""

    points: int = 512
    ratio: float = 2.0**0.5
    rounds: int = 12


class Certificate(NamedTuple):
    """`log g` for falling weights `a`, a row each; minus infinity makes a row's bound void.

    The weights are `600·exp(−λ)·ratio^−k`.
    """

    weights: Float[Array, "weights"]
    exponents: Float[Array, "weights outcomes"]


def binomial_masses(count: int, shares: Float[Array, "shares"]) -> Float[Array, "shares outcomes"]:
    """The binomial probabilities of `0 … count` for each share.

    >>> import numpy as np
    >>> binomial_masses(2, np.array([0.5])).round(6).tolist()
    [[0.25, 0.5, 0.25]]
    """
    ones = np.arange(count + 1.0)
    choices = gammaln(count + 1.0) - gammaln(ones + 1.0) - gammaln(count - ones + 1.0)
    shares = shares[:, None]
    return np.exp(choices + xlogy(ones, shares) + xlog1py(count - ones, -shares))


@lru_cache(maxsize=4096)
def certificate(count: int, rate: float, rows: int, cut: float, precision: Precision) -> Certificate:
    """Make `g` for classes of `count` examples, for `rows` weights.

    Parameters
    ----------
    count
        The number `n` of the binomial variable.
    rate
        The rate `λ`.
    rows
        How many weights.
    cut
        The inequality may count an outcome as the smallest plausible one if it is below that, where outcomes up to
        it together have at most this probability under `e`. The caller pays for it: it must hold with enough
        confidence that no class's count is implausible. 0 cuts nothing.
    precision
        Points of the grid, ratio of the weights, rounds of repair.
    """
    weights = _LARGEST * np.exp(-rate) * precision.ratio ** -np.arange(float(rows))
    masses = _plausible_masses(count, cut, precision.points)
    goals = np.exp(rate * np.arange(1, precision.points + 1) / precision.points)
    exponents = _start(count, rate, weights, precision.points)
    goal = weights[:, None] * goals
    active = np.arange(rows)
    excess = np.full(rows, np.inf)
    for turn in range(precision.rounds):
        found = _violations(exponents[active], masses, goal[active])
        excess[active] = found.max(axis=1)
        if turn == precision.rounds - 1:
            break
        busy = (excess[active] > 1e-5) & ((excess[active] < _HOPELESS) | (turn < 3))
        active = active[busy]
        if not len(active):
            break
        exponents[active] = np.minimum.accumulate(exponents[active] - 1.2 * _at_outcomes(found[busy], count), axis=1)
    excess = _violations(exponents, masses, goal).max(axis=1)
    lowered = exponents - excess[:, None] - _ROUNDING
    lowered[excess > _HOPELESS] = -np.inf
    return Certificate(weights, lowered)


def _start(count: int, rate: float, weights: Array, points: int) -> Float[Array, "weights outcomes"]:
    """The unbiased estimate at the end of a grid's step, with half the variance times the weight, as exponents."""
    ones = np.arange(count + 1.0)
    counts = np.full(count + 1, float(count))
    estimate = unbiased_exponential(ones, counts, np.array([rate, 2.0 * rate]))
    variance = np.maximum(estimate[:, 0] ** 2 - estimate[:, 1], 0.0)
    estimate[-1, 0], variance[-1] = np.exp(rate), 0.0
    column = weights[:, None]
    start = column * np.exp(rate / points) * estimate[:, 0] + 0.5 * column**2 * variance
    return -np.maximum.accumulate(start, axis=1)


def _violations(exponents: Array, masses: Array, goal: Array) -> Float[Array, "weights points"]:
    """By how much `log E g` exceeds the goal at each point, not below 0."""
    top = exponents[:, :1]
    expected = np.exp(exponents - top) @ masses.T
    return np.maximum(np.log(np.maximum(expected, 1e-300)) + top + goal, 0.0)


def _at_outcomes(violations: Array, count: int) -> Float[Array, "weights outcomes"]:
    """Violations at the shares `X/n`, between the points by straight lines."""
    last = violations.shape[1] - 1
    place = np.minimum(np.arange(count + 1.0) / count * (last + 1), last)
    left = np.minimum(place.astype(int), max(last - 1, 0))
    part = place - left
    return violations[:, left] * (1.0 - part) + violations[:, np.minimum(left + 1, last)] * part


@lru_cache(maxsize=64)
def _plausible_masses(count: int, cut: float, points: int) -> Float[Array, "points outcomes"]:
    """Binomial probabilities at the steps' left ends, with implausibly small outcomes moved to the least other."""
    masses = binomial_masses(count, np.arange(points) / points)
    if cut <= 0.0:
        return masses
    below = np.cumsum(masses, axis=1)
    least = np.argmax(below > cut, axis=1)
    kept = np.where(np.arange(count + 1) > least[:, None], masses, 0.0)
    kept[np.arange(points), least] = below[np.arange(points), least]
    return kept
