"""What every per-example loss shares: checks, soft labels, smoothing, class weights and ignored labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from advshift.errors import InputError, as_number
from advshift.numerics.backend import as_numpy
from advshift.types import ArrayLike

__all__ = ["IGNORED", "Loss", "check_counts", "check_inputs", "expected_loss", "per_class"]

IGNORED = -100  # the label that torch ignores by default


class Loss(nn.Module, ABC):
    """A loss per example: `(logits, labels) -> losses`, with the labels' shape.

    A loss is defined by `log_probabilities`, the logarithm of the probability that the loss gives to each class if
    that class is the label, and by `penalty`, a function of that number. From there on all losses are alike: soft
    labels give the expectation over the classes, as label smoothing does, and class weights multiply the class's term.

    Parameters
    ----------
    label_smoothing
        The share of the label that is spread evenly over the classes.
    ignore_index
        The label whose examples have loss 0 and no gradient.
    """

    name: ClassVar[str]

    def __init__(self, *, label_smoothing: float = 0.0, ignore_index: int = IGNORED) -> None:
        super().__init__()
        if not 0.0 <= as_number(label_smoothing) <= 1.0:
            raise InputError(f"label_smoothing must be a share from 0 to 1; got {label_smoothing!r}")
        if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
            raise InputError(f"ignore_index must be a label, an integer; got {ignore_index!r}")
        self.label_smoothing, self.ignore_index = label_smoothing, ignore_index

    def forward(
        self,
        logits: Shaped[Tensor, "*shape"],
        labels: Shaped[Tensor, "*any"],
        class_weights: Float[Tensor, " classes"] | None = None,
    ) -> Float[Tensor, "*examples"]:
        """Find the loss of each example.

        Parameters
        ----------
        logits
            Shape `(N, C)`, or `(N, C, ...)` for dense prediction. Half precision is raised to float32.
        labels
            Class indices of shape `(N, ...)`, or soft labels of the logits' shape.
        class_weights
            A factor for each class's term.
        """
        logits = check_inputs(logits, labels, self.ignore_index)
        return expected_loss(
            self.log_probabilities(logits),
            labels,
            penalty=self.penalty,
            class_weights=class_weights,
            label_smoothing=self.label_smoothing,
            ignore_index=self.ignore_index,
        )

    @abstractmethod
    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """The logarithm of the probability that each class has if it is the label."""

    def penalty(self, log_probabilities: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The loss of an example whose label has this log-probability."""
        return -log_probabilities

    def extra_repr(self) -> str:
        """The options, for `print`."""
        return f"label_smoothing={self.label_smoothing}, ignore_index={self.ignore_index}"


def expected_loss(
    log_probabilities: Float[Tensor, "batch classes *rest"],
    labels: Shaped[Tensor, "batch *any"],
    *,
    penalty: Callable[[Tensor], Tensor] = torch.neg,
    class_weights: Float[Tensor, " own"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED,
) -> Float[Tensor, "batch *rest"]:
    """The penalty of the label's log-probability, `Σ_y q_y·w_y·penalty(log_probabilities_y)` for a label `q`.

    Smoothing replaces `q` by `(1-s)·q + s/C`; a class index is the `q` that has all its mass there.
    """
    classes = log_probabilities.shape[1]
    weights = None if class_weights is None else per_class(class_weights, log_probabilities)
    if labels.is_floating_point():
        soft = (1.0 - label_smoothing) * labels.to(log_probabilities) + label_smoothing / classes
        return (soft * _terms(log_probabilities, penalty, weights)).sum(dim=1)
    kept = labels != ignore_index
    index = torch.where(kept, labels, 0).long()
    losses = penalty(log_probabilities.gather(1, index.unsqueeze(1)).squeeze(1))
    if weights is not None:
        losses = losses * weights.flatten()[index]
    if label_smoothing > 0.0:
        even = _terms(log_probabilities, penalty, weights).mean(dim=1)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * even
    return torch.where(kept, losses, 0.0)


def _terms(log_probabilities: Tensor, penalty: Callable[[Tensor], Tensor], weights: Tensor | None) -> Tensor:
    terms = penalty(log_probabilities)
    return terms if weights is None else terms * weights


def per_class(values: Float[Tensor, " own"], logits: Float[Tensor, "batch classes *rest"]) -> Tensor:
    """Shape a number per class so that it broadcasts along the logits' class axis, in their dtype."""
    if values.shape[0] != logits.shape[1]:
        raise InputError(
            f"the loss or its weights are for {values.shape[0]} classes; the logits have {logits.shape[1]}"
        )
    return values.to(logits).reshape(-1, *[1] * (logits.ndim - 2))


def check_inputs(logits: Any, labels: Any, ignore_index: int = IGNORED) -> Tensor:
    """Refuse logits and labels that do not fit together; return the logits in float32 at least.

    That every label is the index of a class is checked on the host only: to look would make an accelerator wait.
    """
    if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)):
        kinds = f"{type(logits).__name__} and {type(labels).__name__}"
        raise InputError(f"logits and labels must be tensors; got {kinds}. Convert with torch.as_tensor")
    if not logits.is_floating_point() or logits.ndim < 2:
        kind = f"shape {tuple(logits.shape)} and dtype {logits.dtype}"
        raise InputError(f"logits must be floating-point of shape (batch, classes, ...); got {kind}")
    if labels.is_floating_point():
        _check_soft(logits, labels)
    else:
        _check_indices(logits, labels, ignore_index)
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _check_soft(logits: Tensor, labels: Tensor) -> None:
    if labels.shape != logits.shape:
        raise InputError(
            f"labels of dtype {labels.dtype} are soft labels, which need the logits' shape {tuple(logits.shape)}; "
            f"got {tuple(labels.shape)}. Give class indices as integers: labels.long()"
        )
    if labels.device.type == "cpu" and not torch.compiler.is_compiling() and bool((labels < 0).any()):
        raise InputError(f"soft labels must be shares from 0 up; got {float(labels.min()):g}")


def _check_indices(logits: Tensor, labels: Tensor, ignore_index: int) -> None:
    expected = (logits.shape[0], *logits.shape[2:])
    if labels.dtype == torch.bool or labels.is_complex():
        raise InputError(f"labels must be class indices (integers) or soft labels (floats); got {labels.dtype}")
    if tuple(labels.shape) != expected:
        raise InputError(
            f"logits of shape {tuple(logits.shape)} need labels of shape {expected}; got {tuple(labels.shape)}"
        )
    if labels.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = (labels != ignore_index) & ((labels < 0) | (labels >= logits.shape[1]))
    if bool(wrong.any()):
        raise InputError(
            f"labels must lie from 0 to {logits.shape[1] - 1} (the logits have {logits.shape[1]} classes) "
            f"or be {ignore_index}, which is ignored; got {int(labels[wrong][0])}"
        )


def check_counts(class_counts: ArrayLike, what: str) -> np.ndarray:
    """The training examples per class in float64; raise unless there is at least one class and no class is empty."""
    try:
        counts: np.ndarray = as_numpy(class_counts).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"class_counts must hold one number per class; got {class_counts!r}") from None
    if counts.ndim != 1 or counts.size == 0:
        raise InputError(f"class_counts must hold one number per class; got an array of shape {counts.shape}")
    if not bool(np.all(np.isfinite(counts) & (counts > 0))):
        empty = int(np.sum(~(np.isfinite(counts) & (counts > 0))))
        raise InputError(
            f"{what} needs a positive count for every class; {empty} of {counts.size} are not. "
            "Leave a class without training examples out of the labels, or give it a pseudo-count"
        )
    return counts
