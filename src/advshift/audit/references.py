"""The label distribution around which the mix moves: from the data, uniform, from a file, or as given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.audit.labels import Label, as_label, sorted_labels
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.types import Array

__all__ = ["Around", "Reference", "reference_of", "reference_of_counts"]


@dataclass(frozen=True)
class Reference:
    """A label distribution.

    Attributes
    ----------
    source
        `empirical`, `uniform`, `given`, or the file that it was read from.
    size
        How many labels it was estimated from; None where that is not known or it is exact.
    """

    source: str
    classes: tuple[Label, ...]
    distribution: Float[Array, "classes"]
    size: int | None = None


@dataclass(frozen=True)
class Around:
    """An estimated label distribution, and how far from it the true one may be.

    Attributes
    ----------
    reference
        The centre of the ball that holds the truth.
    radii
        The radius of that ball, by the name of the set.
    confidence
        The probability with which it does.
    rows
        How many unlabelled examples the estimate is made from.
    doubts
        Codes and sentences on whether the estimate can be trusted.
    """

    reference: Reference
    radii: Mapping[str, float]
    confidence: float
    rows: int
    doubts: tuple[tuple[str, str], ...] = ()


def reference_of_counts(counts: Mapping[Label, float | int], source: str, size: int | None = None) -> Reference:
    """Divide counts (or shares, of any sum) by their total.

    >>> reference_of_counts({"b": 3, "a": 1}, "given").distribution.tolist()
    [0.25, 0.75]
    """
    classes = sorted_labels(counts)
    values = np.array([counts[label] for label in classes], dtype=np.float64)
    wrong = np.flatnonzero(~(values >= 0) | ~np.isfinite(values))
    if wrong.size:
        label = classes[int(wrong[0])]
        raise InputError(
            f"a share or count must be a finite number from 0 up; that of class {label!r} is {counts[label]}"
        )
    if not 0 < values.sum() < np.inf:
        raise InputError(f"the reference ({source}) gives no class any mass; expected counts or shares")
    return Reference(source, classes, values / values.sum(), size)


def reference_of(given: Any, classes: Sequence[Label], counts: Float[Array, "classes"] | Any) -> Reference:
    """Find the reference that Python code asks for.

    Parameters
    ----------
    given
        None or `"empirical"` (the shares in the data), `"uniform"`, a `Reference`, a mapping from classes to shares or
        counts, an array in the order of the classes, or a pandas Series with classes as its index.
    classes, counts
        What the data hold.
    """
    if isinstance(given, Reference):
        return given
    if given is None or (isinstance(given, str) and given == "empirical"):
        found = dict(zip(classes, counts.tolist(), strict=True))
        return reference_of_counts(found, "empirical", int(counts.sum()))
    if isinstance(given, str):
        if given != "uniform":
            raise InputError(f"a reference must be 'empirical', 'uniform' or a distribution; got {given!r}")
        return reference_of_counts(dict.fromkeys(classes, 1.0), "uniform")
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, Mapping):
        return reference_of_counts({as_label(label): float(share) for label, share in given.items()}, "given")
    shares = as_numpy(given)
    if shares.shape != (len(classes),):
        raise InputError(
            f"the reference must have one share for each of the {len(classes)} classes in order; got shape "
            f"{shares.shape}. A mapping from classes to shares may name others too"
        )
    return reference_of_counts(dict(zip(classes, shares.astype(np.float64).tolist(), strict=True)), "given")
