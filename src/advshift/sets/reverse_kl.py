"""The ball `KL(p ‖ π) ≤ r`, whose members never forget a class."""

from __future__ import annotations

from advshift.numerics.backend import choose, highest, namespace, total
from advshift.numerics.reciprocal import ReciprocalFamily, reciprocal_to_divergence, reciprocal_to_mean
from advshift.sets.base import Ball, Problem, Solution
from advshift.types import Array

__all__ = ["ReverseKLBall"]


class ReverseKLBall(Ball):
    """All `π` with `KL(p ‖ π) = Σ p log(p/π) ≤ radius`.

    The maximiser is `π ∝ p/(η - e)` with `η` above the largest risk. The radius is never slack: every class that the
    reference has keeps some mass. With `support="all"` a class outside the reference costs nothing, and the worst one
    takes what the others can spare.

    >>> worst = ReverseKLBall(0.01).worst_case([1.0, 2.0, 4.0], [1 / 3, 1 / 3, 1 / 3])
    >>> worst.distribution.round(5).tolist()
    [0.28559, 0.31547, 0.39894]
    """

    name = "reverse-kl"

    lifts = True

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (radius,) = operands
        xp = namespace(problem.scaled)
        family, own_largest = _on_the_support(problem)
        moved = (radius > 0) & xp.isfinite(radius)
        found = reciprocal_to_divergence(family, choose(moved, radius, 1.0), steps=steps)
        offset = xp.exp(found.log_offset)
        lifted = moved & (own_largest + offset < 0)
        price = xp.exp(_mean_log_distance(problem) - choose(moved, radius, 0.0))
        spared = problem.reference * price / choose(problem.scaled < 0, -problem.scaled, 1.0)
        spared = spared + (1.0 - total(spared)) * problem.concentrated()
        distribution = choose(lifted, spared, choose(moved, found.distribution, problem.reference))
        distribution = choose(radius < float("inf"), distribution, problem.concentrated())
        multiplier = choose(lifted, price, offset / found.normaliser)
        multiplier = choose(moved & ~_flat(family), multiplier, choose(lifted, price, 0.0))
        at_rest = choose(_flat(family) & (own_largest == 0), 0.0, float("inf"))
        return Solution(distribution, choose(radius > 0, multiplier, at_rest), found.converged | ~moved)

    def _break(self, problem: Problem, target: Array) -> Array:
        xp = namespace(problem.scaled)
        family, own_largest = _on_the_support(problem)
        own = target - own_largest
        reachable = (own < 0) & (own > family.mean)
        found = reciprocal_to_mean(family, choose(reachable, own, 0.5 * family.mean))
        lifted = ~reachable | (own_largest + xp.exp(found.log_offset) < 0)
        beyond = _mean_log_distance(problem) - xp.log(-target)
        return choose(lifted, choose(own_largest < 0, beyond, float("inf")), found.divergence)


def _on_the_support(problem: Problem) -> tuple[ReciprocalFamily, Array]:
    """The family of the classes that the reference has, and the largest of their scaled risks."""
    inside = problem.reference > 0
    own_largest = highest(choose(inside, problem.scaled, -1.0))
    return ReciprocalFamily(choose(inside, problem.scaled - own_largest, -1.0), problem.reference), own_largest


def _flat(family: ReciprocalFamily) -> Array:
    return family.variance <= 0


def _mean_log_distance(problem: Problem) -> Array:
    """`Σ p log d`, with `d` the distance to the largest risk of all; -inf where the reference has a class there."""
    xp = namespace(problem.scaled)
    log_distance = xp.log(choose(problem.reference > 0, -problem.scaled, 1.0))
    return total(choose(problem.reference > 0, problem.reference * log_distance, 0.0))
