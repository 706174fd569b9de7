"""Deferred re-weighting: train plainly at first, and with class weights at the end."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from advshift.errors import InputError, as_number
from advshift.losses.base import Loss, check_counts
from advshift.losses.class_balanced import effective_number_weights
from advshift.losses.cross_entropy import CrossEntropy
from advshift.losses.ldam import LDAM
from advshift.numerics.autograd import moves_state, step_happened
from advshift.numerics.backend import as_numpy
from advshift.types import ArrayLike

__all__ = ["LDAMDRW", "DeferredWeights"]

UPDATES = ("forward", "manual")


class DeferredWeights(Loss):
    """Any loss, with class weights that are all one until `start_after` (Cao et al., NeurIPS 2019).

    The number of steps so far is a buffer: it is saved, restored and moved with the module.

    Parameters
    ----------
    class_counts
        The training examples per class.
    loss
        The loss whose classes are weighted; cross-entropy without one.
    beta
        The weights are by the effective number of examples, for this β.
    class_weights
        Other weights, instead of those.
    start_after
        The number of steps without weights, or with `total_steps` the share of training.
    total_steps
        The length of training in optimiser steps.
    update
        `"forward"` counts a step for every forward pass in train mode. With gradient accumulation, closures or
        activation checkpointing use `"manual"` and call `step()`, or `attach(optimizer)`, which does both.

    >>> import torch
    >>> loss = DeferredWeights([90, 10], beta=1.0, start_after=1)
    >>> logits, labels = torch.zeros(2, 2), torch.tensor([0, 1])
    >>> loss(logits, labels)
    tensor([0.6931, 0.6931])
    >>> loss(logits, labels)
    tensor([0.1386, 1.2477])
    """

    name = "deferred"
    class_weights: Tensor
    steps: Int[Tensor, ""]

    def __init__(
        self,
        class_counts: ArrayLike,
        *,
        loss: nn.Module | None = None,
        beta: float = 0.9999,
        class_weights: ArrayLike | None = None,
        start_after: int | float = 0.8,
        total_steps: int | None = None,
        update: str = "forward",
    ) -> None:
        inner = CrossEntropy() if loss is None else loss
        if not isinstance(inner, Loss):
            raise InputError(f"deferred weights need one of the losses of advshift.losses; got {type(inner).__name__}")
        if update not in UPDATES:
            raise InputError(f"update must be 'forward' or 'manual'; got {update!r}")
        super().__init__(label_smoothing=inner.label_smoothing, ignore_index=inner.ignore_index)
        self.loss, self.update = inner, update
        self.start = _first_step(start_after, total_steps)
        self.register_buffer("class_weights", _weights(class_counts, class_weights, beta))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(
        self,
        logits: Shaped[Tensor, "*shape"],
        labels: Shaped[Tensor, "*any"],
        class_weights: Float[Tensor, " classes"] | None = None,
    ) -> Float[Tensor, "*examples"]:
        """Find the loss of each example, weighted or not, and count the step."""
        counts = self.update == "forward" and moves_state(
            training=self.training, what=type(self).__name__, instead="give update='manual' and call step()"
        )
        weights = torch.where(self.steps >= self.start, self.class_weights, 1.0)
        losses: Tensor = self.loss(logits, labels, weights if class_weights is None else weights * class_weights)
        if counts:
            self.steps.add_(1)
        return losses

    def step(self) -> None:
        """Count one optimiser step; only under `update="manual"`."""
        if self.update != "manual":
            raise InputError("step() would count twice: forward counts already. Give update='manual'")
        self.steps.add_(1)

    def attach(self, optimizer: torch.optim.Optimizer) -> torch.utils.hooks.RemovableHandle:
        """Count the steps that an optimiser takes, and not the forward passes."""
        if not hasattr(optimizer, "register_step_post_hook"):
            raise InputError(f"attach needs a torch optimizer; got {type(optimizer).__name__}")
        self.update = "manual"
        return optimizer.register_step_post_hook(lambda own, *_: self._count(step_happened(own)))

    def _count(self, stepped: Tensor | None) -> None:
        self.steps.add_(1 if stepped is None else stepped.to(self.steps))

    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """See `Loss`."""
        return self.loss.log_probabilities(logits)

    def penalty(self, log_probabilities: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """See `Loss`."""
        return self.loss.penalty(log_probabilities)

    def extra_repr(self) -> str:
        """The options, for `print`."""
        return f"start={self.start}, update={self.update!r}"


class LDAMDRW(DeferredWeights):
    """LDAM with deferred re-weighting: margins all along, class weights from 80 % of training on.

    Parameters
    ----------
    class_counts
        The training examples per class.
    largest_margin, scale, label_smoothing, ignore_index
        As in `LDAM`.
    beta, start_after, total_steps, update
        As in `DeferredWeights`.

    >>> LDAMDRW([90, 10], total_steps=1000).start
    800
    """

    name = "ldam-drw"

    def __init__(
        self,
        class_counts: ArrayLike,
        *,
        largest_margin: float = 0.5,
        scale: float = 30.0,
        label_smoothing: float = 0.0,
        ignore_index: int = -100,
        beta: float = 0.9999,
        start_after: int | float = 0.8,
        total_steps: int | None = None,
        update: str = "forward",
    ) -> None:
        inner = LDAM(
            class_counts,
            largest_margin=largest_margin,
            scale=scale,
            label_smoothing=label_smoothing,
            ignore_index=ignore_index,
        )
        super().__init__(
            class_counts, loss=inner, beta=beta, start_after=start_after, total_steps=total_steps, update=update
        )


def _first_step(start_after: int | float, total_steps: int | None) -> int:
    """The number of steps without weights."""
    if isinstance(start_after, int) and not isinstance(start_after, bool) and start_after >= 0:
        return start_after
    if isinstance(start_after, bool) or not 0.0 <= as_number(start_after) <= 1.0:
        raise InputError(
            f"start_after must be a number of steps, or a share of training from 0 to 1; got {start_after!r}"
        )
    if total_steps is None or not as_number(total_steps) > 0:
        raise InputError(f"start_after={start_after!r} is a share of training: give total_steps, a positive number")
    return round(start_after * total_steps)


def _weights(class_counts: ArrayLike, class_weights: ArrayLike | None, beta: float) -> Tensor:
    if class_weights is None:
        return effective_number_weights(class_counts, beta)
    weights = torch.as_tensor(as_numpy(class_weights)).to(torch.get_default_dtype())
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise InputError(f"class_weights must be finite numbers from 0 up; got {class_weights!r}")
    if weights.shape != check_counts(class_counts, "deferred re-weighting").shape:
        raise InputError(f"class_weights must hold one number per class; got shape {tuple(weights.shape)}")
    return weights
