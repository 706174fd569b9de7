"""The worst case over a chi-square ball of weights, and the same with a penalty in place of the ball."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.numerics.truncation import truncate_to_excess
from advshift.reductions.base import Batch, Reduction
from advshift.reductions.worst_case import WorstCaseMean
from advshift.sets import ChiSquareBall

__all__ = ["ChiSquare", "PenalisedChiSquare", "penalised_ratios"]


class ChiSquare(WorstCaseMean):
    """The worst mean over weights with `½ Σ (w-p)²/p ≤ radius` (Namkoong and Duchi, 2017; Levy et al., 2020).

    While no example is left out, it is `mean + √(2·radius·variance)`.

    Parameters
    ----------
    radius
        From 0, the mean, up.
    clip, num_groups
        As in `WorstCaseMean`.

    >>> import torch
    >>> ChiSquare(0.1)(torch.tensor([1.0, 2.0, 6.0]))
    tensor(3.9661)
    """

    name = "chi-square"

    def __init__(self, radius: int | float, *, clip: int | float | None = None, num_groups: int | None = None) -> None:
        super().__init__(ChiSquareBall(radius), clip=clip, num_groups=num_groups)


def penalised_ratios(
    losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], penalty: int | float
) -> Float[Tensor, " n"]:
    """The ratios `w/p = (ℓ-η)₊/λ` that maximise `Σ w·ℓ - λ/2·Σ (w-p)²/p`, without gradient."""
    losses, allowed = losses.detach(), reference > 0
    largest = torch.where(allowed, losses, -torch.inf).max()
    distance = torch.where(allowed, losses - largest, 0.0)
    scaled = torch.where(allowed, distance, distance.min())
    threshold = torch.as_tensor(truncate_to_excess(scaled, reference, float(penalty)))
    return (scaled - threshold).clamp_min(0.0) / penalty


class PenalisedChiSquare(Reduction):
    """The largest `Σ w·ℓ - λ/2·Σ (w-p)²/p` over weights (Levy et al., 2020).

    Parameters
    ----------
    penalty
        The λ, in units of the loss: towards 0 the largest loss, and the mean as it grows.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> PenalisedChiSquare(10.0)(torch.tensor([1.0, 2.0, 6.0]))  # 3 + variance/20
    tensor(3.2333)
    """

    name = "penalised-chi-square"

    def __init__(self, penalty: int | float, *, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        if not 0.0 < as_number(penalty) < float("inf"):
            raise InputError(f"the penalty must be a positive number; got {penalty!r}")
        self.penalty = penalty

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        ratios = penalised_ratios(batch.losses, batch.reference, self.penalty)
        cost = 0.5 * self.penalty * (batch.reference @ (ratios - 1.0) ** 2)
        return (batch.reference * ratios) @ batch.losses - cost
