"""The batches of a run: its splits as its recipe wants them, for this process, on its device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from advshift.data import Augmentation, Batch, DataSet, eval_batches, on_device, steps_per_epoch, train_batches
from advshift.data.randomness import hashed
from advshift.errors import InputError
from advshift.training.devices import Formats
from advshift.training.recipe import Recipe
from advshift.training.workers import Workers

__all__ = ["Feed"]


class Feed:
    """Batches of the splits of a data set.

    Parameters
    ----------
    recipe
        Batch sizes, augmentation and seed.
    data
        The splits; those in memory are brought to the device once.
    workers
        Which part of each batch is this process's.
    formats
        Where the batches go, and how images lie there.
    """

    def __init__(self, recipe: Recipe, data: DataSet, workers: Workers, formats: Formats) -> None:
        self.recipe, self.workers = recipe, workers
        splits = {name: getattr(data, name) for name in ("train", "validation", "test", "held_out")}
        labels = splits["train"].labels
        self.train_counts: Int[np.ndarray, " classes"] = torch.bincount(labels, minlength=len(data.class_names)).numpy()
        self.splits = {name: on_device(split, workers.device) for name, split in splits.items() if split is not None}
        self.batch_size = recipe.training.batch_size
        self.size = len(labels)
        self.steps_per_epoch = steps_per_epoch(splits["train"], self.batch_size)
        self._check_smallest()
        self._common: dict[str, Any] = {
            "rank": workers.rank,
            "world": workers.world,
            "normalise": (data.mean, data.std),
            "device": workers.device,
            "channels_last": formats.memory is torch.channels_last,
            "workers": recipe.data.workers,
        }
        self._augmentation = recipe.augmentation
        self._classes = len(data.class_names)
        self._held_out: tuple[int, Iterator[Batch]] = (-1, iter(()))
        if recipe.objective.adversary_data == "held-out" and "held_out" not in self.splits:
            raise InputError("objective.adversary_data = 'held-out' needs a part that is held out: set data.held_out")

    def _check_smallest(self) -> None:
        """Every process needs an example of every batch; say so before training, not at the end of the first epoch."""
        smallest, world = self.size - (self.steps_per_epoch - 1) * self.batch_size, self.workers.world
        if smallest < world:
            raise InputError(
                f"the last batch of an epoch has {smallest} of the {self.size:,} training examples, fewer than the "
                f"{world} processes; choose another training.batch_size, or fewer processes"
            )

    def has(self, split: str) -> bool:
        """Whether the data have such a split."""
        return split in self.splits

    def epoch(self, epoch: int, start: int) -> Iterator[tuple[Batch, int]]:
        """Yield the process's parts of an epoch's batches from a step on, and the examples of all processes in each."""
        batches = self._shuffled("train", self.recipe.seed, epoch, start, self._augmentation)
        for step, batch in zip(count(start), batches, strict=False):
            yield batch, min(self.batch_size, self.size - step * self.batch_size)

    def split(self, name: str) -> Iterator[Batch]:
        """Go through the process's share of a split, in order; over all processes every example once."""
        return eval_batches(self.splits[name], batch_size=self.recipe.evaluate.batch_size, **self._common)

    def held_out(self, step: int) -> Batch:
        """The batch of the held-out part that belongs to a step; the part is gone through over and over."""
        expected, batches = self._held_out
        batch = next(batches, None) if expected == step else None
        if batch is None:
            length = steps_per_epoch(self.splits["held_out"], self.batch_size)
            epoch, start = divmod(step, length)
            seed = hashed(self.recipe.seed, "held-out")
            batches = self._shuffled("held_out", seed, epoch, start, Augmentation())
            batch = next(batches)
        self._held_out = (step + 1, batches)
        return batch

    def _shuffled(self, split: str, seed: int, epoch: int, start: int, augmentation: Augmentation) -> Iterator[Batch]:
        return train_batches(
            self.splits[split],
            batch_size=self.batch_size,
            seed=seed,
            epoch=epoch,
            start=start,
            augment=augmentation,
            num_classes=self._classes,
            **self._common,
        )
