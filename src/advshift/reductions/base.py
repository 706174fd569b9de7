"""What every reduction shares: which examples count, and groups in their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from advshift.errors import InputError

__all__ = ["Batch", "Reduction", "group_means"]


class Batch(NamedTuple):
    """Losses, their shares of the batch, and whether there are any: without one the losses are 0 and share alike."""

    losses: Float[Tensor, " n"]
    reference: Float[Tensor, " n"]
    present: Bool[Tensor, ""]


class Reduction(nn.Module, ABC):
    """A robust mean of losses per example: `losses -> scalar`.

    Parameters
    ----------
    num_groups
        The number of groups. With it the reduction is over the groups' mean losses, each with its share of the batch,
        and `forward` takes the group of each example: a class, a site, a hospital, a demographic group.
    """

    name: ClassVar[str]

    def __init__(self, *, num_groups: int | None = None) -> None:
        super().__init__()
        if num_groups is not None and (not isinstance(num_groups, int) or num_groups < 1):
            raise InputError(f"num_groups must be a whole number from 1 up; got {num_groups!r}")
        self.num_groups = num_groups

    def forward(
        self,
        losses: Shaped[Tensor, "*shape"],
        groups: Shaped[Tensor, "*others"] | None = None,
        *,
        weights: Shaped[Tensor, "*more"] | None = None,
    ) -> Float[Tensor, ""]:
        """Reduce the losses of a batch.

        Parameters
        ----------
        losses
            A loss per example, of any shape. Half precision is raised to float32.
        groups
            The group of each example, if the reduction was made for groups; or its share of each, of shape `(N, G)`.
        weights
            How much each example counts, from 0 up; alike without. `labels != ignore_index` leaves out what a loss
            ignores. Where nothing counts the result is 0, without gradient.
        """
        for name, array in (("losses", losses), ("groups", groups), ("weights", weights)):
            if not isinstance(array, Tensor) and (array is not None or name == "losses"):
                raise InputError(f"{name} must be a tensor; got {type(array).__name__}. Convert with torch.as_tensor")
        batch = _batch(losses, weights)
        if (groups is None) != (self.num_groups is None):
            raise InputError("give groups in forward and num_groups to the reduction, or neither")
        if groups is not None and self.num_groups is not None:
            soft = groups.is_floating_point()
            expected = (losses.numel(), self.num_groups) if soft else tuple(losses.shape)
            if tuple(groups.shape) != expected:
                kind = "shares of groups (floats)" if soft else "groups"
                raise InputError(f"{kind} must have the shape {expected}; got {tuple(groups.shape)}")
            batch = group_means(batch, groups if soft else groups.flatten(), self.num_groups)
        return self.reduce(batch)

    @abstractmethod
    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """The robust mean; it takes no branch on a value."""


def group_means(batch: Batch, groups: Shaped[Tensor, "n *groups"], num_groups: int) -> Batch:
    """The mean loss of each group and the group's share; a group that is absent has loss 0 and share 0."""
    shares, sums = _group_sums(batch, groups, num_groups)
    return Batch(sums / torch.where(shares > 0, shares, 1.0), shares, batch.present)


def _group_sums(batch: Batch, groups: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
    if groups.is_floating_point():
        soft = groups.to(batch.losses)
        return batch.reference @ soft, (batch.reference * batch.losses) @ soft
    if groups.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = (groups < 0) | (groups >= num_groups)
        if bool(wrong.any()):
            raise InputError(f"groups must lie from 0 to {num_groups - 1}; got {int(groups[wrong][0])}")
    groups = groups.long()
    empty = torch.zeros(num_groups, dtype=batch.losses.dtype, device=batch.losses.device)
    shares = empty.scatter_add(0, groups, batch.reference)
    return shares, empty.scatter_add(0, groups, batch.reference * batch.losses)


def _batch(losses: Tensor, weights: Tensor | None) -> Batch:
    if not losses.is_floating_point() or losses.numel() == 0:
        kind = f"shape {tuple(losses.shape)} and dtype {losses.dtype}"
        raise InputError(f"losses must be floating-point, one per example, and at least one; got {kind}")
    losses = losses.flatten()
    losses = losses.float() if losses.dtype in (torch.float16, torch.bfloat16) else losses
    even = torch.full_like(losses, 1.0 / losses.numel(), requires_grad=False)
    if weights is None:
        return Batch(losses, even, torch.ones((), dtype=torch.bool, device=losses.device))
    return _weighted(losses, weights, even)


def _weighted(losses: Tensor, weights: Tensor, even: Tensor) -> Batch:
    if weights.numel() != losses.numel():
        raise InputError(f"weights must hold one number per loss: {losses.numel()}; got {weights.numel()}")
    weights = weights.detach().flatten().to(losses)
    if weights.device.type == "cpu" and not torch.compiler.is_compiling() and not bool((weights >= 0).all()):
        raise InputError(f"weights must be numbers from 0 up; got {float(weights.min()):g}")
    mass = weights.sum()
    present = mass > 0
    reference = torch.where(present, weights / torch.where(present, mass, 1.0), even)
    return Batch(torch.where(weights > 0, losses, 0.0), reference, present)
