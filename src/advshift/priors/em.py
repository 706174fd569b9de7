"""Maximum likelihood under label shift (Saerens, Latinne and Decaestecker 2002; Alexandari et al., ICML 2020)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import Source, second_moment
from advshift.priors.likelihood import LikelihoodEstimator
from advshift.types import Array

__all__ = ["EM", "SourcePrior"]

SourcePrior = Literal["predicted", "counted"]


class EM(LikelihoodEstimator):
    """The distribution that the EM iteration of Saerens et al. converges to, found faster and with a certificate.

    Good where the probabilities are calibrated: `calibration="bcts"` makes it the strongest of the estimators in
    Alexandari et al. and is worth its time.

    Parameters
    ----------
    source_prior
        `p`: the source's mean prediction (`"predicted"`, robust to poor calibration: a target like the source gives
        `q = p`) or its label frequencies (`"counted"`).
    tolerance
        The certified gap to the maximal log-likelihood per row at which to stop.

    >>> source = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    >>> estimator = EM(covariance="none").fit(source, [0, 1, 1, 0])
    >>> estimator.estimate(source).prior.round(4).tolist()
    [0.5, 0.5]
    >>> estimator.estimate([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]).prior.round(4).tolist()
    [0.7778, 0.2222]
    """

    name = "em"

    def __init__(self, *, source_prior: SourcePrior = "predicted", **options: Any) -> None:
        super().__init__(**options)
        if source_prior not in get_args(SourcePrior):
            raise InputError(f"source_prior must be 'predicted' or 'counted'; got {source_prior!r}")
        self.source_prior = source_prior

    def _source_prior(self, source: Source) -> Float[Array, " classes"]:
        if self.source_prior == "counted":
            return source.prior
        if source.weights is None:
            found = source.rows.mean(axis=0, dtype=np.float64)
        else:
            found = np.asarray(source.weights @ source.rows, dtype=np.float64)
        if found.min() <= 0:
            raise InputError(
                "the source's mean probability is 0 for some class, so it cannot be compared with a target; "
                "use source_prior='counted', or a calibration"
            )
        return found / found.sum()

    def _prior_noise(self, learned: Any) -> Float[Array, "classes classes"]:
        size, prior = len(learned.source.labels), learned.prior
        if self.source_prior == "counted":
            return (np.diag(prior) - np.outer(prior, prior)) / size
        return second_moment(learned.source.rows, np.full(size, size**-2.0)) - np.outer(prior, prior) / size

    def _prior_move(self, learned: Any, shares: Array) -> Float[Array, " classes"]:
        if self.source_prior == "counted":
            moved = np.bincount(learned.source.labels, weights=shares, minlength=learned.source.classes)
        else:
            moved = np.asarray(shares @ learned.source.rows, dtype=np.float64)
        return (moved - shares.sum() * learned.prior) / len(shares)
