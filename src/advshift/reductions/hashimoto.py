"""The dual of the chi-square ball: squares of what exceeds a threshold."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from advshift.errors import InputError, as_number
from advshift.numerics.truncation import truncate_to_divergence
from advshift.reductions.base import Batch, Reduction

__all__ = ["DualChiSquare", "Hashimoto", "chi_square_dual"]


class Hashimoto(Reduction):
    """`mean (ℓ-η)₊²` for a threshold `η` that was tuned beforehand (Hashimoto et al., ICML 2018).

    For each radius there is an η with which this has the same minimiser as the worst case over the chi-square ball.

    Parameters
    ----------
    threshold
        The η: only losses above it count.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> Hashimoto(2.0)(torch.tensor([1.0, 2.0, 6.0]))
    tensor(5.3333)
    """

    name = "hashimoto"

    def __init__(self, threshold: int | float, *, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        if not math.isfinite(as_number(threshold)):
            raise InputError(f"the threshold must be a finite number; got {threshold!r}")
        self.threshold = threshold

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        value = batch.reference @ (batch.losses - self.threshold).clamp_min(0.0) ** 2
        return torch.where(batch.present, value, 0.0)


def chi_square_dual(
    losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], threshold: Float[Tensor, ""], radius: int | float
) -> Float[Tensor, ""]:
    """`η + √(1+2r)·√(Σ p·(ℓ-η)₊²)`, whose minimum over the threshold `η` is the worst case over the chi-square ball."""
    square = reference @ (losses - threshold).clamp_min(0.0) ** 2
    return threshold + math.sqrt(1.0 + 2.0 * radius) * square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()


class DualChiSquare(Reduction):
    """The worst case over the chi-square ball through its dual, with a threshold that is learned with the model.

    Give `parameters()` to the optimiser; `fit` sets the threshold to the best for some losses.

    Parameters
    ----------
    radius
        The radius of `½ Σ (w-p)²/p`, as in `ChiSquare`.
    threshold
        The first value of η.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> losses, reduction = torch.tensor([1.0, 2.0, 6.0]), DualChiSquare(0.1)
    >>> reduction.fit(losses)
    >>> round(reduction(losses).item(), 4)
    3.9661
    """

    name = "chi-square-dual"

    def __init__(self, radius: int | float, *, threshold: int | float = 0.0, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        if not 0.0 <= as_number(radius) < float("inf"):
            raise InputError(f"the radius must be a finite number from 0 up; got {radius!r}")
        self.radius = radius
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        value = chi_square_dual(batch.losses, batch.reference, self.threshold, self.radius)
        return torch.where(batch.present, value, 0.0)

    @torch.no_grad()
    def fit(self, losses: Float[Tensor, " n"]) -> None:
        """Set the threshold to the minimiser for these losses; the radius must be positive."""
        if self.radius == 0.0:
            raise InputError("at radius 0 the best threshold is minus infinity; use Mean")
        scaled = losses - losses.max()
        even = torch.full_like(losses, 1.0 / len(losses))
        slack = (1.0 + 2.0 * self.radius) * even[scaled == 0].sum() >= 1.0
        inside = torch.full_like(scaled[:1], self.radius)
        threshold = torch.as_tensor(truncate_to_divergence(scaled, even, inside))
        self.threshold.copy_(losses.max() + torch.where(slack, 0.0, threshold.squeeze()))
