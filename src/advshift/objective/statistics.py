"""The vector that a batch adds to `pending`: class losses, class counts, and the number of examples.

The counts leave out what is not finite; their sum is short of the number of examples by what was left out. The vector
adds up over micro-batches and over processes, so that both cost one addition or one collective.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, distributed

from advshift.adversaries import ClassLosses
from advshift.errors import InputError
from advshift.numerics.classwise import add_class_sums
from advshift.objective.reading import Batch

__all__ = ["as_class_losses", "collect", "combined", "shard_share", "world_size"]


@torch.no_grad()
def collect(batch: Batch, into: Float[Tensor, "numbers"], *, clip: float, raises: bool) -> None:
    """Add a batch's clipped class losses, its class counts, and the number of its examples."""
    losses = batch.losses.detach().float()
    counted = losses - losses == 0
    if batch.kept is not None:
        counted &= batch.kept
    if raises and bool(counted.sum() < batch.size):
        raise InputError(
            f"{int(batch.size - counted.sum())} losses are not finite; look at the logits, or pass non_finite='skip' "
            "to count such losses and go on"
        )
    clipped = losses.clamp_max(clip).masked_fill_(~counted, 0.0)
    add_class_sums(into[:-1].view(2, -1), clipped, counted.float(), batch.labels)
    into[-1:].add_(batch.size)


def as_class_losses(statistics: Float[Tensor, "numbers"]) -> ClassLosses:
    """View the vector as what an adversary's step reads."""
    sums, counts = statistics[:-1].view(2, -1)
    return ClassLosses(sums, counts, counts.sum())


def world_size(group: Any) -> int:
    """The number of processes that share a batch."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)


def combined(statistics: Tensor, group: Any) -> Tensor:
    """Add up over the processes; the same bits on each of them."""
    if world_size(group) == 1:
        return statistics
    total = statistics.clone()
    distributed.all_reduce(total, group=group)
    return total


def shard_share(size: Tensor | int, total: Tensor | None, group: Any, like: Tensor) -> Tensor:
    """`b_rank·world/b_total`, which makes the average of the ranks' gradients that of the whole batch."""
    own = torch.as_tensor(size, dtype=torch.float32, device=like.device)
    total = combined(own, group) if total is None else total
    return own * world_size(group) / total.clamp_min(1.0)
