"""Black-box shift estimation: invert the confusion matrix (Lipton, Wang and Smola, ICML 2018)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import Found, Source
from advshift.priors.moments import Matched, PredictionMoments, check_identified
from advshift.priors.quadratic import minimise_quadratic, tangent_inverse
from advshift.types import Array

__all__ = ["BBSE", "Solver", "Unidentified"]

Solver = Literal["constrained", "clip"]
Unidentified = Literal["error", "source"]

_PULL = 1e-9  # towards the source, relative to the mean of the diagonal, in directions that the data leaves open


class BBSE(PredictionMoments):
    """Solve `A q = μ`: `A` the class-conditional means of the predictions, `μ` their mean on the target.

    Where the solution of the square system is a distribution it is the answer. Where it is not, which is the rule with
    an ill-conditioned matrix, `"constrained"` minimises `‖A q - μ‖²` over the simplex, and `"clip"` sets the negative
    entries to zero and divides by the sum, as first published.

    Parameters
    ----------
    predictions
        `"hard"` or `"soft"`.
    solver
        `"constrained"` or `"clip"`.
    unidentified
        What to do with a confusion matrix without full rank. `"error"` refuses it. `"source"` keeps the source's
        label distribution along every direction that the predictions cannot see.

    >>> confusion = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> estimator = BBSE(covariance="none").fit(confusion, [0, 0, 1, 1])
    >>> estimator.estimate([[0.7, 0.3], [0.5, 0.5]]).prior.round(3).tolist()
    [0.625, 0.375]
    """

    name = "bbse"

    def __init__(self, *, solver: Solver = "constrained", unidentified: Unidentified = "error", **options: Any) -> None:
        super().__init__(**options)
        if solver not in get_args(Solver):
            raise InputError(f"solver must be 'constrained' or 'clip'; got {solver!r}")
        if unidentified not in get_args(Unidentified):
            raise InputError(f"unidentified must be 'error' or 'source'; got {unidentified!r}")
        self.solver = solver
        self.unidentified = unidentified

    def _learn(self, source: Source) -> Any:
        learned = super()._learn(source)
        if self.unidentified == "error" and source.weights is None:
            check_identified(learned.means, self.predictions)
        return learned

    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        direct = self._invert(learned, mean)
        if direct is not None and (self.solver == "clip" or direct.min() >= 0):
            prior = np.maximum(direct, 0.0)
            return Found(prior / prior.sum(), True, 1)
        matrix, vector = self._normal(learned, mean)
        fit = minimise_quadratic(matrix, vector, start=None if start is None else start.prior > 0)
        return Found(fit.point, fit.converged, fit.iterations)

    def _invert(self, learned: Matched, mean: Array) -> Array | None:
        if self.unidentified == "source":
            return None
        try:
            return np.linalg.solve(learned.means, mean)
        except np.linalg.LinAlgError:
            return None

    def _normal(self, learned: Matched, mean: Array) -> tuple[Array, Array]:
        matrix, vector = learned.means.T @ learned.means, learned.means.T @ mean
        if self.unidentified == "source":
            pull = _PULL * np.trace(matrix) / len(matrix)
            matrix, vector = matrix + pull * np.eye(len(matrix)), vector + pull * learned.prior
        return matrix, vector

    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        matrix, _ = self._normal(learned, learned.prior)
        return tangent_inverse(matrix) @ learned.means.T
