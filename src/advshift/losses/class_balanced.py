"""Class weights by the effective number of examples."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.losses.base import IGNORED, check_counts
from advshift.losses.cross_entropy import CrossEntropy
from advshift.types import ArrayLike

__all__ = ["ClassBalanced", "effective_number_weights"]


def effective_number_weights(class_counts: ArrayLike, beta: float = 0.9999) -> Float[Tensor, " classes"]:
    """Weights `w_y ∝ (1-β)/(1-β^{n_y})` that sum to the number of classes.

    `(1-β^n)/(1-β)` is the effective number of `n` examples (Cui et al., CVPR 2019): it grows like `n` at first and
    saturates at `1/(1-β)`. At β = 0 all weights are one; at β = 1 they are the inverse frequencies, the limit.

    >>> effective_number_weights([1000, 10], beta=1.0)
    tensor([0.0198, 1.9802])
    """
    if not 0.0 <= as_number(beta) <= 1.0:
        raise InputError(f"beta must be a number from 0 to 1; got {beta!r}")
    counts = check_counts(class_counts, "weighting by the effective number")
    effective = counts if beta == 1.0 else -np.expm1(counts * np.log(beta)) if beta > 0.0 else np.ones_like(counts)
    weights = 1.0 / effective
    return torch.tensor(weights * (counts.size / weights.sum()), dtype=torch.get_default_dtype())


class ClassBalanced(CrossEntropy):
    """Cross-entropy with weights by the effective number of examples of each class.

    Parameters
    ----------
    class_counts
        The training examples per class.
    beta
        From 0, no weights, to 1, inverse frequencies.
    label_smoothing, ignore_index
        As in every loss.

    >>> import torch
    >>> loss = ClassBalanced([1000, 10], beta=0.999)
    >>> loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor([0.0215, 1.3648])
    """

    name = "class-balanced"
    class_weights: Tensor

    def __init__(
        self,
        class_counts: ArrayLike,
        *,
        beta: float = 0.9999,
        label_smoothing: float = 0.0,
        ignore_index: int = IGNORED,
    ) -> None:
        super().__init__(label_smoothing=label_smoothing, ignore_index=ignore_index)
        self.beta = beta
        self.register_buffer("class_weights", effective_number_weights(class_counts, beta))

    def forward(
        self,
        logits: Shaped[Tensor, "*shape"],
        labels: Shaped[Tensor, "*any"],
        class_weights: Float[Tensor, " classes"] | None = None,
    ) -> Float[Tensor, "*examples"]:
        """Find the weighted loss of each example; further `class_weights` multiply its own."""
        own = self.class_weights
        return super().forward(logits, labels, own if class_weights is None else own * class_weights)
