"""Exponential tilts of a distribution, `π ∝ p·exp(s·e)`: the maximisers over a ball of `KL(π ‖ p)`.

All functions take *scaled* risks: 0 at the largest, -1 at the smallest. With `Z(s) = Σ p exp(s·e)`, `m` and `v` the
mean and variance of `e` under the tilt, `KL(s) = s·m - log Z` and `dKL/ds = s·v`. The divergence grows like a square
near `s = 0` and approaches its limit `K = -log p(argmax)` exponentially, so `-log(1 - √(KL/K))` is close to linear in
`s` at both ends: that is the function whose root is sought.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float

from advshift.numerics.backend import (
    BLOCK,
    choose,
    choose_rarely,
    dot,
    epsilon,
    is_torch,
    namespace,
    overwrite_with_exp,
)
from advshift.numerics.roots import Evaluation, RootState, find_root
from advshift.types import Array, PerProblem, PerProblemFlag

__all__ = ["Tilt", "TiltFamily", "TiltSolution", "tilt_to_divergence", "tilt_to_mean"]


class Tilt(NamedTuple):
    """The mass of `p·exp(s·e)`, the moments of the tilted distribution, and its divergence from the reference."""

    mass: PerProblem
    mean: PerProblem
    variance: PerProblem
    divergence: PerProblem


class Moments(NamedTuple):
    """The mean, and the second and third moment about it."""

    mean: PerProblem
    variance: PerProblem
    skew: PerProblem


class TiltSolution(NamedTuple):
    """The rate that was found, the distribution and divergence that it gives, and whether the iteration converged."""

    rate: PerProblem
    distribution: Float[Array, "*batch classes"]
    divergence: PerProblem
    converged: PerProblemFlag


class TiltFamily:
    """The tilts of one reference along one vector of scaled risks (0 at the largest, -1 at the smallest)."""

    def __init__(self, scaled: Float[Array, "*#batch classes"], reference: Float[Array, "*#batch classes"]) -> None:
        self.scaled, self.reference = scaled, reference

    def moments(self) -> Moments:
        """The moments of the scaled risks under the reference itself."""
        mean, second, third = self._sums(_raw_moments)
        skew = third - mean * (3.0 * second - 2.0 * mean * mean)
        return Moments(mean, abs(second - mean * mean), skew)

    def at(self, rate: PerProblem) -> Tilt:
        """Tilt by `exp(rate·scaled)`."""
        xp = namespace(self.scaled)
        mass, first, second = self._sums(_tilted_moments, rate)
        mean = first / mass
        return Tilt(mass, mean, second / mass - mean * mean, rate * mean - xp.log(mass))

    def _sums(self, moments: Callable[..., tuple[Array, ...]], *arguments: Array) -> tuple[Array, ...]:
        """Add up the moments of the classes, block by block."""
        blocks = self._blocks()
        if len(blocks) == 1:
            return moments(self.scaled, self.reference, *arguments)
        parts = [moments(self.scaled[..., block], self.reference[..., block], *arguments) for block in blocks]
        return tuple(sum(part) for part in zip(*parts, strict=True))

    def solution(self, found: RootState) -> TiltSolution:
        """Turn the end of a search into a distribution."""
        tilt = Tilt(*found.evaluation.result)
        distribution = self._distribution(found.point, tilt.mass)
        return TiltSolution(found.point, distribution, tilt.divergence, found.evaluation.converged)

    def _distribution(self, rate: Array, mass: Array) -> Array:
        blocks = self._blocks()
        if len(blocks) == 1 or self.scaled.ndim + self.reference.ndim + rate.ndim > 2:
            return overwrite_with_exp(rate * self.scaled) * (self.reference / mass)
        distribution = namespace(self.scaled).empty_like(self.scaled)
        for block in blocks:
            distribution[block] = overwrite_with_exp(rate * self.scaled[block]) * (self.reference[block] / mass)
        return distribution

    def _blocks(self) -> list[slice]:
        """The classes in pieces that fit the cache; tensors are left to torch, whole."""
        classes = self.scaled.shape[-1]
        if classes <= BLOCK or is_torch(self.scaled):
            return [slice(None)]
        return [slice(begin, begin + BLOCK) for begin in range(0, classes, BLOCK)]


def _raw_moments(scaled: Array, reference: Array) -> tuple[Array, ...]:
    """The means of the first three powers of the scaled risks."""
    first = reference * scaled
    squares = scaled * scaled
    return dot(reference, scaled), dot(first, scaled), dot(first, squares)


def _tilted_moments(scaled: Array, reference: Array, rate: Array) -> tuple[Array, ...]:
    """The sums of the tilted weights times the powers 0, 1 and 2 of the scaled risks."""
    factors = overwrite_with_exp(rate * scaled)
    weights = factors * reference
    return dot(factors, reference), dot(weights, scaled), dot(weights * scaled, scaled)


def tilt_to_divergence(
    family: TiltFamily,
    radius: PerProblem,
    limit: PerProblem,
    *,
    steps: int | None = None,
    start: PerProblem | None = None,
) -> TiltSolution:
    """Find the tilt whose divergence is `radius`, which must lie below `limit`, the divergence of the steepest tilt.

    The search begins at the rate `start` where that is a positive number.
    """
    xp = namespace(family.scaled)
    eps = epsilon(family.scaled)
    tolerance = eps**0.8 * choose(radius < 1, radius, 1.0)
    steepest = 1.0 - 2.0 * eps

    def height(divergence: Array) -> tuple[Array, Array]:
        share = divergence / limit
        root = xp.sqrt(choose(share > 0, choose(share < steepest, share, steepest), 0.0))
        return root, -xp.log1p(-root)

    _, goal = height(radius)

    def evaluate(rate: Array) -> Evaluation:
        here = family.at(rate)
        root, reached = height(here.divergence)
        slope = rate * here.variance / (2.0 * limit * root * (1.0 - root))
        noise = 16.0 * eps * (1.0 + here.divergence - 2.0 * rate * here.mean)
        converged = xp.abs(here.divergence - radius) <= tolerance + noise
        return Evaluation(reached - goal, slope, converged, here)

    def guess() -> Array:
        _, variance, skew = family.moments()
        smallest = xp.finfo(family.scaled.dtype).smallest_normal
        rate = xp.sqrt(2.0 * radius) / xp.sqrt(variance + smallest)
        lean = 1.0 + rate * skew / (3.0 * variance + smallest)  # KL(s) = s²·variance/2 + s³·skew/3 + …
        return rate / choose(lean > 0.3, lean, 0.3)

    rate = guess() if start is None else choose_rarely(~((start > 0) & (start < float("inf"))), guess, start)
    return family.solution(find_root(evaluate, rate, steps=steps))


def tilt_to_mean(family: TiltFamily, target: PerProblem) -> TiltSolution:
    """Find the tilt under which the scaled risks have mean `target`, between the reference's mean and 0."""
    xp = namespace(family.scaled)
    goal = xp.log(-target)
    tolerance = epsilon(family.scaled) ** 0.8

    def evaluate(rate: Array) -> Evaluation:
        here = family.at(rate)
        residual = goal - xp.log(-here.mean)
        return Evaluation(residual, -here.variance / here.mean, xp.abs(residual) <= tolerance, here)

    mean, variance, _ = family.moments()
    rate = (target - mean) / (variance + xp.finfo(family.scaled.dtype).smallest_normal)
    return family.solution(find_root(evaluate, rate))
