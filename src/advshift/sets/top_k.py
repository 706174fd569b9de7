"""`π ≤ 1/k`: the worst `k` classes, whatever their frequency."""

from __future__ import annotations

import numpy as np

from advshift.errors import InputError
from advshift.numerics.backend import as_like, as_numpy, choose, highest, namespace, total
from advshift.numerics.filling import fill
from advshift.sets.base import Problem, Solution, Support, UncertaintySet
from advshift.sets.frequency_cap import smallest_ratio
from advshift.types import Array, ArrayLike

__all__ = ["TopK"]


class TopK(UncertaintySet):
    """All `π` with `π_y ≤ 1/k`: the mean risk of the `k` worst classes, for any real `k` from 1 up.

    With `k` the number of classes the set holds the uniform distribution alone, not the reference, which serves only
    to say which classes exist. `breaking_point` returns the largest `k` that reaches the target: the number of classes
    if the uniform distribution does, 0 if not even the worst class does.

    Parameters
    ----------
    k
        A number, or an array that is broadcast against the risks' leading axes.

    >>> TopK(1.5).worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2]).value.round(5).item()  # (4 + 0.5 * 2) / 1.5
    3.33333
    """

    name = "top-k"
    parameter_names = ("k",)
    lifts = True
    _never = 0.0

    def __init__(self, k: ArrayLike, *, support: Support = "reference") -> None:
        super().__init__(support=support)
        values = as_numpy(k)
        if values.dtype.kind not in "fiu" or not bool(np.all(values >= 1)):
            raise InputError(f"k must be a number from 1 up, or an array of them; got {k!r}")
        self.k = k

    def _operands(self, like: Array) -> tuple[Array, ...]:
        return (as_like(self.k, like)[..., None],)

    def _check(self, reference: Array, operands: tuple[Array, ...]) -> None:
        (k,) = operands
        xp = namespace(reference)
        classes = (
            reference.shape[-1]
            if self.support == "all"
            else int(xp.min(xp.sum(xp.astype(reference > 0, xp.int64), axis=-1)))
        )
        if float(xp.max(k)) > classes:
            raise InputError(
                f"k must be at most the number of classes that may carry mass, {classes}; got {float(xp.max(k)):g}"
            )

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (k,) = operands
        filled = fill(problem.scaled, choose(problem.allowed, 1.0 / k, 0.0 * k), 1.0)
        return Solution(filled.amounts / total(filled.amounts), None, None)

    def _centre(self, problem: Problem) -> Array:
        share = choose(problem.allowed, problem.reference * 0.0 + 1.0, 0.0)
        return share / total(share)

    def _at_rest(self, problem: Problem) -> Array:
        return 1.0 / highest(self._centre(problem))

    def _break(self, problem: Problem, target: Array) -> Array:
        uniform = self._centre(problem)
        top_mass = total(choose(problem.top(), uniform, 0.0))
        return self._at_rest(problem) / smallest_ratio(problem.scaled, uniform, top_mass, target)
