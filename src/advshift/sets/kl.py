"""The ball `KL(π ‖ p) ≤ r`, the set of the paper."""

from __future__ import annotations

from advshift.numerics.backend import choose, choose_rarely, epsilon, namespace
from advshift.numerics.tilt import TiltFamily, tilt_to_divergence, tilt_to_mean
from advshift.sets.base import Ball, Problem, Solution
from advshift.types import Array

__all__ = ["KLBall"]


class KLBall(Ball):
    """All `π` with `KL(π ‖ p) = Σ π log(π/p) ≤ radius`.

    The maximiser is the exponential tilt `π ∝ p·exp(e/t)` whose divergence is the radius; `t` is the multiplier. From
    `-log p(argmax)` up the radius is slack, and the maximiser is `p` restricted to the classes of largest risk.

    >>> worst = KLBall(0.01).worst_case([1.0, 2.0, 4.0], [1 / 3, 1 / 3, 1 / 3])
    >>> worst.distribution.round(5).tolist()
    [0.28433, 0.31798, 0.39769]
    >>> KLBall(0.01).breaking_point([1.0, 2.0, 4.0], [1 / 3, 1 / 3, 1 / 3], target=3.0).round(4).item()
    0.139
    """

    name = "kl"

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (radius,) = operands
        xp = namespace(problem.scaled)
        limit = -xp.log(problem.top_mass())
        slack = radius >= limit - 4.0 * epsilon(problem.scaled)
        inside = choose(slack, 0.5 * xp.abs(limit), radius)
        family = TiltFamily(problem.scaled, problem.reference)
        start = None if problem.start is None else 1.0 / problem.start
        found = tilt_to_divergence(family, inside, limit, steps=steps, start=start)
        distribution = choose_rarely(slack, problem.concentrated, found.distribution)
        return Solution(distribution, choose(slack, 0.0, 1.0 / found.rate), found.converged | slack)

    def _break(self, problem: Problem, target: Array) -> Array:
        xp = namespace(problem.scaled)
        inside = choose(target < 0, target, -0.5)
        divergence = tilt_to_mean(TiltFamily(problem.scaled, problem.reference), inside).divergence
        return choose(target < 0, divergence, -xp.log(problem.top_mass()))
