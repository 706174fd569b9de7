"""A target distribution that is given and does not move."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float

from advshift.adversaries.base import Adversary, ClassLosses, Nothing
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy, check_distribution
from advshift.types import Array, ArrayLike

__all__ = ["FixedAdversary", "FixedState"]


class FixedState(NamedTuple):
    """The target."""

    distribution: Float[Array, "classes"]


class FixedAdversary(Adversary):
    """Re-weighting to a given label distribution: a known target, or the worst case of another model's audit.

    A distribution that was found on the validation examples leaks them into training: take it from a held-out part of
    the training data.

    Parameters
    ----------
    distribution
        One number per class; they sum to one. Only classes that the reference has may carry mass.

    >>> FixedAdversary([0.2, 0.8]).init(torch.tensor([0.5, 0.5])).distribution
    tensor([0.2000, 0.8000])
    """

    name = "fixed"
    takes_numpy = True
    refusals: ClassVar[dict[str, str]] = {
        "radius": "its target does not move; pass its distribution, or audit= (an audit's JSON) with radius=",
        "uncertainty": "its target does not move; find the worst case of a set first and pass its distribution",
    }

    def __init__(self, distribution: ArrayLike) -> None:
        try:
            self.target = as_numpy(distribution).astype("float64")
        except (TypeError, ValueError):
            raise InputError(f"the fixed distribution must be one number per class; got {distribution!r}") from None
        if self.target.ndim != 1 or not self.target.size:
            raise InputError(f"the fixed distribution must be one number per class; got shape {self.target.shape}")
        check_distribution(self.target, "the fixed distribution")

    def init(self, reference: Float[Array, "classes"]) -> FixedState:
        """Bring the target to the reference's device and dtype."""
        target = torch.as_tensor(self.target).to(reference)
        if target.shape != reference.shape:
            raise InputError(f"the fixed distribution has {len(target)} classes, the reference {len(reference)}")
        if bool(((reference == 0) & (target > 0)).any()):
            raise InputError(
                "the fixed distribution puts mass on a class without training examples; no weight can make up for that"
            )
        return FixedState(target)

    def step(
        self, state: FixedState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[FixedState, Nothing]:
        """Move nothing."""
        return state, Nothing()
