"""From an estimate to a robust answer: a ball around it that holds the true label distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.posthoc.around import ball_around
from advshift.sets import SETS
from advshift.sets.base import Ball
from advshift.types import Array, ArrayLike, PriorEstimate, WorstCase

__all__ = ["ConfidenceBall", "ball_of", "confidence_ball", "confidence_radii"]


@dataclass(frozen=True, eq=False)
class ConfidenceBall:
    """A ball of label distributions, as an uncertainty set takes it.

    Attributes
    ----------
    centre
        The estimate, with one example's worth of the source mixed in: no class is ruled out by a sample.
    radius
        The divergence within which the true distribution lies, with the stated confidence.
    set
        The uncertainty set, `set.worst_case(risks, centre)`.
    confidence
        What the radius was chosen for.
    """

    centre: Float[Array, " classes"]
    radius: float
    set: Ball
    confidence: float

    def worst_case(self, risks: ArrayLike) -> WorstCase:
        """How bad it can be, given what the target sample says."""
        return self.set.worst_case(risks, self.centre)

    def to_objective_options(self) -> dict[str, Any]:
        """What to give to `RobustObjective`: the worst case of this ball, whatever mix the training data have.

        >>> ball = ConfidenceBall(np.array([0.3, 0.7]), 0.1, SETS["kl"](0.1), 0.95)
        >>> ball.to_objective_options()["adversary"]
        'exact'
        """
        return {"adversary": "exact", "uncertainty": ball_around(self.set, self.centre)}


def confidence_ball(
    estimate: PriorEstimate,
    *,
    set: str = "kl",  # noqa: A002
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> ConfidenceBall:
    """Turn the uncertainty of an estimate into a radius: a quantile of the divergence between replicates and centre.

    The centre is the mean of the replicates, which gives a class that is estimated at zero what it may still have.
    Without a bootstrap, replicates are drawn from the normal distribution with the estimate's covariance. Those of a
    bootstrap are squeezed where an estimate meets its bounds, so there the radius is the larger one of `D(replicate,
    centre)` and `D(centre, replicate)`.

    Parameters
    ----------
    estimate
        With replicates (`covariance="bootstrap"`) or with a covariance.
    set
        `"kl"`, `"reverse-kl"`, `"chi2"` or `"tv"`.
    confidence
        The probability that the ball holds the true label distribution.
    draws, seed
        Of the normal distribution, where there are no replicates.
    """
    if set not in _DIVERGENCES:
        raise InputError(f"set must be a ball around a centre: {', '.join(_DIVERGENCES)}; got {set!r}")
    centre, radii = confidence_radii(estimate, confidence=confidence, draws=draws, seed=seed, sets=(set,))
    return ball_of(centre, radii, set, confidence)


def confidence_radii(
    estimate: PriorEstimate,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    sets: tuple[str, ...] = ("kl", "reverse-kl", "chi2", "tv"),
) -> tuple[Float[Array, " classes"], dict[str, float]]:
    """The centre of `confidence_ball`, and the radius of each set."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1; got {confidence}")
    size, source = estimate.target_size, estimate.source
    replicates = estimate.replicates if estimate.replicates is not None else _normal_draws(estimate, draws, seed)
    smoothed = (size * replicates + source) / (size + 1.0)
    centre = smoothed.mean(axis=0)
    radii = {name: float(np.quantile(_DIVERGENCES[name](smoothed, centre), confidence)) for name in sets}
    if estimate.replicates is not None:
        for name in sets:
            radii[name] = max(radii[name], float(np.quantile(_DIVERGENCES[name](centre, smoothed), confidence)))
    return centre, radii


def ball_of(
    centre: Float[Array, " classes"], radii: Mapping[str, float], name: str, confidence: float
) -> ConfidenceBall:
    """The ball of a set's name among those whose radius is known."""
    if name not in radii:
        raise InputError(f"set must be a ball around a centre: {', '.join(radii)}; got {name!r}")
    kind = SETS[name]
    assert issubclass(kind, Ball)
    return ConfidenceBall(centre, radii[name], kind(radii[name]), confidence)


def _normal_draws(estimate: PriorEstimate, draws: int, seed: int) -> Float[Array, "draws classes"]:
    if estimate.covariance is None:
        raise InputError(
            "the estimate has neither replicates nor a covariance; estimate with covariance='asymptotic' or 'bootstrap'"
        )
    values, vectors = np.linalg.eigh(estimate.covariance)
    normal = np.random.default_rng(seed).standard_normal((draws, len(values)))
    moved = estimate.prior + normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    inside = np.maximum(moved, 0.0)
    return inside / inside.sum(axis=1, keepdims=True)


def _kl(first: Array, second: Array) -> Array:
    return (first * np.log(first / second)).sum(axis=-1)


# D(truth, centre) of each ball, for a truth against many centres.
_DIVERGENCES: dict[str, Callable[[Array, Array], Array]] = {
    "kl": _kl,
    "reverse-kl": lambda truth, centre: _kl(centre, truth),
    "chi2": lambda truth, centre: 0.5 * ((truth - centre) ** 2 / centre).sum(axis=-1),
    "tv": lambda truth, centre: 0.5 * np.abs(truth - centre).sum(axis=-1),
}
