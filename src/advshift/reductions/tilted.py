"""The log-sum-exp of the losses, of a batch and of a stream of batches."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.numerics.autograd import moves_state
from advshift.reductions.base import Batch, Reduction

__all__ = ["StreamingTilted", "Tilted", "tilted_mean"]


def tilted_mean(losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], tilt: int | float) -> Float[Tensor, ""]:
    """`(1/t)·log Σ p·exp(t·ℓ)`; its gradient weighs the losses by `p·exp(t·ℓ)`, normalised.

    For a small tilt the logarithm is of a number close to one, and is taken so that no digit is lost.

    >>> import torch
    >>> tilted_mean(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.5]), 1e-6)
    tensor(2.0000)
    """
    if tilt == 0.0:
        return reference @ losses
    allowed = reference > 0
    height = torch.where(allowed, tilt * losses, -torch.inf)
    top = height.detach().max()
    below = torch.where(allowed, height - top, 0.0)
    gentle = below.detach().min() > -1.0
    nearly = torch.log1p(reference @ torch.expm1(torch.where(gentle, below, 0.0)))
    steep = torch.log(reference @ torch.exp(below))
    return (top + torch.where(gentle, nearly, steep)) / tilt


class Tilted(Reduction):
    """`(1/t)·log mean exp(t·ℓ)` (TERM, Li et al., ICLR 2021).

    It is the worst case of the mean less `KL(w ‖ p)/t`. A negative tilt favours what is easy, against wrong labels.

    Parameters
    ----------
    tilt
        The t: 0 is the mean, plus infinity the largest loss, minus infinity the smallest.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> Tilted(1.0)(torch.tensor([1.0, 2.0, 6.0]))
    tensor(4.9261)
    """

    name = "tilted"

    def __init__(self, tilt: int | float, *, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        self.tilt = _check_tilt(tilt)

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        return tilted_mean(batch.losses, batch.reference, self.tilt)


class StreamingTilted(Reduction):
    """TERM on minibatches: a running estimate `R` of the tilted mean of all data normalises the weights.

    `R ← (1/t)·log((1-λ)·exp(t·R) + λ·exp(t·R_batch))` in train mode, then the gradient is the mean of
    `exp(t·(ℓ - R))·∇ℓ`, and the value is `R`. The estimate is a buffer; the first batch sets it. The authors' code
    averages exponentials of losses in the same way: with λ = 0.2 to weigh the annotators of noisy labels, and 0.5 to
    weigh federated updates. (The latter shifts by the largest loss of each round, so that rounds differ in their unit:
    here all have one.)

    Parameters
    ----------
    tilt
        The t, not 0.
    rate
        The λ, the newest batch's share of the estimate.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> reduction = StreamingTilted(1.0, rate=0.5)
    >>> [round(reduction(torch.tensor(losses)).item(), 4) for losses in ([1.0, 1.0], [3.0, 3.0])]
    [1.0, 2.4338]
    """

    name = "streaming-tilted"
    estimate: Float[Tensor, ""]
    started: Bool[Tensor, ""]

    def __init__(self, tilt: int | float, *, rate: int | float = 0.2, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        if tilt == 0:
            raise InputError("a stream needs a tilt other than 0; at 0 use Mean")
        if not 0.0 < as_number(rate) <= 1.0:
            raise InputError(f"the rate must be above 0 and up to 1; got {rate!r}")
        self.tilt, self.rate = _check_tilt(tilt), rate
        self.register_buffer("estimate", torch.zeros(()))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        moves = moves_state(training=self.training, what="StreamingTilted", instead="keep it outside of the checkpoint")
        estimate = self._next(batch).detach()
        factors = torch.exp(self.tilt * (batch.losses.detach() - estimate))
        excess = (batch.reference * factors) @ (batch.losses - batch.losses.detach())
        if moves:
            self.estimate.copy_(torch.where(batch.present, estimate, self.estimate))
            self.started.logical_or_(batch.present)
        return torch.where(batch.present, estimate + excess, 0.0)

    def _next(self, batch: Batch) -> Tensor:
        """The estimate with this batch."""
        newest = tilted_mean(batch.losses, batch.reference, self.tilt)
        if self.rate == 1.0:
            return newest
        kept = math.log1p(-self.rate) + self.tilt * self.estimate
        blend = torch.logaddexp(kept.to(newest), math.log(self.rate) + self.tilt * newest) / self.tilt
        return torch.where(self.started, blend, newest)


def _check_tilt(tilt: int | float) -> float:
    if not math.isfinite(as_number(tilt)):
        raise InputError(f"the tilt must be a finite number; got {tilt!r}. For the largest loss use AverageTopK(1)")
    return float(tilt)
