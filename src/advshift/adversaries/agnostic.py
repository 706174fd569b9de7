"""Projected ascent: on the simplex, or on a ball around the reference."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from advshift.adversaries.base import (
    Adversary,
    ClassLosses,
    Initial,
    Nothing,
    check_choice,
    check_number,
    estimated_class_losses,
    initial_distribution,
)
from advshift.errors import InputError
from advshift.numerics.projection import project_kl_ball, project_simplex

__all__ = ["AgnosticAdversary", "AgnosticState"]

Projectable = Literal["simplex", "kl"]
PROJECTION_STEPS = 20


class AgnosticState(NamedTuple):
    """The adversary's distribution."""

    distribution: Float[Tensor, "classes"]


class AgnosticAdversary(Adversary):
    """Agnostic learning: `π ← Proj(π + η·g)`, with `g` the unbiased estimate of the class losses.

    Parameters
    ----------
    step_size
        `η`.
    uncertainty
        What to project on: the simplex, as published, or the KL ball.
    radius
        The KL ball's radius.
    initial
        Where the distribution begins.

    Reference: Mohri, Sivek, Suresh: Agnostic federated learning (ICML 2019).
    """

    name = "agnostic"

    def __init__(
        self,
        step_size: float = 0.01,
        *,
        uncertainty: Projectable = "simplex",
        radius: float | None = None,
        initial: Initial = "reference",
    ) -> None:
        self.step_size = check_number("the step size", step_size, low=0.0, open_low=True)
        check_choice("initial", initial, Initial)
        if uncertainty not in ("simplex", "kl"):
            raise InputError(
                f"projected ascent is offered on 'simplex' and 'kl', not on {uncertainty!r}: "
                "for the other sets the best response is exact and cheaper; use adversary='exact'"
            )
        if (uncertainty == "kl") != (radius is not None):
            raise InputError("a radius belongs to uncertainty='kl', which needs one; the simplex has none")
        self.radius = None if radius is None else check_number("the radius", radius, low=0.0)
        self.initial = initial

    def init(self, reference: Float[Tensor, "classes"]) -> AgnosticState:
        """Begin at the reference or the uniform distribution."""
        return AgnosticState(initial_distribution(self.initial, reference).clone())

    def step(
        self, state: AgnosticState, losses: ClassLosses, reference: Float[Tensor, "classes"]
    ) -> tuple[AgnosticState, Nothing]:
        """Ascend and project."""
        moved = torch.add(state.distribution, estimated_class_losses(losses, reference), alpha=self.step_size)
        if self.radius is None:
            moved = torch.where(reference > 0, moved, moved.max() - 2.0)  # too low for the projection to keep
            return AgnosticState(project_simplex(moved, check=False)), Nothing()
        found = project_kl_ball(moved, reference, self.radius, steps=PROJECTION_STEPS)
        return AgnosticState(found.distribution), Nothing()
