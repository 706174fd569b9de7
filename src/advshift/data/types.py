"""What the loop is fed with: batches, splits, data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from advshift.data.options import Augmentation

__all__ = ["Batch", "DataSet", "MemorySplit", "Plan", "Source", "Split"]


class Batch(NamedTuple):
    """Inputs that a model takes, labels (class indices, or soft ones after mixing), and the examples' ids."""

    inputs: Float[Tensor, "batch *shape"]
    labels: Shaped[Tensor, "batch *classes"]
    ids: Int[Tensor, " batch"]


class Plan(NamedTuple):
    """The examples of one batch by their place in the split, and where their draws come from.

    `size` is the batch's over all processes, `first` the place of this process's first example in it: the draws are
    made for the whole batch, so that several processes see what one would.
    """

    rows: Int[Tensor, " batch"]
    seed: int
    first: int
    size: int


@runtime_checkable
class Split(Protocol):
    """One part of a data set."""

    @property
    def labels(self) -> Int[Tensor, " examples"]:
        """The classes, on the CPU."""

    @property
    def ids(self) -> Int[Tensor, " examples"]:
        """What the examples are called in saved predictions: unique over the parts of a set."""

    def __len__(self) -> int: ...

    def select(self, rows: Int[Tensor, " some"]) -> Split:
        """The part that holds only these examples."""

    def to(self, device: torch.device) -> Split:
        """Bring it to a device, if it is of the kind that is kept there."""

    def describe(self) -> Iterator[bytes]:
        """What a fingerprint is made of: the bytes of what is in memory, else what the files are called and measure."""

    def read(
        self, plans: Iterable[Plan], augment: Augmentation | None, device: torch.device, workers: int
    ) -> Iterator[tuple[Plan, Shaped[Tensor, "batch *shape"]]]:
        """The raw inputs of each plan, cropped and flipped where that is asked: bytes of images, or features."""


@dataclass(frozen=True)
class MemorySplit:
    """A part that is kept whole: bytes of images as `(N, H, W, C)`, or features as `(N, F)`."""

    inputs: Shaped[Tensor, "examples *shape"]
    labels: Int[Tensor, " examples"]
    ids: Int[Tensor, " examples"]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Int[Tensor, " some"]) -> MemorySplit:
        """See `Split`."""
        return MemorySplit(self.inputs[rows], self.labels[rows], self.ids[rows])

    def to(self, device: torch.device) -> MemorySplit:
        """See `Split`; labels and ids stay where they are."""
        return MemorySplit(self.inputs.to(device), self.labels, self.ids)

    def describe(self) -> Iterator[bytes]:
        """See `Split`."""
        yield self.labels.numpy().tobytes()
        for some in torch.split(self.inputs.cpu(), 10_000):
            yield some.contiguous().numpy().tobytes()

    def read(
        self, plans: Iterable[Plan], augment: Augmentation | None, device: torch.device, workers: int
    ) -> Iterator[tuple[Plan, Shaped[Tensor, "batch *shape"]]]:
        """See `Split`."""
        from advshift.data.augmentation import crop_and_flip

        for plan in plans:
            inputs = self.inputs[plan.rows.to(self.inputs.device, non_blocking=True)]
            if augment is not None and inputs.ndim == 4:
                inputs = crop_and_flip(inputs, augment, plan)
            yield plan, inputs


@dataclass(frozen=True)
class Source:
    """What a reader found on the disk: the parts that the set itself has, in its own order.

    Attributes
    ----------
    parts
        `"train"`, and `"validation"` and `"test"` where the set has them.
    class_names
        By class index.
    notices
        Sentences that a person should read, such as which images were left out.
    finish
        Called with the parts once they are cut: what must be learned from the training part alone, such as the words
        of a text, is learned there.
    mean, std
        What the source wants to be normalised with, if not with its training part's.
    """

    parts: dict[str, Split]
    class_names: tuple[str, ...]
    notices: tuple[str, ...] = ()
    finish: Callable[[dict[str, Split]], dict[str, Split]] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


@dataclass(frozen=True)
class DataSet:
    """Disjoint splits, ready to train on.

    Attributes
    ----------
    train, validation, test, held_out
        The parts; only the first is always there.
    class_names
        By class index.
    shape
        Of one input, as a model sees it: `(channels, height, width)` or `(features,)`.
    mean, std
        What inputs are normalised with, per channel or feature.
    fingerprint
        Changes when any example does.
    notices
        Sentences that a person should read.
    """

    train: Split
    validation: Split | None
    test: Split | None
    held_out: Split | None
    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    mean: Float[Tensor, " channels"]
    std: Float[Tensor, " channels"]
    fingerprint: str
    notices: Sequence[str] = field(default=())
