"""Sums of per-example values by class: the one statistic that everything else in the package is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from advshift.errors import InputError
from advshift.numerics.backend import is_torch, namespace
from advshift.types import Array

__all__ = ["ClassSums", "add_class_sums", "class_means", "class_sums"]


class ClassSums(NamedTuple):
    """Per class, the sum of the examples' values and the number of examples.

    Sums of disjoint groups of examples add up, field by field, to the sums of all of them.
    """

    sums: Float[Array, "classes"]
    counts: Float[Array, "classes"]


def class_sums(
    values: Float[Array, "examples"], labels: Shaped[Array, "examples *classes"], num_classes: int
) -> ClassSums:
    """Add up values by class: `S_y = Σ_j q_jy·v_j` and `N_y = Σ_j q_jy`, where `q_j` is the label of example `j`.

    Parameters
    ----------
    values
        One number per example.
    labels
        Class indices, or one distribution over the classes per example (soft labels).
    num_classes
        How many classes there are.

    >>> found = class_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), 3)
    >>> found.sums.tolist(), found.counts.tolist()
    ([1.0, 0.0, 6.0], [1.0, 0.0, 2.0])
    """
    if labels.ndim == 2 and labels.shape[1] != num_classes:
        raise InputError(
            f"soft labels must have one column per class; got {labels.shape[1]} columns for {num_classes} classes"
        )
    if is_torch(values):
        table = values.new_zeros(2, num_classes)
        add_class_sums(table, values, values.new_ones(values.shape), labels)
        return ClassSums(table[0], table[1])
    if labels.ndim == 2:
        return ClassSums(values @ labels, labels.sum(axis=0).astype(values.dtype, copy=False))
    sums = np.bincount(labels, weights=values, minlength=num_classes)
    counts = np.bincount(labels, minlength=num_classes)
    return ClassSums(sums.astype(values.dtype, copy=False), counts.astype(values.dtype))


def add_class_sums(
    table: Float[Array, "2 classes"],
    values: Float[Array, "examples"],
    counted: Float[Array, "examples"],
    labels: Shaped[Array, "examples *classes"],
) -> None:
    """Add values and their counts (0 for an example that is left out) by class, in place."""
    if isinstance(table, np.ndarray) and labels.ndim == 1:
        np.add.at(table[0], labels, values)
        np.add.at(table[1], labels, counted)
        return
    rows = namespace(values).stack((values, counted))
    if labels.ndim == 1:
        table.index_add_(1, labels, rows)
    else:
        table += (rows[:, :, None] * labels).sum(1)


def class_means(sums: Float[Array, "classes"], counts: Float[Array, "classes"]) -> Float[Array, "classes"]:
    """Mean value per class, 0 for a class without examples.

    >>> class_means(np.array([1.0, 0.0, 6.0]), np.array([1.0, 0.0, 2.0])).tolist()
    [1.0, 0.0, 3.0]
    """
    return sums / (counts + (counts == 0))
