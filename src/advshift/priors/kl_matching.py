"""Distribution matching in the Kullback-Leibler divergence (du Plessis and Sugiyama, Neural Networks 2014)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import Found, Source, rank_and_condition
from advshift.priors.cells import Cells, cell_shares, make_cells
from advshift.priors.mixture import Mixture, maximise_mixture
from advshift.priors.moments import MomentEstimator, hard_noise
from advshift.priors.quadratic import tangent_inverse
from advshift.types import Array

__all__ = ["KLMatching"]


class _Histograms(NamedTuple):
    """The class-conditional shares of the cells, the source's label distribution, the source, and the cells."""

    means: Float[Array, "cells classes"]
    prior: Float[Array, " classes"]
    source: Source
    cells: Cells


class KLMatching(MomentEstimator):
    """Minimise `KL(target ‖ Σ_y q_y P_y)` over `q`, the `P_y` measured on the source as histograms of the predictions.

    A cell is the predicted class and a bin of its probability. Nothing is asked of the calibration: a histogram says
    what the classifier does on each class, not what it believes. Densities taken from the classifier instead,
    `P_y ∝ f_y/p_y`, turn the same criterion into `EM(source_prior="counted")`.

    Parameters
    ----------
    bins
        Bins of the largest probability, per predicted class.
    smoothing
        Examples added to each class's histogram, spread like those of all classes, so that no target row is impossible.
    tolerance
        The certified gap to the minimum at which to stop.

    >>> source = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6], [0.1, 0.9], [0.7, 0.3]])
    >>> estimator = KLMatching(bins=1, smoothing=0.0, covariance="none").fit(source, [0, 0, 0, 1, 1, 1])
    >>> estimator.estimate([[0.8, 0.2], [0.1, 0.9]]).prior.round(4).tolist()
    [0.5, 0.5]
    """

    name = "kl-matching"

    def __init__(self, *, bins: int = 4, smoothing: float = 0.5, tolerance: float = 1e-9, **options: Any) -> None:
        super().__init__(**options)
        if bins < 1:
            raise InputError(f"bins must be 1 or more; got {bins}")
        if not smoothing >= 0:
            raise InputError(f"smoothing must be 0 or more; got {smoothing}")
        self.bins = bins
        self.smoothing = smoothing
        self.tolerance = tolerance

    def _learn(self, source: Source) -> _Histograms:
        cells = make_cells(source.rows, self.bins)
        return _Histograms(cell_shares(cells, source, self.smoothing), source.prior, source, cells)

    def _class_means(self, source: Source) -> Float[Array, "columns classes"]:
        return self._learn(source).means

    def _mean(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " columns"]:
        return learned.cells.shares(target, weights)

    def _total(self, learned: Any, weights: Array) -> Float[Array, " columns"]:
        cells = learned.cells.assign(learned.source.rows)
        return np.bincount(cells, weights=weights, minlength=learned.cells.total)

    def _noise(self, learned: Any, target: Array, found: Found) -> Float[Array, "columns columns"]:
        mean = self._mean(learned, target, None)
        return hard_noise(learned.means, learned.source.counts, len(target), found.prior, mean)

    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        seen = mean > 0
        possible = learned.means.sum(axis=1) > 0
        if not (possible | ~seen).all():
            raise InputError("the target has predictions of a kind that no class of the source has; raise smoothing")
        mixture = Mixture(learned.means[seen], np.ones(len(learned.prior)), weights=mean[seen])
        fit = maximise_mixture(mixture, learned.prior, tolerance=self.tolerance)
        prior = np.where(fit.prior < 1e-15, 0.0, fit.prior)
        return Found(prior / prior.sum(), fit.converged, fit.iterations, (mixture, seen))

    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        mixture, seen = found.extra
        answer = np.zeros(learned.means.T.shape)
        means = learned.means[seen]
        inverse = tangent_inverse(mixture.curvature(found.prior))
        answer[:, seen] = inverse @ (means / (means @ found.prior)[:, None]).T
        return answer

    def _diagnose(self, learned: Any, found: Found) -> dict[str, float]:
        return rank_and_condition(learned.means)
