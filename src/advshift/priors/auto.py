"""The recommended estimator: regularised on both sides by the data themselves, with nothing to choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.priors.base import Found
from advshift.priors.calibration import Calibration
from advshift.priors.em import EM
from advshift.priors.mixture import Mixture
from advshift.types import Array

__all__ = ["Auto"]


class Auto(EM):
    """The label frequencies to expect in the target, believed beforehand to be the source's as if `L` rows had said so.

    The maximum of the likelihood is noisy where classes are many or rows few. Beforehand `q` has the distribution
    `Dirichlet(L p)`; where the source is balanced, that makes every label distribution equally likely. The posterior of
    `log q` has its mode where `Σ_n log Σ_y f_ny q_y/p_y + Σ_y L p_y log q_y` is largest (see MacKay, Machine Learning
    1998, on the choice of this basis). The answer is what the rows say at that mode, `mean_n f_ny q_y/p_y / Σ`: sure
    predictions are counted as they are, and only what is left open is drawn towards the source. A target like the
    source gives `q = p`.

    The probabilities are calibrated on the source by `"shrunk"`, with as many effective parameters as its labels
    support.

    Shrinking trades spread for bias, and an interval has to hold both: the covariance, asymptotic or bootstrapped, is
    that of the maximum of the likelihood without the prior.

    Parameters
    ----------
    calibration
        `"shrunk"` by default; the other options are those of `EM`.

    >>> source = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    >>> estimator = Auto(calibration=None, covariance="none").fit(source, [0, 1, 1, 0])
    >>> estimator.estimate([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]).prior.round(4).tolist()
    [0.6598, 0.3402]
    """

    name = "auto"

    def __init__(self, *, calibration: str | Calibration | None = "shrunk", **options: Any) -> None:
        super().__init__(calibration=calibration, **options)

    def _pseudo(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " classes"] | None:
        """The examples beforehand, which the replicates of a bootstrap go without."""
        before = _before(learned)
        return None if weights is not None else before / (len(target) + before.sum())

    def _solve(self, learned: Any, target: Array, weights: Array | None, start: Found | None) -> Found:
        """At the mode, `(n + Σa) q = n r + a` with `r` what the rows say."""
        found = super()._solve(learned, target, weights, start)
        if weights is not None:
            return found
        before, size = _before(learned), len(target)
        expected = np.maximum((size + before.sum()) * found.prior - before, 0.0)
        return found._replace(prior=expected / expected.sum())

    def _asymptotic(self, learned: Any, target: Array, found: Found) -> Float[Array, "classes classes"]:
        return super()._asymptotic(learned, target, _unshrunk(learned, found))

    def _influence(self, learned: Any, found: Found, shares: Array) -> Float[Array, " classes"]:
        return super()._influence(learned, _unshrunk(learned, found), shares)


def _before(learned: Any) -> Float[Array, " classes"]:
    """`L p`, the examples of each class that are believed before there are any."""
    return len(learned.prior) * learned.prior


def _unshrunk(learned: Any, found: Found) -> Found:
    """The same point, as one of the likelihood alone."""
    penalised, fit = found.extra
    return found._replace(extra=(Mixture(penalised.rows, learned.prior), fit))
