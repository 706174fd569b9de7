"""The ball `½ Σ |π - p| ≤ r`: a share of the population changes its class."""

from __future__ import annotations

from advshift.numerics.backend import choose, choose_rarely, dot, total
from advshift.numerics.filling import fill
from advshift.sets.base import Ball, Problem, Solution
from advshift.types import Array

__all__ = ["TotalVariationBall"]


class TotalVariationBall(Ball):
    """All `π` with `½ Σ |π - p| ≤ radius`: at most a share `radius` of the population changes its class.

    The maximiser takes that share from the classes of smallest risk and gives it to the worst one. From
    `1 - p(argmax)` up the radius is slack. With `support="all"` the worst class may be one that the reference lacks.

    >>> worst = TotalVariationBall(0.1).worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    >>> worst.distribution.round(5).tolist()
    [0.4, 0.3, 0.3]
    """

    name = "tv"
    lifts = True

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (radius,) = operands
        limit = 1.0 - problem.top_mass()
        slack = radius >= limit
        moved = choose(slack, limit, radius)
        kept = fill(problem.scaled, problem.reference, 1.0 - moved)
        distribution = kept.amounts + (1.0 - total(kept.amounts)) * problem.concentrated()
        distribution = choose_rarely(slack, problem.concentrated, distribution)
        return Solution(distribution, choose(slack, 0.0, -kept.threshold), None)

    def _break(self, problem: Problem, target: Array) -> Array:
        distance = -problem.scaled
        gained = fill(distance, problem.reference * distance, target - dot(problem.reference, problem.scaled))
        return total(gained.amounts / choose(distance > 0, distance, 1.0))
