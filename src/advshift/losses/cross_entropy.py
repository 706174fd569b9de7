"""Cross-entropy, with everything that torch's has."""

from __future__ import annotations

from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.losses.base import IGNORED, Loss, check_inputs, expected_loss

__all__ = ["CrossEntropy", "cross_entropy"]


def cross_entropy(
    logits: Shaped[Tensor, "*shape"],
    labels: Shaped[Tensor, "*any"],
    *,
    class_weights: Float[Tensor, " classes"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED,
) -> Float[Tensor, "*examples"]:
    """Cross-entropy of each example, `-w_y·log softmax(z)_y`.

    Equal to torch's with `reduction="none"`. Its mean over weighted examples is another matter: torch divides by the
    sum of the weights in the batch, which is not an unbiased estimate of the weighted risk.

    >>> import torch
    >>> cross_entropy(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0.1269, 0.6931])
    """
    logits = check_inputs(logits, labels, ignore_index)
    return expected_loss(
        logits.log_softmax(dim=1),
        labels,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )


class CrossEntropy(Loss):
    """The cross-entropy of each example, `-log softmax(z)_y`.

    >>> import torch
    >>> CrossEntropy(label_smoothing=0.1)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor([0.2269])
    """

    name = "cross-entropy"

    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """See `Loss`."""
        return logits.log_softmax(dim=1)
