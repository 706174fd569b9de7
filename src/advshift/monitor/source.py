"""What is known before the stream: how the model behaves on each class, from a labelled source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from advshift.errors import InputError
from advshift.registry import nearest
from advshift.types import Array

__all__ = ["Batch", "SourceModel", "make_source", "training_mix"]

LARGEST = 1 << 22  # numbers of the part of the source that is gone through again at every report


class Batch(NamedTuple):
    """Some predictions of the stream in their order: predicted classes by number, and the probabilities if any."""

    predicted: Int[Array, " examples"]
    rows: Float[Array, "examples classes"] | None

    def part(self, begin: int, end: int) -> Batch:
        """Some of the examples."""
        return Batch(self.predicted[begin:end], None if self.rows is None else self.rows[begin:end])


@dataclass(frozen=True, eq=False)
class SourceModel:
    """A labelled source.

    Attributes
    ----------
    classes
        Their names.
    predicted, labels
        The numbers of the predicted and the true class of each example.
    rows
        The probabilities; None where only predicted classes are used.
    training
        The label distribution that the model was trained for.
    """

    classes: tuple[Any, ...]
    predicted: Int[Array, " examples"]
    labels: Int[Array, " examples"]
    rows: Float[Array, "examples classes"] | None
    training: Float[Array, " classes"]

    @property
    def hard(self) -> bool:
        """Whether predicted classes are all that is used."""
        return self.rows is None

    @cached_property
    def counts(self) -> Float[Array, " classes"]:
        """The examples of each class."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.float64)

    @property
    def prior(self) -> Float[Array, " classes"]:
        """The share of each class."""
        return self.counts / self.counts.sum()

    @cached_property
    def wrong(self) -> Bool[Array, " examples"]:
        """Whether each prediction is wrong."""
        return self.predicted != self.labels

    @cached_property
    def means(self) -> Float[Array, "classes classes"]:
        """The mean prediction (probabilities, or which class is predicted) given each class, one class a column."""
        size = len(self.classes)
        if self.rows is None:
            joint = np.bincount(self.predicted * size + self.labels, minlength=size * size)
            return joint.reshape(size, size) / self.counts
        sums = np.zeros((size, size))
        np.add.at(sums, self.labels, self.rows)
        return (sums / self.counts[:, None]).T

    @cached_property
    def sample(self) -> Int[Array, " some"]:
        """Examples that stand for all where going through all would take long; the same share of every class."""
        step = -(-len(self.labels) * len(self.classes) // LARGEST)
        order = np.argsort(self.labels, kind="stable")
        first = np.unique(self.labels[order], return_index=True)[1]
        return np.sort(np.union1d(order[::step], order[first]))

    def hardened(self) -> SourceModel:
        """The same source seen through its predicted classes."""
        return replace(self, rows=None)


def make_source(
    classes: Sequence[Any],
    probabilities: Float[Array, "examples classes"],
    labels: Int[Array, " examples"],
    *,
    hard: bool = False,
    training: Float[Array, " classes"] | None = None,
) -> SourceModel:
    """Check a source and describe it.

    Parameters
    ----------
    classes
        The name of each column.
    probabilities
        A row per example; with `hard`, a one in the column of the predicted class.
    labels
        The column of each example's true class.
    hard
        Whether to use the predicted classes alone.
    training
        The label distribution of training; by default that of the source.
    """
    counts = np.bincount(labels, minlength=len(classes))
    if (counts == 0).any():
        absent = [str(classes[k]) for k in np.flatnonzero(counts == 0).tolist()]
        raise InputError(
            f"the source has no labelled example of {_listed(absent)}, so what the model does there is unknown; add "
            "some, or leave the column out"
        )
    if training is None:
        training = counts / counts.sum()
    if (training <= 0).any():
        absent = [str(classes[k]) for k in np.flatnonzero(training <= 0).tolist()]
        raise InputError(f"the training mix has no {_listed(absent)}, which the source has; give it a share above 0")
    rows = np.asarray(probabilities, dtype=np.float64)
    return SourceModel(tuple(classes), rows.argmax(axis=1), labels, None if hard else rows, training)


def training_mix(classes: Sequence[Any], names: Sequence[Any], shares: Float[Array, " named"]) -> Any:
    """Lay a label distribution from a file out over the source's classes."""
    place = {str(name): share for name, share in zip(names, shares, strict=True)}
    known = [str(name) for name in classes]
    more = next((name for name in place if name not in known), None)
    if more is not None:
        raise InputError(f"the training mix names the class {more!r}, which the source has not{nearest(more, known)}")
    return np.array([place.get(name, 0.0) for name in known])


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"class {shown}" if len(names) == 1 else f"the classes {shown}{more}"
