"""Logit adjustment: cross-entropy of the logits plus the log of the class frequencies."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.losses.base import IGNORED, Loss, check_counts, check_inputs, expected_loss, per_class
from advshift.types import ArrayLike

__all__ = ["LogitAdjusted", "logit_adjusted"]


def logit_adjusted(
    logits: Shaped[Tensor, "*shape"],
    labels: Shaped[Tensor, "*any"],
    log_prior: Float[Tensor, " classes"],
    *,
    temperature: float = 1.0,
    class_weights: Float[Tensor, " classes"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED,
) -> Float[Tensor, "*examples"]:
    """Cross-entropy of `z + τ·log p` (Menon et al., ICLR 2021).

    >>> import torch
    >>> logit_adjusted(torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([0.9, 0.1]).log())
    tensor([0.1054, 2.3026])
    """
    logits = check_inputs(logits, labels, ignore_index)
    return expected_loss(
        (logits + temperature * per_class(log_prior, logits)).log_softmax(dim=1),
        labels,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )


class LogitAdjusted(Loss):
    """Cross-entropy of `z + τ·log p`: train with it, and predict with `z`.

    What is fitted to the training classes is the sum, so that `z` itself fits classes that are equally frequent: the
    argmax of `z` aims at the balanced error.

    Parameters
    ----------
    class_counts
        The training examples per class, from which `p` comes.
    temperature
        The factor τ; one is the value that is consistent for the balanced error.
    label_smoothing, ignore_index
        As in every loss.

    >>> import torch
    >>> LogitAdjusted([90, 10])(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor([0.1054, 2.3026])
    """

    name = "logit-adjusted"
    log_prior: Tensor

    def __init__(
        self,
        class_counts: ArrayLike,
        *,
        temperature: float = 1.0,
        label_smoothing: float = 0.0,
        ignore_index: int = IGNORED,
    ) -> None:
        super().__init__(label_smoothing=label_smoothing, ignore_index=ignore_index)
        if not np.isfinite(as_number(temperature)):
            raise InputError(f"the temperature must be a finite number; got {temperature!r}")
        self.temperature = temperature
        counts = check_counts(class_counts, "logit adjustment")
        log_prior = np.log(counts / counts.sum())
        self.register_buffer("log_prior", torch.tensor(log_prior, dtype=torch.get_default_dtype()))

    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """See `Loss`."""
        return (logits + self.temperature * per_class(self.log_prior, logits)).log_softmax(dim=1)
