"""The log-sum-exp of a batch's class losses: a penalised adversary that needs no memory."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from jaxtyping import Float

from advshift.adversaries.base import (
    LOG_OF_NOTHING,
    Adversary,
    ClassLosses,
    Nothing,
    check_number,
    log_on_support,
)
from advshift.numerics.backend import choose, namespace
from advshift.numerics.classwise import class_means
from advshift.numerics.proximal import log_normalised
from advshift.types import Array

__all__ = ["TiltedAdversary", "TiltedState"]


class TiltedState(NamedTuple):
    """The distribution at the last batch; no step reads it."""

    distribution: Float[Array, "classes"]


class TiltedAdversary(Adversary):
    """The exponential tilt of the batch's own class losses, `π_y ∝ p_y·exp(s·ℓ̄_y)` over the classes in the batch.

    The gradient of the weighted class means is that of `(1/s) log Σ p_y exp(s·ℓ̄_y)`, which by the Gibbs identity is the
    worst case penalised by `KL(π ‖ p)/s`. A batch is weighted by its own losses, so that micro-batches do not add up to
    the big batch, and a class loss from few examples is noisy.

    Parameters
    ----------
    rate
        `s`: 0 is the mean over the reference's classes; the larger, the closer to the worst class.

    >>> import torch
    >>> losses = ClassLosses(torch.tensor([1.0, 0.0, 4.0]), torch.tensor([2.0, 0.0, 2.0]), torch.tensor(4.0))
    >>> reference = torch.tensor([0.5, 0.25, 0.25])
    >>> TiltedAdversary(1.0).step(TiltedState(reference), losses, reference)[0].distribution
    tensor([0.3086, 0.0000, 0.6914])
    """

    name = "tilted"
    takes_numpy = True
    weighting = "class-means"
    immediate = True
    refusals: ClassVar[dict[str, str]] = {
        "radius": "its divergence is penalised at rate 1/s, not bounded; use adversary='exact' with uncertainty='kl'",
        "uncertainty": "the log-sum-exp is the penalty form of the KL ball; use adversary='exact' for another set",
    }

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = check_number("the rate", rate, low=0.0, finite=True)

    def init(self, reference: Float[Array, "classes"]) -> TiltedState:
        """Begin at the reference."""
        return TiltedState(reference + 0.0)

    def step(
        self, state: TiltedState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[TiltedState, Nothing]:
        """Tilt the reference, restricted to the classes of the batch, by their mean losses."""
        exponent = log_on_support(reference) + self.rate * class_means(losses.sums, losses.counts)
        exponent = choose(losses.counts > 0, exponent, LOG_OF_NOTHING)
        return TiltedState(namespace(exponent).exp(log_normalised(exponent))), Nothing()
