"""Projected ascent: on the simplex, or on a ball around the reference."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jaxtyping import Float

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
from advshift.numerics.backend import choose
from advshift.numerics.projection import project_kl_ball, project_simplex
from advshift.types import Array

__all__ = ["AgnosticAdversary", "AgnosticState"]

Projectable = Literal["simplex", "kl"]
PROJECTION_STEPS = 20


class AgnosticState(NamedTuple):
    """The adversary's distribution."""

    distribution: Float[Array, "classes"]


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
    takes_numpy = True

    def __init__(
        self,
        step_size: float = 0.01,
        *,
        uncertainty: Projectable = "simplex",
        radius: float | None = None,
        initial: Initial = "reference",
    ) -> None:
        self.step_size = check_number("the step size", step_size, low=0.0, open_low=True, finite=True)
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

    def init(self, reference: Float[Array, "classes"]) -> AgnosticState:
        """Begin at the reference or the uniform distribution."""
        return AgnosticState(initial_distribution(self.initial, reference) + 0.0)

    def step(
        self, state: AgnosticState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[AgnosticState, Nothing]:
        """Ascend and project."""
        moved = state.distribution + self.step_size * estimated_class_losses(losses, reference)
        if self.radius is None:
            moved = choose(reference > 0, moved, moved.max() - 2.0)  # too low for the projection to keep
            return AgnosticState(project_simplex(moved, check=False)), Nothing()
        found = project_kl_ball(moved, reference, self.radius, steps=PROJECTION_STEPS)
        return AgnosticState(found.distribution), Nothing()
