"""Balanced softmax: every class's exponential counts as often as the class occurs."""

from __future__ import annotations

from advshift.losses.base import IGNORED
from advshift.losses.logit_adjusted import LogitAdjusted
from advshift.types import ArrayLike

__all__ = ["BalancedSoftmax"]


class BalancedSoftmax(LogitAdjusted):
    """Cross-entropy of the softmax `n_y·exp(z_y) / Σ_c n_c·exp(z_c)` (Ren et al., NeurIPS 2020).

    It is logit adjustment with τ = 1, from the counts; predict with `z`.

    Parameters
    ----------
    class_counts
        The training examples per class.
    label_smoothing, ignore_index
        As in every loss.

    >>> import torch
    >>> BalancedSoftmax([90, 10])(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor([0.1054, 2.3026])
    """

    name = "balanced-softmax"

    def __init__(self, class_counts: ArrayLike, *, label_smoothing: float = 0.0, ignore_index: int = IGNORED) -> None:
        super().__init__(class_counts, temperature=1.0, label_smoothing=label_smoothing, ignore_index=ignore_index)
