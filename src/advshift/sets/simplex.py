"""Every label distribution: the worst class (minimax, radius infinity)."""

from __future__ import annotations

from advshift.sets.base import Problem, Solution, UncertaintySet
from advshift.types import Array

__all__ = ["Simplex"]


class Simplex(UncertaintySet):
    """All label distributions on the reference's classes: the worst case is the risk of the worst class.

    Where several classes are the worst, the distribution is the reference restricted to them. There is no radius, so
    the multiplier is nan.

    >>> Simplex().worst_case([1.0, 4.0, 4.0], [0.5, 0.3, 0.2]).distribution.round(5).tolist()
    [0.0, 0.6, 0.4]
    """

    name = "simplex"
    lifts = True

    def _operands(self, like: Array) -> tuple[Array, ...]:
        return ()

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        return Solution(problem.concentrated(), None, None)
