"""`π ≤ k·p`: no class becomes more than `k` times as frequent (conditional value at risk over classes)."""

from __future__ import annotations

import numpy as np

from advshift.errors import InputError
from advshift.numerics.backend import (
    as_like,
    as_numpy,
    choose,
    dot,
    namespace,
    total,
)
from advshift.numerics.filling import descending, fill, first_where
from advshift.sets.base import Problem, Solution, Support, UncertaintySet
from advshift.types import Array, ArrayLike

__all__ = ["FrequencyCap"]


class FrequencyCap(UncertaintySet):
    """All `π` with `π_y ≤ ratio·p_y`: no class becomes more than `ratio` times as frequent as in the reference.

    The maximiser fills the worst classes up to their caps. The value is the conditional value at risk of the class
    risks at level `1/ratio`.

    Parameters
    ----------
    ratio
        A number from 1 up, or one per class. As for every array of parameters with a class axis, the last axis is
        the classes' or has length 1: a column `ratios[:, None]` asks for several caps at once.

    >>> worst = FrequencyCap(2.0).worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    >>> worst.distribution.tolist()
    [0.0, 0.6, 0.4]
    """

    name = "frequency-cap"
    parameter_names = ("ratio",)
    _unmoved = 1.0

    def __init__(self, ratio: ArrayLike, *, support: Support = "reference") -> None:
        super().__init__(support=support)
        values = as_numpy(ratio)
        if values.dtype.kind not in "fiu" or not bool(np.all(values >= 0)):
            raise InputError(f"the ratio must be a number from 1 up, or one number per class; got {ratio!r}")
        if values.shape[-1:] in ((), (1,)) and not bool(np.all(values >= 1)):
            raise InputError(f"the ratio must be at least 1, else no distribution satisfies the cap; got {ratio!r}")
        self.ratio = ratio
        self.per_class = values.shape[-1:] not in ((), (1,))

    def _operands(self, like: Array) -> tuple[Array, ...]:
        ratio = as_like(self.ratio, like)
        return (ratio if ratio.ndim else ratio[..., None],)

    def _check(self, reference: Array, operands: tuple[Array, ...]) -> None:
        (ratio,) = operands
        if self.per_class and ratio.shape[-1] != reference.shape[-1]:
            raise InputError(
                f"the ratio must be one number, or one per class: {reference.shape[-1]}; got {ratio.shape[-1]}"
            )
        room = total(_capacity(reference, ratio))
        xp = namespace(room)
        if not bool(xp.all(room >= 1.0 - 1e-6)):
            raise InputError(
                f"the caps leave room for a mass of {float(xp.min(room)):g}, but a distribution needs 1; raise a ratio"
            )

    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        (ratio,) = operands
        filled = fill(problem.scaled, _capacity(problem.reference, ratio), 1.0)
        distribution = filled.amounts / total(filled.amounts)
        above = choose(problem.scaled > filled.threshold, problem.scaled - filled.threshold, 0.0)
        return Solution(distribution, None if self.per_class else dot(problem.reference, above), None)

    def _break(self, problem: Problem, target: Array) -> Array:
        if self.per_class:
            raise InputError("a cap per class has no single ratio to vary; use FrequencyCap with one ratio")
        return smallest_ratio(problem.scaled, problem.reference, problem.top_mass(), target)


def smallest_ratio(scaled: Array, reference: Array, top_mass: Array, target: Array) -> Array:
    """The smallest cap `k` on `π/p` under which the mean of the scaled risks reaches `target`."""
    namespace(scaled)
    risks, masses = descending(scaled, reference)
    mass = masses.cumsum(-1)
    mean = (masses * risks).cumsum(-1) / choose(mass > 0, mass, 1.0)
    threshold = first_where((mean <= target) & (mass > 0), risks)
    above = dot(reference, choose(scaled > threshold, scaled - threshold, 0.0))
    inside = (target - threshold) / choose(above > 0, above, 1.0)
    return choose(target < 0, inside, 1.0 / top_mass)


def _capacity(reference: Array, ratio: Array) -> Array:
    capacity = choose(reference > 0, reference, 0.0) * choose(ratio < float("inf"), ratio, 1.0)
    capacity = choose((ratio < float("inf")) | (reference <= 0), capacity, 1.0)
    return choose(capacity < 1, capacity, 1.0)
