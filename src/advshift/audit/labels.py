"""Class labels: whole numbers or text, whatever library they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from advshift.errors import InputError
from advshift.numerics.backend import as_numpy

__all__ = ["Label", "as_label", "as_labels", "sorted_labels"]

Label: TypeAlias = int | str

EXACT = 2.0**53  # up to here every whole number is a float of its own


def as_labels(values: Any, name: str = "labels") -> Any:
    """Bring labels to a NumPy vector of integers or of text.

    Whole numbers that are stored as floats become integers, since a table with one gap stores them so.

    >>> as_labels([0.0, 2.0])
    array([0, 2])
    >>> as_labels(["cat", "dog"]).tolist()
    ['cat', 'dog']
    """
    array = as_numpy(values)
    if array.ndim != 1:
        raise InputError(f"{name} must be one label per example; got an array of shape {array.shape}")
    if array.dtype.kind == "O":
        return _of_objects(array, name)
    if array.dtype.kind in "iub":
        if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise InputError(f"{name} that are whole numbers must be below 2^63; got {array.max()}")
        return array.astype(np.int64)
    if array.dtype.kind in "UT":
        return array.astype(np.dtype(str) if array.dtype.kind == "T" else array.dtype)
    if array.dtype.kind == "f":
        return _of_floats(array, name)
    raise InputError(f"{name} must be whole numbers or text; got an array of dtype {array.dtype}")


def _of_floats(array: Any, name: str) -> Any:
    wrong = np.flatnonzero(~(np.abs(array) <= EXACT) | (array != np.round(array)))
    if wrong.size:
        raise InputError(
            f"{name} must be whole numbers or text; example {int(wrong[0])} (counted from 0) has {array[wrong[0]]!s}"
        )
    return array.astype(np.int64)


def _of_objects(array: Any, name: str) -> Any:
    kinds = {type(one) for one in array.tolist()}
    if kinds <= {str}:
        return array.astype(str) if array.size else np.zeros(0, dtype=str)
    if all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds):
        return _of_floats(array.astype(np.float64), name)
    if kinds <= {str, int}:
        return np.array([str(one) for one in array.tolist()])
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"{name} must be whole numbers or text, with none missing; got values of type {found}")


def as_label(value: Any) -> Label:
    """Bring one label to a Python integer or text."""
    single: Label = as_labels([value], "a label").tolist()[0]
    return single


def sorted_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Put labels in order, without duplicates; integers and text do not mix."""
    unique = set(labels)
    if len({isinstance(label, str) for label in unique}) > 1:
        number = next(label for label in unique if not isinstance(label, str))
        text = next(label for label in unique if isinstance(label, str))
        raise InputError(
            f"labels must be all whole numbers or all text; got both, such as {number!r} and {text!r}. "
            "Write them in the same way in every file"
        )
    return tuple(sorted(unique, key=lambda label: (isinstance(label, str), label)))
