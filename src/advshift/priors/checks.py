"""What estimators refuse: each message says what was expected, what came and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.types import Array, ArrayLike

__all__ = ["as_features", "as_labels", "as_probabilities", "check_columns", "list_some"]

_TOLERANCE = 1e-3  # how far from one a row's sum may be: what rounding to three or four digits does


def _as_matrix(values: ArrayLike, name: str) -> Any:
    matrix = as_numpy(values)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be a matrix of numbers with one row per example and one column per class; "
            f"got shape {matrix.shape} of dtype {matrix.dtype}"
        )
    matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
    finite = np.isfinite(matrix.sum(axis=1))
    if not finite.all():
        raise InputError(
            f"{name} must be finite; {np.sum(~finite)} of {len(matrix)} rows hold nan or infinity, "
            f"the first is row {int(np.argmin(finite))}. Drop or repair them"
        )
    return matrix


def as_features(values: ArrayLike, name: str) -> Float[Array, "examples features"]:
    """Check a matrix of real features; it is not copied where it is floating already."""
    return _as_matrix(values, name)


def as_probabilities(values: ArrayLike, name: str, *, renormalise: bool = False) -> Float[Array, "examples classes"]:
    """Check a matrix of probabilities; it is not copied unless it has to be renormalised or converted."""
    matrix = _as_matrix(values, name)
    if matrix.shape[1] < 2:
        raise InputError(f"{name} must have one column per class, two at least; got {matrix.shape[1]}")
    lowest = float(matrix.min())
    if lowest < 0:
        raise InputError(
            f"{name} must be probabilities; the smallest entry is {lowest:g}. Give logits through a softmax first"
        )
    sums = matrix.sum(axis=1, dtype=np.float64)
    away = np.abs(sums - 1.0)
    if renormalise and sums.min() > 0:
        return matrix if away.max() < 1e-12 else (matrix / sums[:, None]).astype(matrix.dtype, copy=False)
    if away.max() > _TOLERANCE:
        raise InputError(
            f"each row of {name} must sum to 1; {np.sum(away > _TOLERANCE)} of {len(matrix)} rows do not, and row "
            f"{int(np.argmax(away))} sums to {sums[np.argmax(away)]:.6g}. Set renormalise to divide by the sums"
        )
    return matrix


def as_labels(labels: ArrayLike, examples: int, classes: int | None) -> Int[Array, " examples"]:
    """Check labels: one integer from 0 below `classes` per row, and every class at least once."""
    found = as_numpy(labels)
    if found.ndim != 1 or len(found) != examples:
        raise InputError(
            f"labels must be one class number per row of the source; got shape {found.shape} for {examples} rows"
        )
    if found.dtype.kind not in "iub":
        raise InputError(f"labels must be integers, the number of a column each; got dtype {found.dtype}")
    found = found.astype(np.int64, copy=False)
    count = int(found.max()) + 1 if classes is None else classes
    if found.min() < 0 or found.max() >= count:
        raise InputError(f"labels must lie from 0 to {count - 1}, the columns; got {found.min()} to {found.max()}")
    absent = np.flatnonzero(np.bincount(found, minlength=count) == 0)
    if len(absent):
        raise InputError(
            f"the source must hold an example of every class; {list_some(absent)} {_have(absent)} none. "
            "Leave the column out, or add labelled examples"
        )
    return found


def check_columns(matrix: Array, columns: int) -> None:
    """Raise unless the target has the source's columns, and more than one row."""
    if matrix.shape[1] != columns:
        raise InputError(
            f"the target must have the source's {columns} columns, in the same order; got {matrix.shape[1]}"
        )
    if len(matrix) < 2:
        raise InputError(f"a label distribution needs more than one target row to be estimated; got {len(matrix)}")


def list_some(classes: Any) -> str:
    """Name classes by number, at most five of them.

    >>> list_some([3])
    'class 3'
    """
    names = ", ".join(str(int(name)) for name in classes[:5])
    more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
    return f"{'class' if len(classes) == 1 else 'classes'} {names}{more}"


def _have(classes: Any) -> str:
    return "has" if len(classes) == 1 else "have"
