"""The vector that a batch adds to `pending`: class losses, class counts, and the number of examples left out.

Left out is what is not finite. The vector adds up over micro-batches and over processes, so that both cost one addition
or one collective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, distributed

from advshift.adversaries import ClassLosses
from advshift.errors import InputError
from advshift.numerics.backend import at_most, is_torch, namespace, restrict
from advshift.numerics.classwise import add_class_sums
from advshift.objective.reading import Batch
from advshift.types import Array

__all__ = ["as_class_losses", "collect", "combined", "shard_share", "world_size"]

LARGEST = 1e30  # what a loss counts at most, lest a sum of finite losses is infinite


def collect(batch: Batch, into: Float[Array, "numbers"], *, clip: float, raises: bool) -> None:
    """Add a batch's clipped class losses, its class counts, and how many of its examples were left out."""
    losses, labels, kept = _arrays(batch, numpy=isinstance(into, np.ndarray))
    finite = losses - losses == 0
    if labels.ndim == 2:
        mass = labels.sum(1)
        finite = finite & (mass - mass == 0)
        labels = restrict(labels, finite[:, None], 0.0)
    counted = finite if kept is None else finite & kept
    xp = namespace(losses)
    left_out = (losses.shape[0] if kept is None else kept.sum()) - xp.count_nonzero(counted)
    if raises and bool(left_out > 0):
        raise InputError(
            f"{int(left_out)} losses are not finite; look at the logits, or pass non_finite='skip' "
            "to count such losses and go on"
        )
    clipped = restrict(at_most(losses, min(clip, LARGEST)), counted, 0.0)
    ones = xp.astype(counted, losses.dtype)
    add_class_sums(into[:-1].reshape(2, -1), clipped, ones, labels)
    into[-1] += left_out


def _arrays(batch: Batch, *, numpy: bool) -> tuple[Array, Array, Array | None]:
    """A batch's losses, labels and marks, without their gradients."""
    losses, labels, kept = batch.losses.detach().float(), batch.labels.detach(), batch.kept
    return (losses.numpy(), labels.numpy(), kept if kept is None else kept.numpy()) if numpy else (losses, labels, kept)


def as_class_losses(statistics: Float[Array, "numbers"]) -> ClassLosses:
    """View the vector as what an adversary's step reads."""
    sums, counts = statistics[:-1].reshape(2, -1)
    return ClassLosses(sums, counts, counts.sum())


def world_size(group: Any) -> int:
    """The number of processes that share a batch."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)


def combined(statistics: Float[Array, "numbers"], group: Any) -> Float[Array, "numbers"]:
    """Add up over the processes; the same bits on each of them."""
    if world_size(group) == 1:
        return statistics
    total = torch.as_tensor(statistics).clone()
    distributed.all_reduce(total, group=group)
    return total if is_torch(statistics) else total.numpy()


def shard_share(size: Tensor | int, total: Array | None, group: Any, like: Tensor) -> Tensor:
    """`b_rank·world/b_total`, which makes the average of the ranks' gradients that of the whole batch."""
    own = torch.as_tensor(size, dtype=torch.float32, device=like.device)
    total = combined(own, group) if total is None else torch.as_tensor(total)
    return own * world_size(group) / total.clamp_min(1.0)
