"""Reciprocal weights `π ∝ p/(δ + d)`, with `d` the distance to the largest risk: the maximisers over `KL(p ‖ π) ≤ r`.

The divergence `F = Σ p log(1 + d/δ) + log Σ p/(1 + d/δ)` falls with `log δ`: like `δ⁻²` for large `δ`, linearly in
`log δ` for small. So `log(exp(F) - 1)` is close to linear in `-log δ` at both ends: that is the function whose root is
sought. The ratios `1 + d/δ` are kept as logarithms, so that no radius is too large.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from advshift.numerics.backend import choose, dot, epsilon, namespace
from advshift.numerics.roots import Evaluation, RootState, arithmetic_middle, find_root
from advshift.types import Array, PerProblem, PerProblemFlag

__all__ = ["ReciprocalFamily", "ReciprocalSolution", "reciprocal_to_divergence", "reciprocal_to_mean"]


class ReciprocalSolution(NamedTuple):
    """`log δ`, the distribution and divergence that it gives, `Σ p/(1 + d/δ)`, and whether the iteration converged."""

    log_offset: PerProblem
    distribution: Float[Array, "*batch classes"]
    divergence: PerProblem
    normaliser: PerProblem
    converged: PerProblemFlag


class Reciprocal(NamedTuple):
    """The weights `1/(1 + d/δ)`, their mean and variance under the reference, and the divergence that they make."""

    weights: Float[Array, "*batch classes"]
    mean: PerProblem
    variance: PerProblem
    divergence: PerProblem
    rounding: PerProblem


class ReciprocalFamily:
    """The reciprocal weights of one reference along one vector of scaled risks (largest 0, smallest -1)."""

    def __init__(self, scaled: Float[Array, "*#batch classes"], reference: Float[Array, "*#batch classes"]) -> None:
        self.scaled, self.reference = scaled, reference
        self.log_distance = namespace(scaled).log(-scaled)
        self.mean = dot(reference, scaled)
        self.variance = dot(reference, (scaled - self.mean) ** 2)

    def at(self, steepness: PerProblem) -> Reciprocal:
        """The weights for `steepness = -log δ`."""
        xp = namespace(self.scaled)
        height = self.log_distance + steepness
        positive = choose(height > 0, height, 0.0)
        logarithm = positive + xp.log1p(xp.exp(height - 2.0 * positive))
        weights = xp.exp(-logarithm)
        mean = dot(self.reference, weights)
        variance = dot(self.reference, (weights - mean) ** 2)
        average = dot(self.reference, logarithm)
        rounding = 16.0 * epsilon(self.scaled) * (average - xp.log(mean))
        divergence = average + xp.log(mean)
        return Reciprocal(weights, mean, variance, choose(divergence > 0, divergence, 0.0), rounding)

    def solution(self, found: RootState) -> ReciprocalSolution:
        """Turn the end of a search into a distribution."""
        here = Reciprocal(*found.evaluation.result)
        distribution = self.reference * here.weights / here.mean
        return ReciprocalSolution(-found.point, distribution, here.divergence, here.mean, found.evaluation.converged)


def reciprocal_to_divergence(
    family: ReciprocalFamily, radius: PerProblem, *, steps: int | None = None
) -> ReciprocalSolution:
    """Find the weights whose divergence is `radius`, which must be positive and finite."""
    xp = namespace(family.scaled)
    smallest = xp.finfo(family.scaled.dtype).smallest_normal
    tolerance = epsilon(family.scaled) ** 0.8 * choose(radius < 1, radius, 1.0)

    def height(divergence: Array) -> Array:
        return divergence + xp.log(-xp.expm1(-divergence) + smallest)

    goal = height(radius)

    def evaluate(steepness: Array) -> Evaluation:
        here = family.at(steepness)
        shrunk = -xp.expm1(-here.divergence)
        slope = here.variance / (here.mean * (shrunk + smallest))
        converged = (xp.abs(here.divergence - radius) <= tolerance + here.rounding) | (family.variance <= 0)
        return Evaluation(height(here.divergence) - goal, slope, converged, here)

    guess = 0.5 * (xp.log(2.0 * radius) - xp.log(family.variance + smallest))
    found = find_root(evaluate, guess, low=-float("inf"), middle=arithmetic_middle, steps=steps)
    return family.solution(found)


def reciprocal_to_mean(family: ReciprocalFamily, target: PerProblem) -> ReciprocalSolution:
    """Find the weights under which the scaled risks have mean `target`, strictly between the reference's mean and 0."""
    xp = namespace(family.scaled)
    goal = -xp.log(-target) + xp.log(target - family.mean)
    tolerance = epsilon(family.scaled) ** 0.8

    def evaluate(steepness: Array) -> Evaluation:
        here = family.at(steepness)
        tilted = family.reference * here.weights / here.mean
        mean = dot(tilted, family.scaled)
        growth = dot(tilted * (family.scaled - mean), here.weights)
        gained = choose(mean > family.mean, mean - family.mean, xp.finfo(family.scaled.dtype).smallest_normal)
        residual = -xp.log(-mean) + xp.log(gained) - goal
        slope = growth * (-1.0 / mean + 1.0 / gained)
        return Evaluation(residual, slope, xp.abs(mean - target) <= tolerance * (target - family.mean), here)

    guess = xp.log((target - family.mean) / (-target))
    found = find_root(evaluate, guess, low=-float("inf"), middle=arithmetic_middle)
    return family.solution(found)
