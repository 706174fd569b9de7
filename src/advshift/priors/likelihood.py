"""Estimators by maximum likelihood: the target is a mixture of the classes' densities, known up to `p(x)`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import Found, PriorEstimator, Source, class_means, rank_and_condition
from advshift.priors.mixture import SMALL, Mixture, MixtureFit, maximise_mixture
from advshift.priors.unidentified import open_directions
from advshift.types import Array

__all__ = ["LikelihoodEstimator", "Reference"]


class Reference(NamedTuple):
    """The label distribution under which the rows are probabilities, its covariance's source, and the source."""

    prior: Float[Array, " classes"]
    source: Source


class _Response(NamedTuple):
    """How the estimate follows the target's noise and `p`'s, the mean outer product of the scores, and `λ`."""

    target: Array
    source: Array
    scores: Array
    share: float


class LikelihoodEstimator(PriorEstimator):
    """Maximise `Σ_n log Σ_y f_ny q_y/p_y`, perhaps with a prior on `q`.

    Parameters
    ----------
    tolerance
        Stop when the log-likelihood per row is within this of its maximum, which the gradient certifies.
    """

    def __init__(self, *, tolerance: float = 1e-9, **options: Any) -> None:
        super().__init__(**options)
        if not tolerance > 0:
            raise InputError(f"tolerance must be above 0; got {tolerance}")
        self.tolerance = tolerance

    def _learn(self, source: Source) -> Reference:
        if source.weights is None:
            self._confusion: dict[str, float] | None = None  # found with the first estimate, and the same for all
        return Reference(self._source_prior(source), source)

    def _reference(self, learned: Any) -> Float[Array, " classes"]:
        return learned.prior

    @abstractmethod
    def _source_prior(self, source: Source) -> Float[Array, " classes"]:
        """`p`, the label distribution under which the rows are probabilities."""

    @abstractmethod
    def _prior_noise(self, learned: Any) -> Float[Array, "classes classes"]:
        """The covariance of `p`."""

    @abstractmethod
    def _prior_move(self, learned: Any, shares: Array) -> Float[Array, " classes"]:
        """`Σ_i g_i·(influence of source example i on p)`."""

    def _pseudo(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " classes"] | None:
        """The strength of the Dirichlet prior per class; none by default."""
        return None

    def _solve(self, learned: Any, target: Array, weights: Array | None, start: Found | None) -> Found:
        mixture = Mixture(target, learned.prior, weights=weights, pseudo=self._pseudo(learned, target, weights))
        first = learned.prior if start is None else 0.9 * start.prior + 0.1 * learned.prior
        fit = maximise_mixture(mixture, first, tolerance=self.tolerance)
        prior = np.where(fit.prior < 1e-15, 0.0, fit.prior)
        return Found(prior / prior.sum(), fit.converged, fit.iterations, (mixture, fit))

    def _asymptotic(self, learned: Any, target: Array, found: Found) -> Float[Array, "classes classes"]:
        """The sandwich, the bounds left out: the target's noise has the covariance `(H - 11')/n`."""
        response = self._response(learned, found)
        mean = response.scores @ found.prior
        noise = response.share * response.scores - np.outer(mean, mean)
        spread = response.target @ noise @ response.target.T / len(target)
        return spread + response.source @ self._prior_noise(learned) @ response.source.T

    def _unseen(self, learned: Any, found: Found) -> Float[Array, "classes directions"]:
        plain = Mixture(found.extra[0].rows, learned.prior)
        return open_directions(plain.curvature(found.prior), tolerance=1e-9 if len(found.prior) <= SMALL else 1e-5)

    def _influence(self, learned: Any, found: Found, shares: Array) -> Float[Array, " classes"]:
        return self._response(learned, found).source @ self._prior_move(learned, shares)

    def _response(self, learned: Any, found: Found) -> _Response:
        """With scores `s`, `H = mean ss'` and weights `w = q/p`: `dq = H⁻¹(e - dp/p) + w∘dp`, made to sum to zero."""
        mixture: Mixture = found.extra[0]
        prior = np.maximum(found.prior, 1e-300)
        curvature = mixture.curvature(prior)
        inverse = np.linalg.pinv(curvature, hermitian=True, rcond=1e-10)
        share = 1.0 - float(mixture.pseudo.sum())
        scores = curvature - np.diag(mixture.pseudo / np.maximum(prior, 1e-100) ** 2)
        ones = inverse.sum(axis=1)
        project = np.eye(len(prior)) - np.outer(ones, np.ones(len(prior))) / ones.sum()
        carried = np.diag(found.prior / learned.prior) - share * inverse / learned.prior
        return _Response(project @ inverse, project @ carried, scores, share)

    def _diagnose(self, learned: Any, found: Found) -> dict[str, float]:
        fit: MixtureFit = found.extra[1]
        if self._confusion is None:
            self._confusion = rank_and_condition(class_means(learned.source, learned.source.rows))
        return {"log_likelihood": fit.value, "gap": fit.gap, **self._confusion}
