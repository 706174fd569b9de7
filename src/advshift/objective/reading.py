"""From logits and labels to losses and classes per example, whatever their shape; what does not fit is refused.

What a shape or a dtype tells is checked always. What only the values tell is checked where looking costs nothing: on
the host, outside compiled code. On an accelerator the indexing kernels trap labels that are out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from advshift.adversaries.base import check_number
from advshift.errors import InputError
from advshift.numerics.backend import readable
from advshift.types import Array

__all__ = ["Batch", "CrossEntropy", "PerExampleLoss", "Reader", "check_tensors"]

PerExampleLoss = Callable[[Tensor, Tensor], Tensor]


class Batch(NamedTuple):
    """The examples of a batch in a row; in dense prediction every pixel is one.

    `labels` are the classes or groups that the adversary weighs, as indices or as soft labels. `kept` tells the
    examples that count from the ignored ones, and is None if all count. `shape` is the shape of the losses.
    """

    losses: Float[Tensor, "examples"]
    labels: Shaped[Tensor, "examples *classes"]
    kept: Bool[Tensor, "examples"] | None
    shape: tuple[int, ...]

    @property
    def size(self) -> int | Tensor:
        """The number of examples that count."""
        return self.losses.shape[0] if self.kept is None else self.kept.sum()

    def look_up(self, class_weights: Float[Array, "classes"], *, mean: bool) -> Float[Tensor, "examples"]:
        """The weight of each example, of the losses' dtype; 0 for one that is ignored. A mean divides by the size."""
        numpy = isinstance(class_weights, np.ndarray)
        if numpy and self.labels.ndim == 1 and self.kept is None:
            of_examples = class_weights[self.labels.numpy()]
            weights = torch.from_numpy(of_examples / of_examples.dtype.type(self.size) if mean else of_examples)
            return weights.to(self.losses.dtype)
        of_classes = (torch.from_numpy(class_weights) if numpy else class_weights).to(self.losses.dtype)
        soft = self.labels.ndim == 2
        weights = (self.labels * of_classes).sum(1) if soft else of_classes.index_select(0, self.labels)
        weights = weights if self.kept is None else weights * self.kept
        size = self.size
        return weights / (size.clamp_min(1) if isinstance(size, Tensor) else size) if mean else weights

    def refuse_classes(self, refused: Bool[Tensor, "classes"], *, what: str) -> None:
        """Raise if an example belongs to a refused class, where its label can be read without waiting."""
        if not readable(self.labels):
            return
        counts = self.labels if self.kept is None else self.labels[self.kept]
        present = counts.sum(dim=0) > 0 if counts.ndim == 2 else torch.bincount(counts, minlength=len(refused)) > 0
        wrong = (present & refused).nonzero()
        if len(wrong):
            raise InputError(f"class_counts has no examples of {what} {int(wrong[0])}, but the batch holds one")


class CrossEntropy(nn.Module):
    """Torch's cross-entropy per example, with its label smoothing and class weights."""

    class_weights: Tensor | None

    def __init__(self, *, label_smoothing: float, ignore_index: int, class_weights: Tensor | None) -> None:
        super().__init__()
        self.label_smoothing = check_number("label_smoothing", label_smoothing, low=0.0, high=1.0)
        self.ignore_index = ignore_index
        self.register_buffer("class_weights", class_weights, persistent=False)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a loss per example, in float32 at least."""
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        weight = None if self.class_weights is None else self.class_weights.to(logits.dtype)
        return functional.cross_entropy(
            logits,
            labels.to(logits.dtype) if labels.is_floating_point() else labels,
            weight=weight,
            ignore_index=self.ignore_index,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )


class Reader:
    """Reads batches for one objective.

    Parameters
    ----------
    num_classes
        The width of the logits, or None where it is not the loss's business.
    num_groups
        The number of groups, or None where the adversary weighs the classes.
    ignore_index
        The label of the examples that do not count.
    class_dim
        The axis of the logits that holds the classes.
    """

    def __init__(self, num_classes: int | None, num_groups: int | None, ignore_index: int, class_dim: int) -> None:
        if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
            raise InputError(f"ignore_index must be a label, an integer; got {ignore_index!r}")
        if isinstance(class_dim, bool) or not isinstance(class_dim, int):
            raise InputError(f"class_dim must be an axis of the logits, an integer; got {class_dim!r}")
        self.num_classes, self.num_groups = num_classes, num_groups
        self.ignore_index, self.class_dim = ignore_index, class_dim
        known = num_classes is not None and not 0 <= ignore_index < num_classes
        self._largest_known = num_classes - 1 if known and num_classes else -1

    def __call__(self, loss: PerExampleLoss, logits: Tensor, labels: Tensor, groups: Tensor | None) -> Batch:
        """Check a batch, find its losses, and put its examples in a row."""
        if self.class_dim != 1:
            if not -logits.ndim <= self.class_dim < logits.ndim:
                raise InputError(f"class_dim={self.class_dim} is no axis of logits of shape {tuple(logits.shape)}")
            logits = logits.movedim(self.class_dim, 1)
            labels = labels.movedim(self.class_dim, 1) if labels.is_floating_point() else labels
        soft = labels.is_floating_point()
        shape = tuple(labels.shape[:1] + labels.shape[2:]) if soft else tuple(labels.shape)
        if groups is not None and tuple(groups.shape) == shape[:1]:
            groups = groups.view(-1, *[1] * (len(shape) - 1)).expand(shape)  # one for all pixels of an image
        self._check_shapes(logits, labels, groups, soft=soft)
        if not soft and labels.dtype != torch.int64:
            labels = labels.long()
        kept = None if soft else self._kept(labels.flatten())
        index = labels if kept is None else labels.masked_fill(~kept.view(labels.shape), 0)
        losses = loss(logits, labels if isinstance(loss, CrossEntropy) else index)
        if tuple(losses.shape) != shape:
            raise InputError(
                f"the loss must return one number per example, of shape {shape}; got {tuple(losses.shape)}. "
                "Build it with reduction='none'"
            )
        losses = losses.flatten().float() if losses.dtype != torch.float64 else losses.flatten()
        return Batch(losses, self._members(index, groups, kept, soft=soft), kept, shape)

    def _members(self, labels: Tensor, groups: Tensor | None, kept: Tensor | None, *, soft: bool) -> Tensor:
        """What the adversary weighs: the labels, or the groups."""
        if groups is not None and self.num_groups is not None:
            groups = groups.flatten().long()
            groups = groups if kept is None else groups.masked_fill(~kept, 0)
            if readable(groups):
                _check_range(groups, self.num_groups, "groups")
            return groups
        return labels.movedim(1, -1).reshape(-1, labels.shape[1]).float() if soft else labels.flatten()

    def _check_shapes(self, logits: Tensor, labels: Tensor, groups: Tensor | None, *, soft: bool) -> None:
        if labels.numel() == 0:
            raise InputError(f"the batch is empty: labels have shape {tuple(labels.shape)}; skip it")
        if self.num_classes is not None:
            self._check_logits(logits, labels, soft=soft)
        if (groups is None) != (self.num_groups is None):
            raise InputError(
                "groups= and num_groups= belong together: the objective "
                + ("weighs classes; drop groups=" if self.num_groups is None else "weighs groups; pass groups=")
            )
        if groups is not None:
            examples = labels.shape[:1] + labels.shape[2:] if soft else labels.shape
            if groups.shape != examples or groups.is_floating_point() or groups.dtype == torch.bool:
                raise InputError(
                    f"groups must be integers of shape {tuple(examples)}, one per example; "
                    f"got {groups.dtype} of shape {tuple(groups.shape)}"
                )

    def _check_logits(self, logits: Tensor, labels: Tensor, *, soft: bool) -> None:
        if not logits.is_floating_point() or logits.ndim < 2 or logits.shape[1] != self.num_classes:
            raise InputError(
                f"logits must be floating-point with {self.num_classes} classes along axis {self.class_dim}; "
                f"got {logits.dtype} of shape {tuple(logits.shape)}. For classes along another axis pass class_dim="
            )
        if soft and labels.shape != logits.shape:
            raise InputError(
                f"labels of dtype {labels.dtype} are soft labels, which need the logits' shape {tuple(logits.shape)}; "
                f"got {tuple(labels.shape)}. Give class indices as integers: labels.long()"
            )
        if soft and readable(labels) and bool((labels < 0).any()):
            raise InputError(f"soft labels must be shares from 0 up; got {float(labels.min()):g}")
        expected = logits.shape[:1] + logits.shape[2:]
        if not soft and (labels.shape != expected or labels.dtype == torch.bool or labels.is_complex()):
            raise InputError(
                f"labels must be integers of shape {tuple(expected)}, one per example; "
                f"got {labels.dtype} of shape {tuple(labels.shape)}. For classes along another axis pass class_dim="
            )

    def _kept(self, labels: Tensor) -> Tensor | None:
        """Tell the labels that count from the ignored; None if all are known to count."""
        if not readable(labels):
            return labels != self.ignore_index
        if self._largest_known >= 0 and bool(labels.numpy().view(np.uint64).max() <= self._largest_known):
            return None  # in one pass: a negative label is a huge one here
        kept = labels != self.ignore_index
        if not bool(kept.any()):
            raise InputError(f"every label of the batch is {self.ignore_index}, which is ignored; skip the batch")
        if self.num_classes is not None:
            _check_range(labels[kept], self.num_classes, "labels")
        return None if bool(kept.all()) else kept


def check_tensors(logits: Any, labels: Any, groups: Any, device: torch.device) -> None:
    """Raise unless all are tensors and the logits lie on the objective's device."""
    if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)):
        kinds = f"{type(logits).__name__} and {type(labels).__name__}"
        raise InputError(f"logits and labels must be tensors; got {kinds}. Convert with torch.as_tensor")
    if not isinstance(groups, Tensor | None):
        raise InputError(f"groups must be a tensor; got {type(groups).__name__}. Convert with torch.as_tensor")
    if logits.device != device:
        raise InputError(
            f"the objective is on {device}, the logits on {logits.device}; "
            "move it as you move the model: objective.to(device)"
        )


def _check_range(labels: Tensor, number: int, what: str) -> None:
    low, high = (int(bound) for bound in labels.aminmax())
    if low < 0 or high >= number:
        raise InputError(f"{what} must lie from 0 to {number - 1}; got {low if low < 0 else high}")
