"""The mean of the largest losses, a given number of them."""

from __future__ import annotations

from advshift.reductions.worst_case import WorstCaseMean
from advshift.sets import TopK

__all__ = ["AverageTopK"]


class AverageTopK(WorstCaseMean):
    """The mean of the `k` largest losses of the batch (Fan et al., NeurIPS 2017).

    A part of a loss counts where `k` is not whole. Weights only say which examples count: among fewer than `k` the
    result is their mean.

    Parameters
    ----------
    k
        A number from 1 (the largest loss) up.
    clip, num_groups
        As in `WorstCaseMean`.

    >>> import torch
    >>> AverageTopK(2)(torch.tensor([1.0, 2.0, 6.0]))
    tensor(4.)
    """

    name = "top-k"

    def __init__(self, k: int | float, *, clip: int | float | None = None, num_groups: int | None = None) -> None:
        super().__init__(TopK(k), clip=clip, num_groups=num_groups)
