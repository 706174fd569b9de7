"""The paper's adversary: mirror ascent on the class losses, pulled back by a penalty outside a KL ball."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from advshift.adversaries.base import (
    LOG_OF_NOTHING,
    Adversary,
    ClassLosses,
    Initial,
    check_choice,
    check_number,
    estimated_class_losses,
    initial_distribution,
    log_on_support,
    on_host,
)
from advshift.numerics.backend import from_host
from advshift.numerics.proximal import ProximalStep, exact_proximal_step
from advshift.types import Array

__all__ = ["AdvShiftAdversary", "AdvShiftInfo", "AdvShiftState"]

StepRule = Literal["published", "exact-prox"]
PROXIMAL_STEPS = 5  # Newton steps of the exact proximal step


class AdvShiftState(NamedTuple):
    """The logarithm of the adversary's distribution."""

    log_distribution: Float[Tensor, "classes"]

    @property
    def distribution(self) -> Float[Tensor, "classes"]:
        """The adversary's distribution."""
        return self.log_distribution.exp()


class AdvShiftInfo(NamedTuple):
    """The divergence `KL(π ‖ p)` before the step, and the penalty `α` that the step took."""

    divergence: Float[Tensor, ""]
    penalty: Float[Tensor, ""]


class AdvShiftAdversary(Adversary):
    """Adversarial label shift: `π ∝ (π·p^α)^{1/(1+α)}·exp(η·g)`, where `α > 0` only outside the ball `KL(π ‖ p) ≤ r`.

    `g` is the unbiased estimate of the clipped class losses. With the proximal weight `λ` and the constraint's weight
    `γ` of the paper, `η = 2λ` and `α = 2γλ`: the default `α = 1` means `γλ = 1/2`. A step ends with the stabiliser,
    `π ← (1-ε)·π + ε·u`.

    Parameters
    ----------
    radius
        `r`, the largest divergence that is not penalised.
    step_size
        `η`. The paper prints no value; ours is 0.01.
    penalty
        `α` outside the ball; `tune_penalty` finds the one that keeps the ball.
    stabiliser
        `ε`. The paper prints no value; ours is 0.001.
    stabilise_towards
        `u`: the reference, which never leaves the ball, or the uniform distribution over its classes, which can.
    initial
        Where `π` begins. The paper's `"uniform"` lies far outside the ball on long-tailed data.
    step
        `"published"` switches the penalty by the divergence before the step and keeps `η`. `"exact-prox"` solves the
        proximal step: `log π⁺ = (log π + α log p + η g)/(1+α) + const` with `α` 0 if that stays in the ball, the
        penalty if that stays outside, and else the number between that lands on the ball's boundary.
    clip
        The largest loss of one example that counts towards `g`; the paper's 2.

    Reference: Zhang, Menon, Veit, Bhojanapalli, Kumar, Sra: Coping with label shift via distributionally robust
    optimisation (ICLR 2021).

    >>> adversary = AdvShiftAdversary(radius=0.1, initial="reference")
    >>> reference = torch.tensor([0.5, 0.5])
    >>> losses = ClassLosses(torch.tensor([8.0, 0.0]), torch.tensor([4.0, 4.0]), torch.tensor(8.0))
    >>> state, info = adversary.step(adversary.init(reference), losses, reference)
    >>> state.distribution  # the hard class gains
    tensor([0.5050, 0.4950])
    """

    name = "advshift"
    clip = 2.0
    refusals: ClassVar[dict[str, str]] = {
        "uncertainty": "its penalty and its mirror step are those of the KL ball; use adversary='exact' for another set"
    }

    def __init__(
        self,
        radius: float = 0.1,
        *,
        step_size: float = 0.01,
        penalty: float = 1.0,
        stabiliser: float = 1e-3,
        stabilise_towards: Initial = "reference",
        initial: Initial = "uniform",
        step: StepRule = "published",
        clip: float = 2.0,
    ) -> None:
        self.radius = check_number("the radius", radius, low=0.0)
        self.step_size = check_number("the step size", step_size, low=0.0, open_low=True)
        self.penalty = check_number("the penalty", penalty, low=0.0)
        self.stabiliser = check_number("the stabiliser", stabiliser, low=0.0, high=1.0)
        self.clip = check_number("clip", clip, low=0.0, open_low=True)
        check_choice("stabilise_towards", stabilise_towards, Initial)
        check_choice("initial", initial, Initial)
        check_choice("step", step, StepRule)
        self.stabilise_towards, self.initial, self.rule = stabilise_towards, initial, step

    def init(self, reference: Float[Tensor, "classes"]) -> AdvShiftState:
        """Begin at the uniform distribution or the reference."""
        return AdvShiftState(log_on_support(initial_distribution(self.initial, reference)))

    def step(
        self, state: AdvShiftState, losses: ClassLosses, reference: Float[Tensor, "classes"]
    ) -> tuple[AdvShiftState, AdvShiftInfo]:
        """Ascend, be pulled back, and mix."""
        log_reference = log_on_support(reference)
        gradient = estimated_class_losses(losses, reference)
        divergence = _divergence(state.log_distribution, log_reference)
        if self.rule == "published":
            penalty = (divergence >= self.radius).to(divergence) * self.penalty
            pulled = _pull(state.log_distribution, log_reference, penalty)
            moved = torch.log_softmax(torch.add(pulled, gradient, alpha=self.step_size), dim=0)
        else:
            moved, penalty = self._proximal(state, gradient, reference)
        return AdvShiftState(self._stabilised(moved, reference)), AdvShiftInfo(divergence, penalty)

    def _stabilised(self, log_distribution: Tensor, reference: Tensor) -> Tensor:
        if self.stabiliser > 0:
            anchor = initial_distribution(self.stabilise_towards, reference)
            log_distribution = torch.lerp(log_distribution.exp(), anchor, self.stabiliser).log()
        return log_distribution.masked_fill(reference == 0, LOG_OF_NOTHING)

    def _proximal(self, state: AdvShiftState, gradient: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Solve the proximal step with `λ = η/2` and `γ = α/η`; on the host through NumPy."""

        def solve(own: Array, centre: Array, losses: Array) -> ProximalStep:
            half, weight = 0.5 * self.step_size, self.penalty / self.step_size
            return exact_proximal_step(own, centre, losses, half, weight, self.radius, steps=PROXIMAL_STEPS)

        found = on_host(solve, state.log_distribution, reference.log(), gradient)
        return from_host(found.log_weights, gradient), from_host(found.penalty, gradient)


def _pull(log_distribution: Tensor, log_reference: Tensor, penalty: Tensor) -> Tensor:
    """`log (π·p^α)^{1/(1+α)}`, not normalised: the published step in three kernels."""
    return torch.addcmul(log_distribution, log_reference, penalty) / (1.0 + penalty)


def _divergence(log_distribution: Tensor, log_reference: Tensor) -> Float[Tensor, ""]:
    return torch.dot(log_distribution.exp(), log_distribution - log_reference)
