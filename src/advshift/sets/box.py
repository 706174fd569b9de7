"""`lower ≤ π ≤ upper`: the ranges that an expert gives."""

from __future__ import annotations

import numpy as np

from advshift.errors import InputError
from advshift.numerics.backend import as_like, as_numpy, choose, namespace, total
from advshift.numerics.filling import fill
from advshift.sets.base import Problem, Solution, Support, UncertaintySet
from advshift.types import Array, ArrayLike

__all__ = ["Box"]


class Box(UncertaintySet):
    """All `π` with `lower_y ≤ π_y ≤ upper_y`: "between 2 and 10 % of our patients have this".

    The maximiser starts from the lower bounds and fills up the worst classes first. The set has no centre: the
    reference only says which classes exist.

    Parameters
    ----------
    lower, upper
        A number for every class, or one per class.

    >>> ranges = Box([0.2, 0.2, 0.0], [1.0, 0.5, 0.4])
    >>> ranges.worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2]).distribution.round(5).tolist()
    [0.2, 0.4, 0.4]
    """

    name = "box"
    parameter_names = ("lower", "upper")
    lifts = True

    def __init__(self, lower: ArrayLike, upper: ArrayLike, *, support: Support = "reference") -> None:
        super().__init__(support=support)
        low, high = as_numpy(lower), as_numpy(upper)
        if low.dtype.kind not in "fiu" or high.dtype.kind not in "fiu" or not bool(np.all((low >= 0) & (high <= 1))):
            raise InputError(
                "the bounds of a Box must be numbers between 0 and 1, one for all classes or one per class"
            )
        if not bool(np.all(low <= high)):
            raise InputError(f"a lower bound of the Box exceeds its upper bound; got lower={lower!r}, upper={upper!r}")
        self.lower, self.upper = lower, upper

    def _operands(self, like: Array) -> tuple[Array, ...]:
        bounds = (as_like(self.lower, like), as_like(self.upper, like))
        return tuple(bound if bound.ndim else bound[..., None] for bound in bounds)

    def _check(self, reference: Array, operands: tuple[Array, ...]) -> None:
        lower, upper = operands
        xp = namespace(reference)
        classes = reference.shape[-1]
        if any(bound.shape[-1] not in (1, classes) for bound in (lower, upper)):
            raise InputError(
                f"the bounds of a Box must be one number, or one per class: {classes}; "
                f"got {lower.shape[-1]} and {upper.shape[-1]}"
            )
        allowed = reference > 0 if self.support == "reference" else reference >= 0
        if bool(xp.any((lower > 0) & ~allowed)):
            raise InputError("a class without mass in the reference has a positive lower bound; use support='all'")
        least, most = total(choose(allowed, lower, 0.0)), total(choose(allowed, upper, 0.0))
        if not bool(xp.all((least <= 1.0 + 1e-6) & (most >= 1.0 - 1e-6))):
            raise InputError(
                "no distribution lies in the Box: the lower bounds must sum to at most 1 and the upper ones to at "
                f"least 1; their sums are {float(xp.max(least)):g} and {float(xp.min(most)):g}"
            )

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        lower, upper = operands
        lower = choose(problem.allowed, lower, 0.0)
        room = choose(problem.allowed, upper - lower, 0.0)
        distribution = lower + fill(problem.scaled, room, 1.0 - total(lower)).amounts
        return Solution(distribution / total(distribution), None, None)
