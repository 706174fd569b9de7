"""No adversary: the learner trains on the distribution that the data has."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float

from advshift.adversaries.base import Adversary, ClassLosses, Nothing
from advshift.types import Array

__all__ = ["ERMAdversary"]


class ERMAdversary(Adversary):
    """Empirical risk minimisation: `π = p`, so every weight is one.

    >>> import torch
    >>> ERMAdversary().distribution(Nothing(), torch.tensor([0.75, 0.25]))
    tensor([0.7500, 0.2500])
    """

    name = "erm"
    takes_numpy = True
    refusals: ClassVar[dict[str, str]] = {
        "radius": "empirical risk minimisation fears no shift; a radius belongs to 'advshift' or 'exact'",
        "uncertainty": "empirical risk minimisation fears no shift; use adversary='exact' for a set",
    }

    def init(self, reference: Float[Array, "classes"]) -> Nothing:
        """Remember nothing."""
        return Nothing()

    def step(self, state: Nothing, losses: ClassLosses, reference: Float[Array, "classes"]) -> tuple[Nothing, Nothing]:
        """Move nothing."""
        return state, Nothing()

    def distribution(self, state: Nothing, reference: Float[Array, "classes"]) -> Float[Array, "classes"]:
        """Return the reference."""
        return reference
