"""A target on which all classes are equally frequent."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float

from advshift.adversaries.base import Adversary, ClassLosses, Nothing, initial_distribution
from advshift.types import Array

__all__ = ["BalancedAdversary"]


class BalancedAdversary(Adversary):
    """Balanced risk minimisation: `π` uniform over the classes that have mass in the reference.

    >>> import torch
    >>> BalancedAdversary().distribution(Nothing(), torch.tensor([0.75, 0.25, 0.0]))
    tensor([0.5000, 0.5000, 0.0000])
    """

    name = "balanced"
    takes_numpy = True
    refusals: ClassVar[dict[str, str]] = {
        "radius": "its target does not move; a radius belongs to 'advshift' or 'exact'",
        "uncertainty": "its target does not move; use adversary='exact' for a set",
    }

    def init(self, reference: Float[Array, "classes"]) -> Nothing:
        """Remember nothing."""
        return Nothing()

    def step(self, state: Nothing, losses: ClassLosses, reference: Float[Array, "classes"]) -> tuple[Nothing, Nothing]:
        """Move nothing."""
        return state, Nothing()

    def distribution(self, state: Nothing, reference: Float[Array, "classes"]) -> Float[Array, "classes"]:
        """Return the uniform distribution over the reference's classes."""
        return initial_distribution("uniform", reference)
