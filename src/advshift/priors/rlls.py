"""Regularised learning under label shift (Azizzadenesheli, Liu, Yang and Anandkumar, ICLR 2019)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from advshift.errors import InputError
from advshift.priors.base import Found
from advshift.priors.moments import PredictionMoments
from advshift.priors.quadratic import minimise_quadratic
from advshift.types import Array

__all__ = ["RLLS", "confidence_width"]


def confidence_width(classes: int, examples: int, probability: float = 0.05) -> float:
    """How far the confusion matrix may be off, with all but this probability: `3(2l/(3n) + √(2l/n))`, `l = ln(2L/δ)`.

    >>> round(confidence_width(10, 1000), 4)
    0.3404
    """
    logarithm = np.log(2 * classes / probability)
    return float(3.0 * (2.0 * logarithm / (3.0 * examples) + np.sqrt(2.0 * logarithm / examples)))


class _Shift(NamedTuple):
    """The solution `θ`, the ridge that it corresponds to, and which entries are above their bound."""

    theta: Array
    ridge: float
    free: Array
    converged: bool
    iterations: int


class RLLS(PredictionMoments):
    """Minimise `‖C θ - b‖ + Δ ‖θ‖` over `θ ≥ -1`; the weights are `1 + γ θ` and the label distribution `∝ p(1 + γθ)`.

    `C_iy = P(prediction i, class y)`, and `b = μ - C1` compares the target's predictions with the source's
    *predictions*. (Public codes subtract the source's label frequencies, which is biased unless both agree.) `Δ` is
    `scale` times the width of the confusion matrix's confidence region. Both norms are not squared: the solution is a
    ridge regression whose strength is one scalar root. `θ = 0` where the target does not differ by more than `Δ`.

    Parameters
    ----------
    predictions
        `"hard"` or `"soft"`.
    scale
        What to multiply the width with; the width itself is far too careful, and its authors' code
        (Angela0428/labelshift) takes 0.01. With many classes and few examples of each that is still too much: on news
        topics 0.001 halved the error.
    trust
        `γ`, from 0 (no correction) to 1: how far to follow the estimate. `"sample"` is `1 - 1/√n` with `n` target rows,
        as in its authors' code for small target samples; elsewhere they take 1.
    probability
        `δ` of the width.

    >>> confusion = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> RLLS(covariance="none").fit(confusion, [0, 0, 1, 1]).estimate([[0.7, 0.3], [0.5, 0.5]]).prior.round(3).tolist()
    [0.625, 0.375]
    """

    name = "rlls"

    def __init__(
        self, *, scale: float = 0.01, trust: float | str = 1.0, probability: float = 0.05, **options: Any
    ) -> None:
        super().__init__(**options)
        if not scale >= 0:
            raise InputError(f"scale must be 0 or more; got {scale}")
        if trust != "sample" if isinstance(trust, str) else not 0 <= trust <= 1:
            raise InputError(f"trust must lie in [0, 1] or be 'sample'; got {trust!r}")
        if not 0 < probability < 1:
            raise InputError(f"probability must lie between 0 and 1; got {probability}")
        self.scale = scale
        self.trust = trust
        self.probability = probability

    def _solve(self, learned: Any, target: Array, weights: Array | None, start: Found | None) -> Found:
        found = super()._solve(learned, target, weights, start)
        trust = 1.0 - len(target) ** -0.5 if isinstance(self.trust, str) else float(self.trust)
        prior = learned.prior * np.maximum(1.0 + trust * found.extra.theta, 0.0)
        return found._replace(prior=prior / prior.sum(), extra=(found.extra, trust))

    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        width = self.scale * confidence_width(len(learned.prior), len(learned.source.labels), self.probability)
        joint = learned.means * learned.prior
        shift = solve_shift(joint, mean - joint.sum(axis=1), width)
        return Found(learned.prior, shift.converged, shift.iterations, shift)

    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        shift, trust = found.extra
        joint = learned.means * learned.prior
        answer = np.zeros_like(joint.T)
        if np.isfinite(shift.ridge):
            gram = joint.T @ joint + max(shift.ridge, 1e-15) * np.eye(joint.shape[1])
            answer = np.linalg.solve(gram, joint.T)
        answer *= trust * learned.prior[:, None]
        total = float(learned.prior @ (1.0 + trust * shift.theta))
        return (answer - np.outer(found.prior, answer.sum(axis=0))) / total


def solve_shift(joint: Float[Array, "columns classes"], change: Float[Array, " columns"], width: float) -> _Shift:
    """Minimise `‖C θ - b‖ + Δ ‖θ‖` over `θ ≥ -1`.

    For the ridge problem with strength `κ`, `κ ‖θ‖ / ‖Cθ - b‖` grows with `κ`; where it is `Δ`, both problems agree.
    """
    gram, vector = joint.T @ joint, joint.T @ change
    size = float(np.linalg.norm(change))
    if size == 0.0 or float(np.linalg.norm(vector)) <= width * size:
        return _Shift(np.zeros(len(vector)), float("inf"), np.ones(len(vector), dtype=bool), True, 0)
    search = _RidgePath(gram, vector, joint, change)
    low, high = 1e-14 * float(np.trace(gram)), 1e6 * float(np.trace(gram))
    if search.excess(low, width) >= 0:
        return search.shift(low)
    from scipy.optimize import brentq

    root = brentq(lambda level: search.excess(np.exp(level), width), np.log(low), np.log(high), xtol=1e-12)
    return search.shift(float(np.exp(root)))


class _RidgePath:
    """Solutions of `min ½‖Cθ - b‖² + ½κ‖θ‖²`, `θ ≥ -1`, each started from the active set of the one before."""

    def __init__(self, gram: Array, vector: Array, joint: Array, change: Array) -> None:
        self.joint, self.change = joint, change
        self.gram, self.vector = gram, vector
        self.values, self.vectors = np.linalg.eigh(gram)
        self.rotated = self.vectors.T @ vector
        self.free: Bool[Array, " classes"] = np.ones(len(vector), dtype=bool)
        self.iterations = 0

    def shift(self, ridge: float) -> _Shift:
        self.iterations += 1
        theta = self.vectors @ (self.rotated / (np.maximum(self.values, 0.0) + ridge))
        if theta.min() >= -1.0:
            return _Shift(theta, ridge, np.ones(len(theta), dtype=bool), True, self.iterations)
        raised = self.gram + ridge * np.eye(len(theta))
        fit = minimise_quadratic(raised, self.vector + raised.sum(axis=1), simplex=False, start=self.free)
        self.free = fit.free
        return _Shift(fit.point - 1.0, ridge, fit.free, fit.converged, self.iterations)

    def excess(self, ridge: float, width: float) -> float:
        theta = self.shift(ridge).theta
        residual = float(np.linalg.norm(self.joint @ theta - self.change))
        return ridge * float(np.linalg.norm(theta)) / max(residual, 1e-300) - width
