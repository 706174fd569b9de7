"""Arrays of inputs and labels in an NPZ file, by their usual names; nothing in it is ever unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from advshift.data.options import DataOptions
from advshift.data.parts import PARTS, encode
from advshift.data.types import MemorySplit, Source
from advshift.errors import InputError

__all__ = ["read_npz"]

INPUTS = ("inputs", "x", "images", "data", "features")
LABELS = ("labels", "y", "label", "targets", "target")
NAMES = ("class_names", "classes", "names")
CHANNELS = ((1, 3), (2, 4))  # the likely numbers first: an axis of 4 may be the width of a small image
WHITE = 255


def read_npz(options: DataOptions, folder: Path) -> Source:
    """Read images `(N, H, W)`, `(N, H, W, C)` or `(N, C, H, W)`, or features `(N, F)`."""
    arrays = _load(folder)
    keys = {key.lower(): key for key in reversed(list(arrays))}
    inputs: dict[str, Tensor] = {}
    labels: dict[str, np.ndarray] = {}
    for part, aliases in PARTS.items():
        key = _find(keys, INPUTS, aliases, part)
        if key is None:
            continue
        label = _find(keys, LABELS, aliases, part)
        if label is None:
            raise InputError(f"{str(folder)!r} has {key!r} without labels; expected such as {_usual(LABELS, aliases)}")
        if len(arrays[key]) != len(arrays[label]):
            raise InputError(
                f"{str(folder)!r} has {len(arrays[key])} examples in {key!r} and {len(arrays[label])} labels in "
                f"{label!r}; expected as many"
            )
        inputs[part], labels[part] = _as_inputs(arrays[key], f"{key!r} of {str(folder)!r}"), arrays[label]
    if "train" not in inputs:
        raise InputError(
            f"{str(folder)!r} holds {', '.join(map(repr, arrays)) or 'nothing'}; expected inputs and labels, or "
            "x_train, y_train, x_test and y_test"
        )
    names = next((tuple(map(str, arrays[keys[name]].tolist())) for name in NAMES if name in keys), None)
    codes, class_names = encode(labels, str(folder), names)
    _check_shapes(inputs, str(folder))
    first, parts = 0, {}
    for part, values in inputs.items():
        parts[part] = MemorySplit(values, codes[part], torch.arange(first, first + len(values)))
        first += len(values)
    return Source(dict(parts), class_names)


def _load(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; set data.path to an NPZ file")
    if not zipfile.is_zipfile(path):
        raise InputError(f"cannot read {str(path)!r}: it is no NPZ file; save the arrays by np.savez")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive}
    except Exception as error:
        # Damaged files make the archive, the decompressor and the header's parser raise what they like.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"cannot read {str(path)!r}: {reason}; expected an NPZ file of plain arrays") from None


def _find(keys: Mapping[str, str], words: tuple[str, ...], aliases: tuple[str, ...], part: str) -> str | None:
    usual = [name for alias in aliases for word in words for name in (f"{word}_{alias}", f"{alias}_{word}")]
    return next((keys[name] for name in [*usual, *(words if part == "train" else ())] if name in keys), None)


def _usual(words: tuple[str, ...], aliases: tuple[str, ...]) -> str:
    return f"{words[1]}_{aliases[0]} or {aliases[0]}_{words[0]}"


def _as_inputs(values: np.ndarray, name: str) -> Tensor:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers; got {values.dtype}")
    if values.ndim == 2:
        features = torch.from_numpy(values.astype(np.float32))
        if not torch.isfinite(features).all():
            raise InputError(f"{name} holds values that are not finite; fill them in, or leave the rows out")
        return features
    if values.ndim not in (3, 4):
        raise InputError(
            f"{name} must be features (N, F) or images (N, H, W), (N, H, W, C) or (N, C, H, W); got {values.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(_as_bytes(_channels_last(values, name), name)))


def _channels_last(values: Shaped[np.ndarray, "examples *shape"], name: str) -> np.ndarray:
    if values.ndim == 3:
        return values[..., None]
    for numbers in CHANNELS:
        if values.shape[3] in numbers:
            return values
        if values.shape[1] in numbers:
            return values.transpose(0, 2, 3, 1)
    raise InputError(f"{name} has the shape {values.shape}: neither the second nor the last axis can be the channels")


def _as_bytes(values: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers up to 255, or shares of white."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * WHITE
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if values.dtype.kind == "f" and 0.0 <= low <= high <= 1.0:
        return (values * WHITE).round().astype(np.uint8)
    if 0.0 <= low <= high <= WHITE and (values == np.round(values)).all():
        return values.astype(np.uint8)
    raise InputError(
        f"{name} holds pixels from {low:g} to {high:g}; expected whole numbers from 0 to 255, or shares from 0 to 1"
    )


def _check_shapes(inputs: Mapping[str, Tensor], name: str) -> None:
    train = inputs["train"].shape[1:]
    for part, values in inputs.items():
        if values.shape[1:] != train:
            raise InputError(f"the {part} part of {name!r} has inputs of another shape than the training part")
