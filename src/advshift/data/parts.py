"""What parts of a set are called, and labels of all kinds as numbers of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["PARTS", "encode", "find_files", "part_named", "part_rows"]

PARTS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}


def part_named(word: str) -> str | None:
    """Which part a word means.

    >>> part_named("Val"), part_named("extra")
    ('validation', None)
    """
    return next((part for part, names in PARTS.items() if word.lower() in names), None)


def part_rows(words: Sequence[object], name: str) -> dict[str, np.ndarray]:
    """The rows of each part by a column that names it."""
    found: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        part = part_named(str(word))
        if part is None:
            raise InputError(f"row {row + 1} of {name!r} is of the part {word!r}; call it train, validation or test")
        found.setdefault(part, []).append(row)
    if "train" not in found:
        raise InputError(f"no row of {name!r} is of the part 'train'")
    return {part: np.array(found[part]) for part in PARTS if part in found}


def find_files(path: Path, suffixes: Sequence[str], kind: str) -> dict[str, Path]:
    """The files of the parts: one file, the only one of a folder, or those that are called train, test and so on."""
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        raise InputError(f"there is no file or folder {str(path)!r}; set data.path to {kind}")
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in suffixes and file.is_file())
    parts: dict[str, Path] = {}
    for file in files:
        part = part_named(file.stem)
        if part in parts:
            raise InputError(f"both {parts[part].name!r} and {file.name!r} of {str(path)!r} are its {part} part")
        if part is not None:
            parts[part] = file
    if "train" in parts:
        return {part: parts[part] for part in PARTS if part in parts}
    if len(files) == 1:
        return {"train": files[0]}
    raise InputError(
        f"the folder {str(path)!r} holds {len(files)} files of the kind {', '.join(suffixes)}; "
        "name one in data.path, or call them train, validation and test"
    )


def encode(
    labels: Mapping[str, Any], name: str, class_names: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Number the classes that the training part has: in the order of numbers, else of names.

    Parameters
    ----------
    labels
        Of each part: whole numbers or words.
    name
        What the set is called in errors.
    class_names
        What the classes 0, 1, … are called; the labels are then these numbers.

    >>> encode({"train": np.array([7, 3, 7])}, "set")
    ({'train': tensor([1, 0, 1])}, ('3', '7'))
    """
    found = {part: _plain(values, part, name) for part, values in labels.items()}
    kinds = {values.dtype.kind for values in found.values()}
    if len(kinds) > 1:
        raise InputError(f"the labels of {name!r} are numbers in one part and words in another")
    if class_names is not None:
        if "i" not in kinds:
            raise InputError(f"{name!r} names its classes, so its labels must be their numbers from 0 up")
        return {part: torch.from_numpy(values) for part, values in found.items()}, tuple(class_names)
    classes = np.unique(found["train"])
    for part, values in found.items():
        unknown = np.setdiff1d(values, classes)
        if len(unknown):
            word = str(unknown[0])
            raise InputError(
                f"the {part} part of {name!r} has a label {word!r} that the training part has not"
                f"{nearest(word, map(str, classes))}"
            )
    codes = {part: torch.from_numpy(np.searchsorted(classes, values)) for part, values in found.items()}
    return codes, tuple(str(value) for value in classes.tolist())


def _plain(values: Any, part: str, name: str) -> np.ndarray:
    """Labels as whole numbers or as text."""
    array = np.ma.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(
            f"the labels of the {part} part of {name!r} must be one per example; got the shape {array.shape}"
        )
    missing = np.ma.getmaskarray(array) | np.array(
        [value is None or value != value for value in array.data.tolist()], bool
    )
    if missing.any():
        row = int(missing.argmax()) + 1
        raise InputError(f"the {part} part of {name!r} has no label in row {row}; add it, or leave the row out")
    plain = np.asarray(array)
    if plain.dtype.kind in "biu":
        return plain.astype(np.int64)
    if plain.dtype.kind == "f":
        if (plain != np.round(plain)).any():
            value = plain[plain != np.round(plain)][0]
            raise InputError(f"the labels of {name!r} must be classes; got the number {value:g}")
        return plain.astype(np.int64)
    return np.array([value.decode() if isinstance(value, bytes) else str(value) for value in plain.tolist()])
