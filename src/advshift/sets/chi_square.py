"""The ball `½ Σ (π - p)²/p ≤ r`, whose worst case grows like a standard deviation."""

from __future__ import annotations

from advshift.numerics.backend import choose, choose_rarely, dot, epsilon, namespace
from advshift.numerics.truncation import divergence_of, truncate_to_divergence, truncate_to_mean
from advshift.sets.base import Ball, Problem, Solution
from advshift.types import Array

__all__ = ["ChiSquareBall"]


class ChiSquareBall(Ball):
    """All `π` with `½ Σ (π - p)²/p ≤ radius`.

    The maximiser is `π ∝ p·(e - η)₊`. While no class is cut off the value is `mean + √(2·radius·variance)`; from
    `½ (1/p(argmax) - 1)` up the radius is slack.

    >>> worst = ChiSquareBall(0.01).worst_case([1.0, 2.0, 4.0], [1 / 3, 1 / 3, 1 / 3])
    >>> worst.value.round(5).item()  # 7/3 + sqrt(0.02 * 14/9)
    2.50972
    """

    name = "chi2"

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (radius,) = operands
        xp = namespace(problem.scaled)
        limit = 0.5 * (1.0 / problem.top_mass() - 1.0)
        slack = radius >= limit - 4.0 * epsilon(problem.scaled)
        inside = choose(slack, 0.5 * limit, radius)
        threshold = truncate_to_divergence(problem.scaled, problem.reference, inside)
        weights = _above(problem.scaled, threshold)
        distribution = problem.reference * weights / dot(problem.reference, weights)
        steepness = xp.sqrt(dot(problem.reference, weights * weights) / (1.0 + 2.0 * inside))
        multiplier = choose(radius > 0, steepness, float("inf"))
        distribution = choose_rarely(slack, problem.concentrated, distribution)
        return Solution(distribution, choose(slack, 0.0, multiplier), None)

    def _break(self, problem: Problem, target: Array) -> Array:
        threshold = truncate_to_mean(problem.scaled, problem.reference, choose(target < 0, target, -0.5))
        divergence = divergence_of(problem.reference, _above(problem.scaled, threshold))
        return choose(target < 0, divergence, 0.5 * (1.0 / problem.top_mass() - 1.0))


def _above(scaled: Array, threshold: Array) -> Array:
    return choose(scaled > threshold, scaled - threshold, 0.0)
