"""Conditional value at risk: the mean of the worst share of the losses."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from advshift.errors import InputError, as_number
from advshift.numerics.filling import fill
from advshift.reductions.base import Batch, Reduction
from advshift.reductions.worst_case import WorstCaseMean
from advshift.sets import FrequencyCap

__all__ = ["CVaR", "DualCVaR", "cvar_dual"]


class CVaR(WorstCaseMean):
    """The mean of the worst share `alpha` of the losses: no example counts more than `1/alpha` times.

    On `m` examples the `⌊αm⌋` largest have the weight `1/(αm)` and the next takes what is left (Levy et al., 2020).

    Parameters
    ----------
    alpha
        The share: 1 is the mean, and towards 0 the largest loss.
    clip, num_groups
        As in `WorstCaseMean`.

    >>> import torch
    >>> CVaR(0.5)(torch.tensor([1.0, 2.0, 6.0]))  # (6 + 2/2) / 1.5
    tensor(4.6667)
    """

    name = "cvar"

    def __init__(self, alpha: int | float, *, clip: int | float | None = None, num_groups: int | None = None) -> None:
        super().__init__(FrequencyCap(1.0 / check_share(alpha)), clip=clip, num_groups=num_groups)
        self.alpha = alpha


def cvar_dual(
    losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], threshold: Float[Tensor, ""], alpha: int | float
) -> Float[Tensor, ""]:
    """`η + Σ p·(ℓ-η)₊/α`, whose minimum over the threshold `η` is the CVaR."""
    return threshold + reference @ (losses - threshold).clamp_min(0.0) / alpha


class DualCVaR(Reduction):
    """CVaR through its dual, `η + mean (ℓ-η)₊/α`, with a threshold that is learned together with the model.

    Unlike the worst case on a batch it is an unbiased estimate, of the dual at this η. Give `parameters()` to the
    optimiser; `fit` sets the threshold to the best for some losses.

    Parameters
    ----------
    alpha
        The share of the losses, as in `CVaR`.
    threshold
        The first value of η.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> losses, reduction = torch.tensor([1.0, 2.0, 6.0]), DualCVaR(0.5)
    >>> reduction(losses).item()
    6.0
    >>> reduction.fit(losses)
    >>> round(reduction(losses).item(), 4)
    4.6667
    """

    name = "cvar-dual"

    def __init__(self, alpha: int | float, *, threshold: int | float = 0.0, num_groups: int | None = None) -> None:
        super().__init__(num_groups=num_groups)
        self.alpha = check_share(alpha)
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        value = cvar_dual(batch.losses, batch.reference, self.threshold, self.alpha)
        return torch.where(batch.present, value, 0.0)

    @torch.no_grad()
    def fit(self, losses: Float[Tensor, " n"]) -> None:
        """Set the threshold to a minimiser for these losses: a quantile."""
        even = torch.full_like(losses, 1.0 / len(losses))
        filled = fill(losses, torch.clamp(even / self.alpha, max=1.0), 1.0)
        self.threshold.copy_(torch.as_tensor(filled.threshold).squeeze())


def check_share(alpha: int | float) -> float:
    """Raise unless `alpha` is a share of the losses."""
    if not 0.0 < as_number(alpha) <= 1.0:
        raise InputError(f"alpha must be a share of the losses, above 0 and up to 1; got {alpha!r}")
    return float(alpha)
