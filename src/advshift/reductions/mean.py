"""The plain mean: empirical risk minimisation."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from advshift.reductions.base import Batch, Reduction

__all__ = ["Mean"]


class Mean(Reduction):
    """The mean loss; with weights the weighted mean, and with groups the same.

    >>> import torch
    >>> Mean()(torch.tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """

    name = "mean"

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        return batch.reference @ batch.losses
