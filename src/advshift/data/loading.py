"""From a recipe's words to disjoint splits: read, cut, thin, measure the mean, take the fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from advshift.data.cifar import read_cifar10, read_cifar100
from advshift.data.digits import read_digits
from advshift.data.image_folder import read_image_folder
from advshift.data.npz import read_npz
from advshift.data.options import DataOptions
from advshift.data.shards import read_shards
from advshift.data.splitting import class_profile, counts_for_prior, cut, thin
from advshift.data.table import read_table
from advshift.data.text import read_text
from advshift.data.types import DataSet, MemorySplit, Plan, Source, Split
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["SOURCES", "Reader", "data_folder", "load_data"]

VARIABLE = "ADVSHIFT_DATA"
MEASURED = 50_000  # examples at most from which mean and deviation are taken, about
DECODED = 5_000  # the same where each must be read from the disk

PICTURES = ("image_size", "centre_crop", "fit", "grey", "corrupt")


class Reader(NamedTuple):
    """How a set is read, and which options it has beside those of every set."""

    read: Callable[[DataOptions, Path], Source]
    options: tuple[str, ...] = ()


SOURCES: Mapping[str, Reader] = {
    "cifar10": Reader(read_cifar10, ("download",)),
    "cifar100": Reader(read_cifar100, ("download",)),
    "digits": Reader(read_digits),
    "image-folder": Reader(read_image_folder, (*PICTURES, "val_part")),
    "npz": Reader(read_npz),
    "shards": Reader(read_shards, (*PICTURES, "label")),
    "table": Reader(read_table, ("label", "features")),
    "text": Reader(read_text, ("label", "features", "max_features")),
}


def data_folder(options: DataOptions) -> Path:
    """Where the data lie: the recipe's path, else the environment's `ADVSHIFT_DATA`, else `data`."""
    return Path(options.path or os.environ.get(VARIABLE) or "data").expanduser()


def load_data(options: DataOptions) -> DataSet:
    """Read a set and split it; every part is disjoint from the others.

    >>> data = load_data(DataOptions(name="digits", test=0.5, validation=0.1))
    >>> len(data.train), len(data.validation), len(data.test), data.shape
    (809, 90, 898, (1, 8, 8))
    """
    source = _reader(options).read(options, data_folder(options))
    parts = _split(source, options)
    notices = [*source.notices, *_absent(parts, source.class_names)]
    if source.finish is not None:
        parts = source.finish(parts)
    probe = next(parts["train"].read([Plan(torch.arange(1), 0, 0, 1)], None, torch.device("cpu"), 0))[1]
    shape = (probe.shape[3], *probe.shape[1:3]) if probe.ndim == 4 else tuple(probe.shape[1:])
    mean, std = _normalisation(parts["train"], shape[0], source, options)
    return DataSet(
        train=parts["train"],
        validation=parts.get("validation"),
        test=parts.get("test"),
        held_out=parts.get("held_out"),
        class_names=source.class_names,
        shape=shape,
        mean=mean,
        std=std,
        fingerprint=_fingerprint(parts, source.class_names),
        notices=notices,
    )


def _reader(options: DataOptions) -> Reader:
    """Find the reader, and refuse options that it would not look at."""
    if options.name not in SOURCES:
        known = ", ".join(SOURCES)
        raise InputError(f"unknown data set {options.name!r}{nearest(options.name, SOURCES)} (known: {known})")
    reader = SOURCES[options.name]
    for name in sorted({name for other in SOURCES.values() for name in other.options} - set(reader.options)):
        if getattr(options, name) != DataOptions.model_fields[name].default:
            owners = ", ".join(owner for owner, other in SOURCES.items() if name in other.options)
            raise InputError(
                f"data.{name} does nothing for the set {options.name!r}; leave it out (sets that have it: {owners})"
            )
    return reader


def _split(source: Source, options: DataOptions) -> dict[str, Split]:
    """Cut off what the set does not have of its own, thin what is left, and hold out a share of that."""
    parts, names = dict(source.parts), source.class_names
    _check(parts, names)
    if options.test and "test" in parts:
        raise InputError(f"the set {options.name!r} has a test part of its own; leave data.test out")
    for name in ("test", "validation"):
        if name not in parts:
            _cut_off(parts, name, getattr(options, name), options.split_seed)
    parts["train"] = _thinned(parts["train"], options, len(names))
    _cut_off(parts, "held_out", options.held_out, options.split_seed)
    return parts


def _check(parts: Mapping[str, Split], class_names: tuple[str, ...]) -> None:
    """Every label is a class, and every class has a training example."""
    classes = len(class_names)
    if classes < 2:
        raise InputError(
            f"the set has one class only, {class_names[0]!r}; expected two or more: is data.path the folder above the "
            "one that holds the classes?"
        )
    for name, part in parts.items():
        labels = part.labels
        if not len(labels):
            raise InputError(f"the {name} part holds no example; add some, or take it away")
        if not 0 <= int(labels.min()) <= int(labels.max()) < classes:
            raise InputError(f"the {name} part holds labels that are none of the {classes} classes")
    counts = torch.bincount(parts["train"].labels, minlength=classes)
    empty = [class_names[index] for index in (counts == 0).nonzero().flatten().tolist()]
    if empty:
        raise InputError(
            f"class {empty[0]!r} has no training example{_and_more(empty)}; take it out of the classes, or add some"
        )


def _absent(parts: Mapping[str, Split], class_names: tuple[str, ...]) -> Iterator[str]:
    """Say which classes a part cannot judge, such as those with a single image, which stays in the training part."""
    for name, part in parts.items():
        counts = torch.bincount(part.labels, minlength=len(class_names))
        empty = [class_names[index] for index in (counts == 0).nonzero().flatten().tolist()]
        if empty:
            yield f"the {name} part has no example of class {empty[0]!r}{_and_more(empty)}: nothing is said of it there"


def _and_more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def _cut_off(parts: dict[str, Split], name: str, share: float, seed: int) -> None:
    if share <= 0:
        return
    stay, off = cut(parts["train"].labels, share, seed, name)
    if not len(off):
        raise InputError(f"data.{name} = {share:g} of {len(parts['train'])} training examples is not one; raise it")
    parts[name], parts["train"] = parts["train"].select(off), parts["train"].select(stay)


def _thinned(train: Split, options: DataOptions, classes: int) -> Split:
    available = torch.bincount(train.labels, minlength=classes).tolist()
    if options.prior is not None:
        counts = counts_for_prior(options.prior, available)
    elif options.imbalance != "none":
        counts = class_profile(options.imbalance, available, options.imbalance_ratio)
    else:
        return train
    return train.select(thin(train.labels, counts, options.split_seed))


def _normalisation(train: Split, channels: int, source: Source, options: DataOptions) -> tuple[Tensor, Tensor]:
    """What the recipe says, else what the source wants, else what the training part tells."""
    given = [options.mean or source.mean, options.std or source.std]
    for name, values in zip(("mean", "std"), given, strict=True):
        if values is not None and len(values) not in (1, channels):
            raise InputError(f"data.{name} must have one number for each of the {channels} channels; got {len(values)}")
    measured = (None, None) if None not in given else _moments(train, options.workers)
    mean, std = (
        found if values is None else torch.tensor(values) for found, values in zip(measured, given, strict=True)
    )
    assert mean is not None  # one of the two is there
    assert std is not None
    return mean.expand(channels).contiguous(), std.expand(channels).contiguous()


def _moments(train: Split, workers: int) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel or feature of the training part; a constant one is left as it is."""
    rows = torch.arange(len(train))
    rows = rows[:: max(1, len(rows) // (MEASURED if isinstance(train, MemorySplit) else DECODED))]
    plans = [Plan(part, 0, 0, len(part)) for part in torch.split(rows, 1000)]
    sums = None
    for _, raw in train.read(plans, None, torch.device("cpu"), workers):
        values = raw.reshape(-1, raw.shape[-1]).double() / (255.0 if raw.dtype == torch.uint8 else 1.0)
        found = torch.stack((torch.full_like(values[0], len(values)), values.sum(0), values.square().sum(0)))
        sums = found if sums is None else sums + found
    assert sums is not None  # a class has at least one example
    mean = sums[1] / sums[0]
    std = (sums[2] / sums[0] - mean.square()).clamp_min(0.0).sqrt()
    std = torch.where(std > 1e-6, std, 1.0)
    return mean.float(), std.float()


def _fingerprint(parts: Mapping[str, Split], class_names: tuple[str, ...]) -> str:
    """Hash what is trained and judged on."""
    digest = hashlib.sha256("\0".join(class_names).encode())
    for name in sorted(parts):
        digest.update(name.encode())
        for piece in parts[name].describe():
            digest.update(piece)
    return digest.hexdigest()[:32]
