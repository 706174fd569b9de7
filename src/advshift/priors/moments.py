"""Estimators that match moments: the target's mean features are a mixture of the source's class means, `μ = A q`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import (
    Found,
    PriorEstimator,
    Source,
    class_means,
    numerical_rank,
    rank_and_condition,
    second_moment,
)
from advshift.priors.checks import list_some
from advshift.priors.unidentified import open_directions
from advshift.types import Array

__all__ = [
    "Matched",
    "MomentEstimator",
    "PredictionMoments",
    "Predictions",
    "check_identified",
    "hard_noise",
    "soft_noise",
    "weighted_mean",
]

Predictions = Literal["hard", "soft"]


class Matched(NamedTuple):
    """The class means `A`, one class a column, the source's label distribution, and the source itself."""

    means: Float[Array, "columns classes"]
    prior: Float[Array, " classes"]
    source: Source


class MomentEstimator(PriorEstimator):
    """An estimator whose answer is a function of `A` and of the target's mean; a subclass solves for it."""

    def _learn(self, source: Source) -> Any:
        return Matched(self._class_means(source), source.prior, source)

    def _solve(self, learned: Any, target: Array, weights: Array | None, start: Found | None) -> Found:
        return self._match(learned, self._mean(learned, target, weights), start)

    def _asymptotic(self, learned: Any, target: Array, found: Found) -> Float[Array, "classes classes"]:
        """`M V M'`: `V` the covariance of the residual `μ - A q` over both samples, `M` the answer's derivative."""
        derivative = self._derivative(learned, found)
        return derivative @ self._noise(learned, target, found) @ derivative.T

    def _influence(self, learned: Any, found: Found, shares: Array) -> Float[Array, " classes"]:
        """An example of class `y` moves the residual by `-q_y (x - A_y)/n_y`."""
        labels = learned.source.labels
        weights = shares * (found.prior / learned.source.counts)[labels]
        centre = learned.means @ np.bincount(labels, weights=weights, minlength=learned.source.classes)
        return -self._derivative(learned, found) @ (self._total(learned, weights) - centre)

    def _reference(self, learned: Any) -> Float[Array, " classes"]:
        return learned.prior

    def _unseen(self, learned: Any, found: Found) -> Float[Array, "classes directions"]:
        return open_directions(learned.means)

    @abstractmethod
    def _class_means(self, source: Source) -> Float[Array, "columns classes"]:
        """The mean features of each class."""

    @abstractmethod
    def _mean(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " columns"]:
        """The mean features of the target."""

    @abstractmethod
    def _total(self, learned: Any, weights: Array) -> Float[Array, " columns"]:
        """The weighted sum of the source's features."""

    @abstractmethod
    def _noise(self, learned: Any, target: Array, found: Found) -> Float[Array, "columns columns"]:
        """`Cov_t/n + Σ_y q_y² Cov_y/n_y`, the covariance of the residual."""

    @abstractmethod
    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        """The label distribution whose mixture of class means fits the mean."""

    @abstractmethod
    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        """How the answer follows a change of the residual."""


class PredictionMoments(MomentEstimator):
    """Moments of the predictions: the shares of the predicted classes (hard) or the mean probabilities (soft).

    Parameters
    ----------
    predictions
        `"hard"` needs no calibration and loses what the probabilities know; `"soft"` uses them as they are.
    """

    name: ClassVar[str]

    def __init__(self, *, predictions: Predictions = "soft", **options: Any) -> None:
        super().__init__(**options)
        if predictions not in get_args(Predictions):
            raise InputError(f"predictions must be 'hard' or 'soft'; got {predictions!r}")
        self.predictions = predictions

    def _class_means(self, source: Source) -> Float[Array, "columns classes"]:
        if self.predictions == "soft":
            return class_means(source, source.rows)
        cells = source.rows.argmax(axis=1) * source.classes + source.labels
        joint = np.bincount(cells, weights=source.weights, minlength=source.classes**2)
        return joint.reshape(source.classes, source.classes) / source.counts

    def _mean(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " columns"]:
        if self.predictions == "hard":
            counts = np.bincount(target.argmax(axis=1), weights=weights, minlength=target.shape[1])
            return counts / counts.sum()
        return weighted_mean(target, weights)

    def _total(self, learned: Any, weights: Array) -> Float[Array, " columns"]:
        rows = learned.source.rows
        if self.predictions == "hard":
            return np.bincount(rows.argmax(axis=1), weights=weights, minlength=rows.shape[1])
        return np.asarray(weights @ rows, dtype=np.float64)

    def _noise(self, learned: Any, target: Array, found: Found) -> Float[Array, "columns columns"]:
        mean = self._mean(learned, target, None)
        if self.predictions == "soft":
            return soft_noise(learned.means, learned.source, target, found.prior, mean)
        return hard_noise(learned.means, learned.source.counts, len(target), found.prior, mean)

    def _diagnose(self, learned: Any, found: Found) -> dict[str, float]:
        return rank_and_condition(learned.means)


def weighted_mean(rows: Array, weights: Array | None) -> Float[Array, " columns"]:
    """The mean row."""
    if weights is None:
        return rows.mean(axis=0, dtype=np.float64)
    return np.asarray(weights @ rows / weights.sum(), dtype=np.float64)


def soft_noise(
    means: Array, source: Source, target: Array, prior: Array, mean: Array
) -> Float[Array, "columns columns"]:
    """`Cov_t/n + Σ_y q_y² Cov_y/n_y` of the residual `μ - A q`, from the rows of both samples."""
    counts = source.counts
    share = prior**2 / counts
    found = second_moment(target, np.full(len(target), len(target) ** -2.0))
    found += second_moment(source.rows, (share / counts)[source.labels])
    return found - np.outer(mean, mean) / len(target) - (means * share) @ means.T


def hard_noise(means: Array, counts: Array, size: int, prior: Array, mean: Array) -> Float[Array, "columns columns"]:
    """The same where each row falls into one cell, so that the shares of the cells say everything."""
    share = prior**2 / counts
    found = np.diag(mean / size + means @ share)
    return found - np.outer(mean, mean) / size - (means * share) @ means.T


def check_identified(means: Float[Array, "columns classes"], predictions: str) -> None:
    """Raise where different label distributions give the same predictions."""
    never = np.flatnonzero(means.sum(axis=1) == 0)
    rank = numerical_rank(np.linalg.svd(means, compute_uv=False))
    if rank == means.shape[1]:
        return
    reason = f": {list_some(never)} never predicted on the source" if len(never) else ""
    other = "predictions='soft', " if predictions == "hard" else ""
    raise InputError(
        f"the confusion matrix has rank {rank} for {means.shape[1]} classes, so the label distribution is not "
        f"identified{reason}. Use {other}the estimators em or rlls, or unidentified='source', or merge classes"
    )
