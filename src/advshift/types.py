"""Records and shape types that the whole package shares.

An `Array` is a NumPy array or a torch tensor: the numerics are written once against the array API.
Shapes are written in the annotations (`Float[Array, "*batch classes"]`) and are checked while tests run.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Bool, Float

__all__ = ["Array", "ArrayLike", "PerProblem", "PerProblemFlag", "WorstCase"]

Array: TypeAlias = Any
ArrayLike: TypeAlias = Any

# A number or a flag per problem: the classes' axis is kept with length 1, but a single NumPy problem has scalars.
PerProblem: TypeAlias = Float[Array, "*#batch 1"] | Float[Array, ""] | float
PerProblemFlag: TypeAlias = Bool[Array, "*#batch 1"] | Bool[Array, ""]


class WorstCase(NamedTuple):
    """The worst label distribution of a set, and how bad it is.

    Attributes
    ----------
    value
        The largest expected risk over the set.
    distribution
        A label distribution of the set that attains it. Where classes tie, the tie is split in proportion
        to what each may take, so that the answer does not depend on the order of the classes.
    multiplier
        The derivative of `value` with respect to the set's radius: 0 where the radius is slack, infinite
        at radius 0 of a smooth ball, nan for a set without one radius.
    converged
        Whether the iteration met its tolerance; always true for the sets that are solved by a sort.
    """

    value: Float[Array, "*batch"]
    distribution: Float[Array, "*batch classes"]
    multiplier: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]
