"""The paper's adversary: mirror ascent on the class losses, pulled back by a penalty outside a KL ball."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from jaxtyping import Float

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
from advshift.numerics.backend import choose, everywhere, from_host, namespace, restrict
from advshift.numerics.proximal import ProximalStep, exact_proximal_step
from advshift.types import Array

__all__ = ["AdvShiftAdversary", "AdvShiftInfo", "AdvShiftState"]

StepRule = Literal["published", "exact-prox"]
PROXIMAL_STEPS = 5  # Newton steps of the exact proximal step


class AdvShiftState(NamedTuple):
    """The logarithm of the adversary's distribution."""

    log_distribution: Float[Array, "classes"]

    @property
    def distribution(self) -> Float[Array, "classes"]:
        """The adversary's distribution."""
        distribution: Array = namespace(self.log_distribution).exp(self.log_distribution)
        return distribution


class AdvShiftInfo(NamedTuple):
    """The divergence `KL(π ‖ p)` before the step, and the penalty `α` that the step took."""

    divergence: Float[Array, ""]
    penalty: Float[Array, ""]


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

    >>> import torch
    >>> adversary = AdvShiftAdversary(radius=0.1, initial="reference")
    >>> reference = torch.tensor([0.5, 0.5])
    >>> losses = ClassLosses(torch.tensor([8.0, 0.0]), torch.tensor([4.0, 4.0]), torch.tensor(8.0))
    >>> state, info = adversary.step(adversary.init(reference), losses, reference)
    >>> state.distribution  # the hard class gains
    tensor([0.5050, 0.4950])
    """

    name = "advshift"
    takes_numpy = True
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
        self.step_size = check_number("the step size", step_size, low=0.0, open_low=True, finite=True)
        self.penalty = check_number("the penalty", penalty, low=0.0, finite=True)
        self.stabiliser = check_number("the stabiliser", stabiliser, low=0.0, high=1.0)
        self.clip = check_number("clip", clip, low=0.0, open_low=True)
        check_choice("stabilise_towards", stabilise_towards, Initial)
        check_choice("initial", initial, Initial)
        check_choice("step", step, StepRule)
        self.stabilise_towards, self.initial, self.rule = stabilise_towards, initial, step

    def init(self, reference: Float[Array, "classes"]) -> AdvShiftState:
        """Begin at the uniform distribution or the reference."""
        return AdvShiftState(log_on_support(initial_distribution(self.initial, reference)))

    def step(
        self, state: AdvShiftState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[AdvShiftState, AdvShiftInfo]:
        """Ascend, be pulled back, and mix."""
        xp, present, own = namespace(reference), everywhere(reference > 0), state.log_distribution
        gradient = estimated_class_losses(losses, reference, present)
        away = own - restrict(xp.log(reference), present, LOG_OF_NOTHING)
        divergence = (xp.exp(own) * away).sum()
        if self.rule == "published":
            penalty = choose(divergence >= self.radius, self.penalty, 0.0 * divergence)
            moved = own - penalty / (1.0 + penalty) * away + self.step_size * gradient
        else:
            moved, penalty = self._proximal(state, gradient, reference)
        return AdvShiftState(self._settled(moved, reference, present)), AdvShiftInfo(divergence, penalty)

    def _settled(self, logits: Array, reference: Array, present: Array) -> Array:
        """Normalise and mix, and keep to the reference's classes; with one exponential of all classes."""
        xp = namespace(reference)
        below = logits - logits.max()
        mass = xp.exp(below)
        if self.stabiliser > 0:
            anchor = initial_distribution(self.stabilise_towards, reference)
            settled = xp.log((1.0 - self.stabiliser) / mass.sum() * mass + self.stabiliser * anchor)
        else:
            settled = below - xp.log(mass.sum())
        return restrict(settled, present, LOG_OF_NOTHING)

    def _proximal(self, state: AdvShiftState, gradient: Array, reference: Array) -> tuple[Array, Array]:
        """Solve the proximal step with `λ = η/2` and `γ = α/η`; on the host through NumPy."""

        def solve(own: Array, centre: Array, losses: Array) -> ProximalStep:
            half, weight = 0.5 * self.step_size, self.penalty / self.step_size
            return exact_proximal_step(own, centre, losses, half, weight, self.radius, steps=PROXIMAL_STEPS)

        found = on_host(solve, state.log_distribution, namespace(reference).log(reference), gradient)
        return from_host(found.log_weights, gradient), from_host(found.penalty, gradient)
