"""The objective: a loss that people know, with class weights that follow an adversary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from advshift.adversaries import Adversary
from advshift.adversaries.base import Weighting, check_choice
from advshift.errors import InputError
from advshift.numerics.backend import calmly, namespace, restrict
from advshift.objective.building import build_adversary, build_loss, build_reduction, count_members, first_step
from advshift.objective.committing import Committer, Update
from advshift.objective.reading import Batch, PerExampleLoss, Reader, check_tensors
from advshift.objective.recipes import takes_recipes
from advshift.objective.statistics import as_class_losses, collect, combined, shard_share, world_size
from advshift.objective.tracking import Held
from advshift.reductions import Reduction
from advshift.types import Array, ArrayLike

__all__ = ["AdvShift", "RobustObjective"]

NonFinite = Literal["skip", "raise"]


class RobustObjective(Committer):
    """The loss `(1/b) Σ_j π(y_j)/p(y_j)·ℓ_j`, unbiased for the risk `Σ_y π(y)·ℓ̄_y` under the adversary's `π`.

    In train mode with gradients enabled, a call adds the batch's class losses to `pending`. A *commit* hands them to
    the adversary and clears them. By default the call itself commits; after `attach(optimizer)` every optimiser step
    does; with `update="manual"` it is `step()`. In eval mode and under `no_grad` nothing moves.

    Parameters
    ----------
    adversary
        A name of the registry, whose options follow as keywords (`radius=0.1`), or an adversary; or the name of a
        training recipe, whose `[objective]` table then gives the defaults. `"fixed"` takes its target as
        `distribution=`, or as `audit=` (an audit's JSON) and `radius=`.
    num_classes
        The width of the logits. May be left out with `class_counts` or, for other losses, with `num_groups`.
    class_counts
        Training examples per class (per group, with groups), or their shares: the reference is known. Without them it
        is averaged over the batches. A class with a count of 0 gets no mass, and its label is refused.
    num_groups
        The adversary weighs groups other than the classes; pass `groups=` at each call.
    loss
        Any function `(logits, labels) -> losses per example`, or the name of one of ours; cross-entropy by default.
    update
        `"forward"` or `"manual"`.
    reduction
        `"mean"`, `"sum"`, `"none"`, a robust reduction or its name, or any function from the weighted losses of the
        examples that count to a scalar. A reduction by groups takes the objective's groups, or its classes.
    ignore_index, label_smoothing, class_weights
        As for torch's cross-entropy, but the mean divides by the number of examples, not by the sum of their weights.
    class_dim
        The axis of the logits that holds the classes: 1, or -1 for tokens of shape `(batch, length, classes)`.
    weighting
        `"importance"` is the unbiased weight `π/p`. `"class-means"` weighs the batch's class means by `π`, as group
        DRO was published. By default what the adversary's authors did.
    reference_momentum
        How long a batch is remembered in an estimated reference; the paper's 0.999.
    start_after, total_steps
        Train on the reference for so many steps, or for a fraction of `total_steps`, before the adversary acts.
    non_finite
        Losses that are not finite never reach the adversary: `"skip"` counts them in `skipped`, `"raise"` raises,
        which waits for the device.
    even_shards
        A promise that all processes hold equally many examples in every batch; saves a collective where an attached
        or manual objective would ask.
    process_group
        The processes that share the batch; all by default.

    >>> objective = RobustObjective("advshift", num_classes=3, radius=0.1, class_counts=[50, 30, 20])
    >>> logits = torch.zeros(4, 3, requires_grad=True)
    >>> loss = objective(logits, torch.tensor([0, 0, 1, 2]))
    >>> loss.backward()
    """

    @takes_recipes
    def __init__(
        self,
        adversary: str | Adversary = "advshift",
        *,
        num_classes: int | None = None,
        class_counts: ArrayLike | None = None,
        num_groups: int | None = None,
        loss: str | PerExampleLoss | None = None,
        update: Update = "forward",
        reduction: str | Callable[[Tensor], Tensor] = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        class_weights: ArrayLike | None = None,
        class_dim: int = 1,
        weighting: Weighting | None = None,
        reference_momentum: float | None = None,
        start_after: int | float = 0,
        total_steps: int | None = None,
        non_finite: NonFinite = "skip",
        even_shards: bool = False,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            build_adversary(adversary, options, class_counts),
            count_members(num_classes, num_groups, class_counts),
            class_counts=class_counts,
            reference_momentum=reference_momentum,
            start=first_step(start_after, total_steps),
            process_group=process_group,
            update=update,
        )
        self.weighting: Weighting = self.adversary.weighting if weighting is None else weighting
        check_choice("weighting", self.weighting, Weighting)
        check_choice("non_finite", non_finite, NonFinite)
        if num_groups is None:
            num_classes = self.members
        self.reduction, self.non_finite, self.even_shards = (
            build_reduction(reduction, self.members),
            non_finite,
            even_shards,
        )
        self.loss = build_loss(
            loss,
            label_smoothing,
            ignore_index,
            class_weights,
            class_counts if num_groups is None else None,  # of groups they are not the loss's
            num_classes,
            total_steps,
        )
        self._reader = Reader(num_classes, num_groups, ignore_index, class_dim)
        self._of_the_batch = self.adversary.immediate or self.weighting == "class-means"

    def extra_repr(self) -> str:
        """The parts, for `print`."""
        return f"adversary={self.adversary!r}, members={self.members}, update={self.update!r}"

    def forward(
        self,
        logits: Shaped[Tensor, "*shape"],
        labels: Shaped[Tensor, "*any"],
        *,
        groups: Shaped[Tensor, "*examples"] | None = None,
    ) -> Tensor:
        """Return the weighted loss; in training, let the batch count for the adversary.

        Parameters
        ----------
        logits
            Shape `(N, C)`, or `(N, C, ...)` for dense prediction; see `class_dim`.
        labels
            Class indices of shape `(N, ...)`, or soft labels of the logits' shape.
        groups
            With `num_groups`: a group index per example; for dense prediction one per image will do.
        """
        batch = self._read(logits, labels, groups)
        if self.training and _in_backward():
            class_weights, share = self._replayed()
        else:
            class_weights, share = self._look(batch, moving=self.training and torch.is_grad_enabled())
        return self._reduce(batch, class_weights, share)

    def _read(self, logits: Tensor, labels: Tensor, groups: Tensor | None) -> Batch:
        check_tensors(logits, labels, groups, self.reference.device)
        batch = self._reader(self.loss, logits, labels, groups)
        if self.has_empty_class:
            batch.refuse_classes(self.reference == 0, what="class" if groups is None else "group")
        return batch

    def _look(self, batch: Batch, *, moving: bool) -> tuple[Array, Tensor | None]:
        """Find the class weights and this shard's share; collect, and commit if that is the call's duty."""
        held = self._held()
        class_weights, total = calmly(held.reference, self._weigh, held, batch, moving)
        if not moving:
            return class_weights, None
        share = None
        if self.reduction == "mean" and not self.even_shards and world_size(self.process_group) > 1:
            share = shard_share(batch.size, total, self.process_group, batch.losses)
        if self._committer != "forward" and not torch.compiler.is_compiling():
            self._remember(class_weights, share)
        return class_weights, share

    def _weigh(self, held: Held, batch: Batch, moving: bool) -> tuple[Array, Array | None]:
        seen = namespace(held.pending).zeros_like(held.pending) if self._of_the_batch else held.pending
        if moving or self._of_the_batch:
            self._collect(batch, seen)
        if moving and self._of_the_batch:
            held.pending[...] += seen
            seen = combined(seen, self.process_group)
        class_weights = self._class_weights(held, seen)
        total = self._move(held) if moving and self._committer == "forward" else None
        return class_weights, None if batch.labels.ndim == 2 else total  # soft labels may sum to another number

    def _collect(self, batch: Batch, into: Array) -> None:
        collect(batch, into, clip=self.adversary.clip, raises=self.non_finite == "raise")

    def _class_weights(self, held: Held, statistics: Array) -> Array:
        """The factor of each class's examples, before the division by the number of examples."""
        if not self._of_the_batch:
            return self._importance(self._distribution(held), held.reference)
        losses = as_class_losses(statistics)
        if self.adversary.immediate:
            held = held._replace(state=self.adversary.step(held.state, losses, held.reference)[0])
        distribution = self._distribution(held)
        if self.weighting == "importance":
            return self._importance(distribution, held.reference)
        return restrict(distribution * losses.total / losses.counts, losses.counts > 0, 0.0)

    def _reduce(self, batch: Batch, class_weights: Array, share: Tensor | None) -> Tensor:
        weights = batch.look_up(class_weights, mean=self.reduction == "mean")
        losses = batch.losses
        if self.reduction == "none":
            return (weights * losses).view(batch.shape)
        if callable(self.reduction):
            weighted = weights * losses
            if isinstance(self.reduction, Reduction):
                groups = None if self.reduction.num_groups is None else batch.labels
                reduced: Tensor = self.reduction(weighted, groups, weights=batch.kept)
                return reduced
            return self.reduction(weighted if batch.kept is None else weighted[batch.kept])
        return torch.dot(weights if share is None else weights * share, losses)

    @torch.no_grad()
    def refresh(self, logits: Tensor, labels: Tensor, *, groups: Tensor | None = None) -> None:
        """Replace what is pending by the losses of these logits: the paper's second forward pass, before `step()`."""
        if self._committer != "manual":
            raise InputError("refresh comes between optimizer.step() and objective.step(): build with update='manual'")
        if not self.training:
            raise InputError("in eval mode nothing moves; call train() before refresh()")
        batch = self._read(logits, labels, groups)
        held = self._held()
        held.pending[...] = 0.0
        calmly(held.reference, self._collect, batch, held.pending)

    def _replayed(self) -> tuple[Array, Tensor | None]:
        """The weights of the call that autograd runs again; refuse where that call has moved them."""
        if self._committer == "forward":
            raise InputError(
                "the loss was run again by activation checkpointing, after its own update had moved the weights: "
                "attach(optimizer) first, or keep the loss outside the checkpoint"
            )
        if self._last is None:
            raise InputError(
                "a reentrant checkpoint runs the loss without gradients first, so that the adversary would learn "
                "nothing: pass use_reentrant=False"
            )
        if not self._last.alone and (self._of_the_batch or self._last.share is not None):
            raise InputError(
                "several calls inside activation checkpointing wait for their backward pass, and each has weights of "
                "its own: call backward() after each of them, or keep the loss outside the checkpoint"
            )
        self._replaying = True
        return self._last.class_weights, self._last.share


class AdvShift(RobustObjective):
    """`RobustObjective` with the paper's adversary.

    >>> AdvShift(num_classes=10, radius=0.1).adversary.radius
    0.1
    """

    def __init__(self, num_classes: int | None = None, radius: float = 0.1, **options: Any) -> None:
        super().__init__("advshift", num_classes=num_classes, radius=radius, **options)


def _in_backward() -> bool:
    """Whether autograd is running this code again for the sake of a checkpoint."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
