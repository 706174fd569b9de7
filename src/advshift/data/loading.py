"""From a recipe's words to disjoint splits: read, cut, thin, measure the mean, take the fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from advshift.data.cifar import read_cifar10, read_cifar100
from advshift.data.digits import read_digits
from advshift.data.options import DataOptions
from advshift.data.splitting import class_profile, counts_for_prior, cut, thin
from advshift.data.types import DataSet, MemorySplit, Plan, Source, Split
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["SOURCES", "data_folder", "load_data"]

VARIABLE = "ADVSHIFT_DATA"
MEASURED = 50_000  # examples at most from which mean and deviation are taken

SOURCES: Mapping[str, Callable[[DataOptions, Path], Source]] = {
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    "digits": read_digits,
}


def data_folder(options: DataOptions) -> Path:
    """Where the data lie: the recipe's path, else the environment's `ADVSHIFT_DATA`, else `data`."""
    return Path(options.path or os.environ.get(VARIABLE) or "data").expanduser()


def load_data(options: DataOptions) -> DataSet:
    """Read a set and split it; every part is disjoint from the others.

    >>> data = load_data(DataOptions(name="digits", test=0.5, validation=0.1))
    >>> len(data.train), len(data.validation), len(data.test), data.shape
    (808, 90, 899, (1, 8, 8))
    """
    if options.name not in SOURCES:
        known = ", ".join(SOURCES)
        raise InputError(f"unknown data set {options.name!r}{nearest(options.name, SOURCES)} (known: {known})")
    source = SOURCES[options.name](options, data_folder(options))
    classes = len(source.class_names)
    parts = dict(source.parts)
    _check(parts["train"], classes)
    if options.test and "test" in parts:
        raise InputError(f"the set {options.name!r} has a test part of its own; leave data.test out")
    for name in ("test", "validation"):
        if name not in parts:
            _cut_off(parts, name, getattr(options, name), options.split_seed)
    parts["train"] = _thinned(parts["train"], options, classes)
    _cut_off(parts, "held_out", options.held_out, options.split_seed)
    mean, std = _moments(parts["train"], options)
    probe = next(parts["train"].read([Plan(torch.arange(1), 0, 0, 1)], None, torch.device("cpu"), 0))[1]
    shape = (probe.shape[3], *probe.shape[1:3]) if probe.ndim == 4 else tuple(probe.shape[1:])
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
        notices=source.notices,
    )


def _check(train: Split, classes: int) -> None:
    counts = torch.bincount(train.labels, minlength=classes)
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        raise InputError(f"class {empty[0]} has no training example; take it out of the classes, or add some")


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


def _moments(train: Split, options: DataOptions) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel or feature of the training part; a constant one is left as it is."""
    given = (options.mean, options.std)
    if None not in given:
        return torch.tensor(options.mean), torch.tensor(options.std)
    rows = torch.arange(len(train))
    rows = rows[:: max(1, len(rows) // MEASURED)]
    plans = [Plan(part, 0, 0, len(part)) for part in rows.split(1000)]
    sums = None
    for _, raw in train.read(plans, None, torch.device("cpu"), options.workers):
        values = raw.reshape(-1, raw.shape[-1]).double() / (255.0 if raw.dtype == torch.uint8 else 1.0)
        found = torch.stack((torch.full_like(values[0], len(values)), values.sum(0), values.square().sum(0)))
        sums = found if sums is None else sums + found
    assert sums is not None  # a class has at least one example
    mean = sums[1] / sums[0]
    std = (sums[2] / sums[0] - mean.square()).clamp_min(0.0).sqrt()
    std = torch.where(std > 1e-6, std, 1.0)
    own = (mean.float(), std.float())
    return tuple(a if b is None else torch.tensor(b) for a, b in zip(own, given, strict=True))  # type: ignore[return-value]


def _fingerprint(parts: Mapping[str, Split], class_names: tuple[str, ...]) -> str:
    """Hash what is trained and judged on: the bytes of what is in memory, else the names and sizes of the files."""
    digest = hashlib.sha256("\0".join(class_names).encode())
    for name in sorted(parts):
        split = parts[name]
        digest.update(name.encode())
        digest.update(split.labels.numpy().tobytes())
        if isinstance(split, MemorySplit):
            digest.update(memoryview(split.inputs.contiguous().numpy()).cast("B"))
        else:
            digest.update(split.ids.numpy().tobytes())
    return digest.hexdigest()[:32]
