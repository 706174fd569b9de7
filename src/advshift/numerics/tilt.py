"""Exponential tilts of a distribution, `π ∝ p·exp(s·e)`: the maximisers over a ball of `KL(π ‖ p)`.

All functions take *scaled* risks: 0 at the largest, -1 at the smallest. With `Z(s) = Σ p exp(s·e)`, `m` and `v` the
mean and variance of `e` under the tilt, `KL(s) = s·m - log Z` and `dKL/ds = s·v`. The divergence grows like a square
near `s = 0` and approaches its limit `K = -log p(argmax)` exponentially, so `-log(1 - √(KL/K))` is close to linear in
`s` at both ends: that is the function whose root is sought.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from advshift.numerics.backend import choose, dot, epsilon, is_torch, namespace, overwrite_with_exp, total
from advshift.numerics.roots import Evaluation, RootState, find_root
from advshift.types import Array, PerProblem, PerProblemFlag

__all__ = ["Tilt", "TiltFamily", "TiltSolution", "tilt_to_divergence", "tilt_to_mean"]


BLOCK = 1 << 13  # classes that are summed at once, so that a million of them stream through the cache


class Tilt(NamedTuple):
    """The mass of `p·exp(s·e)`, the moments of the tilted distribution, and its divergence from the reference."""

    mass: PerProblem
    mean: PerProblem
    variance: PerProblem
    divergence: PerProblem


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
        first = reference * scaled
        self.mean = total(first)
        self.variance = abs(dot(first, scaled) - self.mean * self.mean)

    def at(self, rate: PerProblem) -> Tilt:
        """Tilt by `exp(rate·scaled)`."""
        xp = namespace(self.scaled)
        mass, first, second = self._sums(rate)
        mean = first / mass
        return Tilt(mass, mean, second / mass - mean * mean, rate * mean - xp.log(mass))

    def _sums(self, rate: Array) -> tuple[Array, Array, Array]:
        classes = self.scaled.shape[-1]
        if classes <= BLOCK or is_torch(self.scaled):
            return _moments(self.scaled, self.reference, rate)
        blocks = [slice(begin, begin + BLOCK) for begin in range(0, classes, BLOCK)]
        parts = [_moments(self.scaled[..., block], self.reference[..., block], rate) for block in blocks]
        mass, first, second = (sum(part) for part in zip(*parts, strict=True))
        return mass, first, second

    def solution(self, found: RootState) -> TiltSolution:
        """Turn the end of a search into a distribution."""
        tilt = Tilt(*found.evaluation.result)
        distribution = overwrite_with_exp(found.point * self.scaled) * (self.reference / tilt.mass)
        return TiltSolution(found.point, distribution, tilt.divergence, found.evaluation.converged)


def _moments(scaled: Array, reference: Array, rate: Array) -> tuple[Array, Array, Array]:
    """The sums over classes of the tilted weights times the powers 0, 1 and 2 of the scaled risks."""
    factors = overwrite_with_exp(rate * scaled)
    weights = factors * reference
    return dot(factors, reference), dot(weights, scaled), dot(weights * scaled, scaled)


def tilt_to_divergence(
    family: TiltFamily,
    radius: PerProblem,
    limit: PerProblem,
    *,
    steps: int | None = None,
) -> TiltSolution:
    """Find the tilt whose divergence is `radius`, which must lie below `limit`, the divergence of the steepest tilt."""
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

    smallest = xp.finfo(family.scaled.dtype).smallest_normal
    rate = xp.sqrt(2.0 * radius) / xp.sqrt(family.variance + smallest)
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

    smallest = xp.finfo(family.scaled.dtype).smallest_normal
    rate = (target - family.mean) / (family.variance + smallest)
    return family.solution(find_root(evaluate, rate))
