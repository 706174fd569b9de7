"""Which estimator and which calibration, and whether the confusion matrix lets it answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.audit.labels import Label
from advshift.audit.readers.outputs import Outputs, named_classes
from advshift.errors import InputError
from advshift.priors import CALIBRATIONS, ESTIMATORS, PriorEstimator
from advshift.priors.base import Source, class_means
from advshift.types import Array

__all__ = ["Confusion", "chosen_calibration", "chosen_method", "confusion_of", "make_estimator"]

CALIBRATED = ("em", "mapls")  # the methods that believe the probabilities
INVERTING = ("bbse", "gls")  # the methods that have no answer where the confusion matrix is singular
HARD = ("bbse", "rlls")  # the methods that predicted classes alone suffice for
ROWS_A_CLASS = 10  # labelled examples per class from which a calibration has something to learn from
MOST_CLASSES = 200  # up to which a calibration takes seconds
RELATIVE = 1e-10  # singular values below this part of the largest one count as zero


def chosen_method(wanted: str | None, *, hard: bool) -> str:
    """The name of the estimator: as wanted, if the outputs suffice for it."""
    if wanted is None:
        return "bbse" if hard else "auto"
    _ = ESTIMATORS[wanted]
    if hard and wanted not in HARD:
        raise InputError(
            f"the method {wanted!r} needs probabilities; predicted classes alone suffice for {' and '.join(HARD)}"
        )
    return wanted


def chosen_calibration(wanted: str, method: str, *, rows: int, classes: int, hard: bool) -> str | None:
    """The name of the calibration, or None."""
    if wanted not in ("auto", "none"):
        _ = CALIBRATIONS[wanted]
        if hard:
            raise InputError(f"predicted classes alone cannot be calibrated; leave --calibration {wanted} out")
        return wanted
    if wanted == "auto" and method == "auto":
        return "shrunk"  # it finds out by itself how much there is to learn
    suits = method in CALIBRATED and not hard and rows >= ROWS_A_CLASS * classes and classes <= MOST_CLASSES
    return "bcts" if wanted == "auto" and suits else None


def make_estimator(method: str, calibration: str | None, hard: bool, bootstrap: int, seed: int) -> PriorEstimator:
    """The estimator of a name, for these outputs."""
    options: dict[str, Any] = {"calibration": calibration, "seed": seed}
    if bootstrap:
        options |= {"covariance": "bootstrap", "replicates": bootstrap}
    if hard:
        options["predictions"] = "hard"
    return ESTIMATORS[method](**options)


class Confusion(NamedTuple):
    """What the model does with each class of the source.

    `condition` and `rank` are those of the class means of the outputs, `never` are the classes that are never
    predicted, `recalls` the accuracy on each class.
    """

    condition: float
    rank: int
    never: tuple[Label, ...]
    recalls: Float[Array, " classes"]


def confusion_of(source: Outputs, method: str) -> Confusion:
    """Look at the confusion matrix; refuse one that the method cannot do without.

    Parameters
    ----------
    source
        The labelled outputs.
    method
        The name of the estimator.
    """
    rows, labels = source.probabilities, source.labels
    assert labels is not None
    guesses = rows.argmax(axis=1)
    spectrum = np.linalg.svd(class_means(Source(rows, labels, None, rows.shape[1]), rows), compute_uv=False)
    rank = int(np.sum(spectrum > RELATIVE * spectrum[0]))
    never = tuple(source.classes[k] for k in np.flatnonzero(np.bincount(guesses, minlength=rows.shape[1]) == 0))
    if rank < len(source.classes) and method in INVERTING:
        raise InputError(_unidentified(source, rank, never))
    right = np.bincount(labels[guesses == labels], minlength=len(source.classes))
    condition = float(spectrum[0] / spectrum[-1]) if rank == len(source.classes) else float("inf")
    return Confusion(condition, rank, never, right / source.counts)


def _unidentified(source: Outputs, rank: int, never: tuple[Label, ...]) -> str:
    reason = f"the model never predicts {named_classes(never)} on {source.name}, and " if never else ""
    other = "--method rlls" if source.hard else "--method em or rlls"
    return (
        f"{reason}the confusion matrix is singular (rank {rank} for {len(source.classes)} classes), so that several "
        f"label distributions give the same predictions; give {other}, or merge classes"
    )
