"""From splits to the batches that a loop takes: the same over any number of processes, and from any position."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.data.augmentation import cutout, mix
from advshift.data.options import Augmentation
from advshift.data.randomness import generator, hashed
from advshift.data.types import Batch, Plan, Split

__all__ = ["eval_batches", "on_device", "steps_per_epoch", "train_batches"]

Normalisation = tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]


def on_device(split: Split, device: torch.device) -> Split:
    """Bring a split to a device, once, if it is of the kind that is kept there."""
    return split.to(device)


def steps_per_epoch(split: Split, batch_size: int) -> int:
    """How many batches go through a split; the last may be smaller."""
    return -(-len(split) // batch_size)


def train_batches(
    split: Split,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    start: int,
    augment: Augmentation,
    num_classes: int,
    rank: int,
    world: int,
    normalise: Normalisation,
    device: torch.device,
    channels_last: bool,
    workers: int,
) -> Iterator[Batch]:
    """Go through a split in an epoch's own order, from a step on.

    Every number that is drawn belongs to the seed, the epoch and the step alone, so that going on in the middle, or on
    another number of processes, gives the same batches; see `mix` for neighbours that two processes hold.
    """
    order = torch.randperm(len(split), generator=generator(seed, "order", epoch))
    steps = islice(enumerate(torch.split(order, batch_size)), start, None)
    plans = (_part(rows, hashed(seed, "batch", epoch, step), rank, world) for step, rows in steps)
    finish = _Finish(split, normalise, device, channels_last)
    mixes = augment.mixup > 0 or augment.cutmix > 0
    for plan, raw in split.read(plans, augment, device, workers):
        batch = finish(plan, raw)
        if augment.cutout and batch.inputs.ndim == 4:
            batch = batch._replace(inputs=cutout(batch.inputs, augment.cutout, plan))
        if mixes and batch.inputs.ndim == 4:
            inputs, labels = mix(batch.inputs, batch.labels, augment, num_classes, plan)
            batch = batch._replace(inputs=inputs, labels=labels)
        yield batch


def eval_batches(
    split: Split,
    *,
    batch_size: int,
    rank: int,
    world: int,
    normalise: Normalisation,
    device: torch.device,
    channels_last: bool,
    workers: int,
) -> Iterator[Batch]:
    """Go through this process's share of a split, in order; over all processes every example comes once."""
    share = torch.arange(len(split)).tensor_split(world)[rank]
    plans = (Plan(rows, 0, 0, len(rows)) for rows in torch.split(share, batch_size) if len(rows))
    finish = _Finish(split, normalise, device, channels_last)
    for plan, raw in split.read(plans, None, device, workers):
        yield finish(plan, raw)


def _part(rows: Tensor, seed: int, rank: int, world: int) -> Plan:
    parts = rows.tensor_split(world)
    return Plan(parts[rank], seed, sum(len(part) for part in parts[:rank]), len(rows))


class _Finish:
    """From raw inputs to what a model takes: on the device, normalised, in its memory format."""

    def __init__(self, split: Split, normalise: Normalisation, device: torch.device, channels_last: bool) -> None:
        mean, std = normalise
        self.split, self.device, self.channels_last = split, device, channels_last
        self.factor, self.offset = (1.0 / std).to(device), (-mean / std).to(device)

    def __call__(self, plan: Plan, raw: Shaped[Tensor, "batch *shape"]) -> Batch:
        raw = raw.to(self.device, non_blocking=True)
        factor = self.factor / 255.0 if raw.dtype == torch.uint8 else self.factor
        inputs = torch.addcmul(self.offset, raw.float(), factor)
        if inputs.ndim == 4:
            inputs = inputs.permute(0, 3, 1, 2)
            if not self.channels_last:
                inputs = inputs.contiguous()
        labels = self.split.labels[plan.rows].to(self.device, non_blocking=True)
        return Batch(inputs, labels, self.split.ids[plan.rows])
