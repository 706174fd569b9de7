"""Cells of a prediction: the predicted class and how confident the prediction is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from advshift.priors.base import Source
from advshift.types import Array

__all__ = ["Cells", "cell_shares", "make_cells"]

_FEWEST = 5  # source examples below which a cell is merged


class Cells(NamedTuple):
    """A partition of the predictions by predicted class and by bins of the largest probability, cut at `edges`.

    Where the source has too few examples in a cell, the bins of its class are one cell; where it has too few of the
    predicted class, the class belongs to the last cell, which all such classes share.
    """

    edges: Float[Array, " edges"]
    places: Int[Array, " fine"]  # the cell of each pair of class and bin

    @property
    def total(self) -> int:
        """The number of cells."""
        return int(self.places.max()) + 1

    def assign(self, rows: Float[Array, "examples classes"]) -> Any:
        """The cell of each row."""
        return self.places[_fine(rows, self.edges)]

    def shares(self, rows: Float[Array, "examples classes"], weights: Array | None) -> Any:
        """The share of each cell."""
        counts = np.bincount(self.assign(rows), weights=weights, minlength=self.total)
        return counts / counts.sum()

    def of_classes(self) -> Int[Array, "classes bins"]:
        """The cells that belong to each predicted class, some of them repeated."""
        return self.places.reshape(-1, len(self.edges) + 1)


def _fine(rows: Array, edges: Array) -> Any:
    return rows.argmax(axis=1) * (len(edges) + 1) + np.searchsorted(edges, rows.max(axis=1), side="right")


def make_cells(rows: Float[Array, "examples classes"], bins: int) -> Cells:
    """Cells with the same number of these rows in every bin of confidence, as far as ties allow."""
    edges = np.unique(np.quantile(rows.max(axis=1), np.arange(1, bins) / bins))
    bins = len(edges) + 1
    counts = np.bincount(_fine(rows, edges), minlength=rows.shape[1] * bins).reshape(-1, bins)
    whole = counts.min(axis=1) < _FEWEST
    rare = counts.sum(axis=1) < _FEWEST
    names = np.arange(counts.size).reshape(counts.shape)
    names[whole] = names[whole][:, :1]
    names[rare] = counts.size
    return Cells(edges, np.unique(names.ravel(), return_inverse=True)[1])


def cell_shares(cells: Cells, source: Source, smoothing: float) -> Float[Array, "cells classes"]:
    """The shares of the cells in each class; `smoothing` examples are added to each, spread like all examples."""
    flat = cells.assign(source.rows) * source.classes + source.labels
    joint = np.bincount(flat, weights=source.weights, minlength=cells.total * source.classes)
    joint = joint.reshape(cells.total, source.classes).astype(np.float64)
    pooled = joint.sum(axis=1) + 0.5
    return (joint + smoothing * pooled[:, None] / pooled.sum()) / (source.counts + smoothing)
