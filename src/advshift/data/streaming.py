"""Images that are read from the disk as they are needed, by worker processes, or once into memory.

What a batch holds, and what is drawn for it, is in its plan: the number of workers, and the step at which reading
begins, change nothing but the speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from advshift.data.augmentation import crop_and_flip
from advshift.data.images import CorruptImageError, View, decode, decode_window, image_size
from advshift.data.options import Augmentation, DataOptions
from advshift.data.pictures import Pictures
from advshift.data.randomness import generator
from advshift.data.types import MemorySplit, Plan, Split
from advshift.data.workers import mapped
from advshift.errors import InputError

__all__ = ["StreamSplit", "image_parts"]

Listing = tuple[Int[Tensor, " examples"], Int[Tensor, " examples"]]  # places in the pictures, and classes
NAMED = 5  # images that a notice names


@dataclass(frozen=True)
class StreamSplit:
    """A part whose images stay on the disk; an image's id is its place in the pictures."""

    pictures: Pictures
    view: View
    labels: Int[Tensor, " examples"]
    ids: Int[Tensor, " examples"]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Int[Tensor, " some"]) -> StreamSplit:
        """See `Split`."""
        return StreamSplit(self.pictures, self.view, self.labels[rows], self.ids[rows])

    def to(self, device: torch.device) -> StreamSplit:
        """See `Split`."""
        return self

    def describe(self) -> Iterator[bytes]:
        """See `Split`; the images are known by their names and sizes."""
        yield self.labels.numpy().tobytes()
        yield self.pictures.describe(self.ids.numpy())

    def read(
        self, plans: Iterable[Plan], augment: Augmentation | None, device: torch.device, workers: int
    ) -> Iterator[tuple[Plan, UInt8[Tensor, "batch height width channels"]]]:
        """See `Split`."""
        for plan, batch in mapped(_Reader(self, augment), plans, workers, pin=device.type == "cuda"):
            yield plan, _checked(batch)


class _Reader:
    """Decodes the images of a plan; a fault comes back as its sentence."""

    def __init__(self, split: StreamSplit, augment: Augmentation | None) -> None:
        self.split, self.augment = split, augment

    def __call__(self, plan: Plan) -> Tensor | str:
        split, augment = self.split, self.augment
        stretched = augment is not None and augment.random_resized_crop and split.view.resize
        draws = _window_draws(plan) if stretched else None
        pixels = torch.empty(len(plan.rows), split.view.height, split.view.width, split.view.channels).byte()
        target = pixels.numpy()
        for place, index in enumerate(split.ids[plan.rows].tolist()):
            try:
                raw = split.pictures.read(index)
                if draws is None or augment is None:
                    target[place] = decode(raw, split.view)
                else:
                    target[place] = decode_window(raw, split.view, draws[place], augment.flip)
            except InputError as error:
                return _fault(split.pictures, index, error)
        return pixels if stretched or augment is None else crop_and_flip(pixels, augment, plan)


def _window_draws(plan: Plan) -> list[list[float]]:
    draws = torch.rand(5, plan.size, generator=generator(plan.seed, "resized-crop"))
    found: list[list[float]] = draws[:, plan.first : plan.first + len(plan.rows)].T.tolist()
    return found


def _fault(pictures: Pictures, index: int, error: InputError) -> str:
    text = f"cannot read the image {pictures.name(index)!r}: {error}"
    if isinstance(error, CorruptImageError):
        text += "; mend it or take it away, or set data.corrupt = 'skip' to leave such images out"
    return text


def _checked(batch: Tensor | str) -> Tensor:
    if isinstance(batch, str):
        raise InputError(batch)
    return batch


def image_parts(
    pictures: Pictures, listings: dict[str, Listing], options: DataOptions
) -> tuple[dict[str, Split], list[str]]:
    """Make the parts of a set of images, in memory or on the disk, and say what was left out."""
    view = _view(pictures, options)
    size = len(pictures) * view.height * view.width * view.channels
    fits = size <= options.memory_gigabytes * 2**30
    if options.storage == "memory" or (options.storage == "auto" and fits):
        return _in_memory(pictures, listings, view, options)
    corrupt = dict(_all_corrupt(pictures, view, options.workers)) if options.corrupt == "skip" else {}
    parts: dict[str, Split] = {}
    for name, (ids, labels) in listings.items():
        good = _good(ids, corrupt)
        parts[name] = StreamSplit(pictures, view, labels[good], ids[good])
    return parts, _left_out(pictures, corrupt)


def _view(pictures: Pictures, options: DataOptions) -> View:
    side = options.image_size
    if side is not None:
        return View(side, side, True, options.centre_crop, options.fit, options.grey)
    for index in range(len(pictures)):
        try:
            height, width = image_size(pictures.read(index))
        except CorruptImageError:
            continue  # whether that is fatal is seen when it is read
        return View(height, width, False, grey=options.grey)
    raise InputError(f"none of the {len(pictures)} images under {pictures.root!r} can be read")


def _in_memory(
    pictures: Pictures, listings: dict[str, Listing], view: View, options: DataOptions
) -> tuple[dict[str, Split], list[str]]:
    parts: dict[str, Split] = {}
    corrupt: dict[int, str] = {}
    for name, (ids, labels) in listings.items():
        pixels = torch.empty(len(ids), view.height, view.width, view.channels, dtype=torch.uint8)
        for place, image in enumerate(_decoded(pictures, ids.tolist(), view, options.workers)):
            if isinstance(image, CorruptImageError) and options.corrupt == "skip":
                corrupt[int(ids[place])] = str(image)
            elif isinstance(image, InputError):
                raise InputError(_fault(pictures, int(ids[place]), image))
            else:
                pixels[place] = torch.from_numpy(image)
        good = _good(ids, corrupt)
        parts[name] = MemorySplit(pixels if len(good) == len(ids) else pixels[good], labels[good], ids[good])
    return parts, _left_out(pictures, corrupt)


def _good(ids: Int[Tensor, " examples"], corrupt: dict[int, str]) -> Int[Tensor, " good"]:
    bad = torch.tensor(list(corrupt), dtype=torch.long)
    return (~torch.isin(ids, bad)).nonzero().squeeze(1)


def _decoded(
    pictures: Pictures, ids: Sequence[int], view: View, workers: int
) -> Iterator[UInt8[np.ndarray, "height width channels"] | InputError]:
    """Decode images in order; threads suffice, because Pillow decodes without Python's lock."""

    def one(index: int) -> UInt8[np.ndarray, "height width channels"] | InputError:
        try:
            return decode(pictures.read(index), view).copy()
        except InputError as error:
            return error

    with ThreadPoolExecutor(max(1, workers)) as pool:
        for first in range(0, len(ids), 1000):  # at most so many wait to be taken
            yield from pool.map(one, ids[first : first + 1000])


def _all_corrupt(pictures: Pictures, view: View, workers: int) -> Iterator[tuple[int, str]]:
    """Decode every image once: what must be left out must be known before the first epoch's order is drawn."""
    for index, image in enumerate(_decoded(pictures, range(len(pictures)), view, workers)):
        if isinstance(image, CorruptImageError):
            yield index, str(image)
        elif isinstance(image, InputError):
            raise InputError(_fault(pictures, index, image))


def _left_out(pictures: Pictures, corrupt: dict[int, str]) -> list[str]:
    if not corrupt:
        return []
    named = [f"{pictures.name(index)!r} ({reason})" for index, reason in list(corrupt.items())[:NAMED]]
    more = f", and {len(corrupt) - NAMED} more" if len(corrupt) > NAMED else ""
    return [f"left out {len(corrupt)} of {len(pictures)} images that cannot be read: {', '.join(named)}{more}"]
