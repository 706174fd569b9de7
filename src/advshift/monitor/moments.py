"""A label distribution from the mean prediction of a stream: black-box shift estimation where only moments are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.monitor.source import Batch, SourceModel
from advshift.priors.base import second_moment
from advshift.priors.quadratic import minimise_quadratic, tangent_inverse
from advshift.types import Array, PriorEstimate

__all__ = ["check_identified", "features_of", "from_moments", "unbiased"]

CONDITION = 1e-10  # of the smallest singular value to the largest: below, mixes cannot be told apart


def features_of(batch: Batch, classes: int) -> Float[Array, "examples classes"]:
    """What is averaged: the probabilities, or a one in the column of the predicted class."""
    return np.eye(classes)[batch.predicted] if batch.rows is None else batch.rows


def check_identified(source: SourceModel) -> None:
    """Raise where different label distributions give the same mean prediction."""
    spectrum = np.linalg.svd(source.means, compute_uv=False)
    if spectrum[-1] > CONDITION * spectrum[0]:
        return
    never = [str(source.classes[k]) for k in np.flatnonzero(source.means.sum(axis=1) == 0)]
    reason = f": the source never predicts {', '.join(map(repr, never[:5]))}" if never else ""
    advice = "give probabilities instead of predicted classes" if source.hard else "give --estimator em"
    raise InputError(
        f"the confusion matrix of the source is singular, so the predictions cannot tell the classes' shares{reason}; "
        f"{advice}, or merge classes"
    )


def unbiased(source: SourceModel, mean: Float[Array, " classes"]) -> Float[Array, " classes"]:
    """`A⁻¹ μ`, which may leave the simplex."""
    return np.linalg.solve(source.means, mean)


def from_moments(
    source: SourceModel,
    mean: Float[Array, " classes"],
    covariance: Float[Array, "classes classes"],
    size: float | int,
    method: str,
) -> PriorEstimate:
    """The label distribution whose mixture of the source's class means is nearest to a mean, with its covariance.

    Parameters
    ----------
    source
        The labelled source.
    mean, covariance
        The stream's mean prediction and the covariance of that mean.
    size
        The examples that the mean is worth.
    method
        What the estimate is called.
    """
    prior = unbiased(source, mean)
    if prior.min() < 0:
        prior = minimise_quadratic(source.means.T @ source.means, source.means.T @ mean).point
    prior = prior / prior.sum()
    answer = tangent_inverse(source.means.T @ source.means) @ source.means.T
    noise = covariance + _source_noise(source, prior)
    return PriorEstimate(
        prior=prior,
        source=source.prior,
        covariance=answer @ noise @ answer.T,
        replicates=None,
        converged=True,
        iterations=1,
        source_size=len(source.labels),
        target_size=round(size),
        method=method,
        source_influence=partial(_influence, source, prior, answer),
    )


def _source_noise(source: SourceModel, prior: Array) -> Float[Array, "classes classes"]:
    """`Σ_y q_y² Cov_y/n_y`: what the class means do not know."""
    share = prior**2 / source.counts
    if source.rows is None:
        return np.diag(source.means @ share) - (source.means * share) @ source.means.T
    labels = source.labels[source.sample]
    counts = np.bincount(labels, minlength=len(source.classes))
    found = second_moment(source.rows[source.sample], (share / counts)[labels])
    return found - (source.means * share) @ source.means.T


def _influence(source: SourceModel, prior: Array, answer: Array, shares: Any) -> Float[Array, " classes"]:
    """An example of class `y` moves the residual `μ - A q` by `-q_y (x - A_y)/n_y`."""
    weights = shares * (prior / source.counts)[source.labels]
    centre = source.means @ np.bincount(source.labels, weights=weights, minlength=len(source.classes))
    if source.rows is None:
        total = np.bincount(source.predicted, weights=weights, minlength=len(source.classes))
    else:
        total = weights @ source.rows
    return -answer @ (total - centre)
