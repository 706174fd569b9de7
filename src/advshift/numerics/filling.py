"""Filling capacities in order of risk: the maximisers of the sets that are polyhedra.

No permutation is undone and no tie is broken by position: a sort finds the threshold, then every class above it is
full, every class below it is empty, and the classes at it share what is left in proportion to their capacities.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from advshift.numerics.backend import as_scalar, choose, epsilon, namespace, total
from advshift.types import Array, PerProblem

__all__ = ["Filling", "descending", "fill", "first_where"]


class Filling(NamedTuple):
    """How much each class takes, and the key of the class that is filled last."""

    amounts: Float[Array, "*batch classes"]
    threshold: PerProblem


def descending(
    key: Float[Array, "*#batch classes"], *arrays: Float[Array, "*#batch classes"]
) -> tuple[Float[Array, "*#batch classes"], ...]:
    """Sort `key` from the largest down, and the other arrays along with it."""
    xp = namespace(key)
    order = xp.argsort(key, axis=-1, descending=True)
    together = xp.broadcast_arrays(order, key, *arrays)
    return tuple(xp.take_along_axis(array, together[0], axis=-1) for array in together[1:])


def first_where(condition: Array, values: Float[Array, "*#batch classes"]) -> PerProblem:
    """The entry of `values` at the first true place of `condition` along the last axis; the last entry without one."""
    xp = namespace(values)
    condition, values = xp.broadcast_arrays(condition, values)
    index = xp.sum(xp.astype(xp.astype(condition, xp.int64).cumsum(-1) == 0, xp.int64), axis=-1)
    index = choose(index < values.shape[-1], index, values.shape[-1] - 1)
    return as_scalar(xp.take_along_axis(values, xp.asarray(index)[..., None], axis=-1))


def fill(
    key: Float[Array, "*#batch classes"], capacity: Float[Array, "*#batch classes"], amount: PerProblem
) -> Filling:
    """Give out `amount`, to the classes of largest key first, none beyond its capacity.

    The amount must not exceed the capacities' sum; classes without capacity do not count for the threshold.
    """
    ordered, capacities = descending(key, capacity)
    namespace(key)
    filled = capacities.cumsum(-1)
    enough = (filled >= amount - 4.0 * epsilon(key)) & (capacities > 0)
    threshold = first_where(enough, ordered)
    above = choose(key > threshold, capacity, 0.0)
    level = choose(key == threshold, capacity, 0.0)
    room = total(level)
    share = (amount - total(above)) / choose(room > 0, room, 1.0)
    share = choose(share > 0, choose(share < 1, share, 1.0), 0.0)
    return Filling(above + share * level, threshold)
