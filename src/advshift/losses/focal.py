"""Focal loss: cross-entropy that fades where the model is sure."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.losses.base import IGNORED, Loss, check_inputs, expected_loss

__all__ = ["Focal", "focal", "focal_penalty"]


def focal_penalty(log_probabilities: Float[Tensor, "..."], gamma: float) -> Float[Tensor, "..."]:
    """`-(1-p)^γ·log p`, with a finite gradient at `p = 1` for every γ."""
    doubt = (-torch.expm1(log_probabilities)).clamp_min(torch.finfo(log_probabilities.dtype).tiny)
    return -log_probabilities * doubt**gamma


def focal(
    logits: Shaped[Tensor, "*shape"],
    labels: Shaped[Tensor, "*any"],
    *,
    gamma: float = 2.0,
    class_weights: Float[Tensor, " classes"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED,
) -> Float[Tensor, "*examples"]:
    """`-(1-p_y)^γ·log p_y` with `p = softmax(z)` (Lin et al., ICCV 2017)."""
    logits = check_inputs(logits, labels, ignore_index)
    return expected_loss(
        logits.log_softmax(dim=1),
        labels,
        penalty=partial(focal_penalty, gamma=gamma),
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )


class Focal(Loss):
    """Focal loss, `-(1-p_y)^γ·log p_y`: examples that the model is sure of hardly count.

    Parameters
    ----------
    gamma
        From 0 (cross-entropy) up.
    label_smoothing, ignore_index
        As in every loss.

    >>> import torch
    >>> Focal(gamma=2.0)(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0.0018, 0.1733])
    """

    name = "focal"

    def __init__(self, *, gamma: float = 2.0, label_smoothing: float = 0.0, ignore_index: int = IGNORED) -> None:
        super().__init__(label_smoothing=label_smoothing, ignore_index=ignore_index)
        if not as_number(gamma) >= 0.0:
            raise InputError(f"gamma must be a number from 0 up; got {gamma!r}")
        self.gamma = gamma

    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """See `Loss`."""
        return logits.log_softmax(dim=1)

    def penalty(self, log_probabilities: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """See `Loss`."""
        return focal_penalty(log_probabilities, self.gamma)
