"""Bias-corrected temperature scaling whose biases are shrunk as far as the labelled data ask for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from advshift.priors.calibration import Calibration, log_probabilities
from advshift.types import Array

__all__ = ["ShrunkBias"]

_BLOCK = 1 << 18  # numbers of a block of rows: its temporaries stay in the cache
_ROUNDS = 30  # estimates of the strength
_STEADY = 0.1  # change of the logarithm of the strength at which it is taken as found
_WEAK, _STRONG = 1e-6, 1e2  # strengths, in units of the largest curvature, beyond which nothing changes any more


class _Labelled(NamedTuple):
    """Centred logits, labels, a weight per row (they sum to the number of rows), and the centred log frequencies."""

    logits: Float[Array, "examples classes"]
    labels: Int[Array, " examples"]
    weights: Float[Array, " examples"]
    tilt: Float[Array, " classes"]


class _Loss(NamedTuple):
    """The negative log-likelihood, its gradient in (scale, slope, deviations), and the curvature in each deviation."""

    value: float
    gradient: Float[Array, " parameters"]
    curvature: Float[Array, " classes"]


class ShrunkBias(Calibration):
    """`softmax(s z + t u + d)`: `u` the centred log frequencies of the labels, `d` a shrunk deviation per class.

    A bias per class costs as many parameters as there are classes, and with few labelled examples of each their noise
    goes straight into the estimate of a label distribution. But a model's biases mostly follow how frequent the classes
    were, which is one parameter, `t`. The rest is taken as `d_y ~ N(0, 1/r)`, and `r` is found by maximising the
    evidence: `r = Σ h/(h + r) / Σ d²` with `h` the curvature of the likelihood (MacKay, Neural Computation 1992; its
    off-diagonal terms are left out). Where the data call for biases this is `"bcts"`, where not, it is a temperature.

    >>> sure = np.array([[0.99, 0.01], [0.99, 0.01], [0.01, 0.99], [0.99, 0.01], [0.01, 0.99], [0.01, 0.99]])
    >>> ShrunkBias().fit(sure, np.array([0, 0, 1, 1, 1, 0]))(sure).round(2)[0].tolist()
    [0.67, 0.33]
    """

    name = "shrunk"
    per_class = False
    biased = True
    strength: float

    def fit(
        self,
        probabilities: Float[Array, "examples classes"],
        labels: Int[Array, " examples"],
        weights: Float[Array, " examples"] | None = None,
    ) -> Calibration:
        """Maximise the penalised likelihood and the evidence in turns; a second fit starts where the first one ended.

        Parameters
        ----------
        probabilities, labels
            A row per example, and the number of its class.
        weights
            A weight per example; equal by default.
        """
        data = _prepare(probabilities, labels, weights)
        point = getattr(self, "_point", np.r_[1.0, np.zeros(1 + len(data.tilt))])
        strength = getattr(self, "strength", float("inf"))
        if np.isinf(strength):
            point, curvature, self.converged = maximise_penalised(data, None, point)
            strength = _first_strength(data, point, curvature)
        if np.isinf(strength):
            self._keep(data, point, strength)
        else:
            self._refine(data, point, strength)
        return self

    def _refine(self, data: _Labelled, point: Array, strength: float) -> None:
        """Maximise the penalised likelihood and update the strength in turns, until it is steady."""
        steady = False
        for _ in range(_ROUNDS):
            point, curvature, self.converged = maximise_penalised(data, strength, point)
            found = _evidence(point[2:], curvature, strength)
            steady = abs(np.log(found / strength)) < _STEADY
            if steady or not self.converged:
                break
            strength = found
        self.converged = self.converged and steady
        self._keep(data, point, strength)

    def _keep(self, data: _Labelled, point: Array, strength: float) -> None:
        self._point, self.strength = point, strength
        self.scale, self.bias = point[0], point[1] * data.tilt + point[2:]


def _prepare(probabilities: Array, labels: Array, weights: Array | None) -> _Labelled:
    share = np.ones(len(labels)) if weights is None else weights * (len(labels) / weights.sum())
    counts = np.bincount(labels, weights=share, minlength=probabilities.shape[1])
    tilt = np.log(np.maximum(counts, 0.5))
    return _Labelled(log_probabilities(probabilities), labels, share, tilt - tilt.mean())


def _first_strength(data: _Labelled, point: Array, curvature: Array) -> float:
    """By moments, from the slopes `g` of the likelihood at `d = 0`: `E g² = h + h²/r`, perhaps infinite."""
    slopes = penalty_free_loss(data, point).gradient[2:]
    excess = float((slopes**2 - curvature).sum())
    if excess <= 0:
        return float("inf")
    return max(float((curvature**2).sum()) / excess, _WEAK * float(curvature.max()))


def _evidence(deviations: Array, curvature: Array, strength: float) -> float:
    """MacKay's update of the strength, kept where it still matters."""
    explained = float((curvature / (curvature + strength)).sum())
    largest = float(curvature.max())
    return float(np.clip(explained / max(deviations @ deviations, 1e-300), _WEAK * largest, _STRONG * largest))


def maximise_penalised(
    data: _Labelled, strength: float | None, start: Float[Array, " parameters"]
) -> tuple[Float[Array, " parameters"], Float[Array, " classes"], bool]:
    """Minimise `-log-likelihood + ½ r Σ d² + ½ t²`, or with `d = 0` where there is no `r`.

    The answer is the parameters, the curvature there, and whether the search converged.
    """
    from scipy.optimize import minimize

    size = float(len(data.labels))
    counts = np.bincount(data.labels, weights=data.weights, minlength=len(data.tilt))
    ridge = np.concatenate([[0.0, 1.0], np.full(len(data.tilt), strength or 0.0)])
    units = 1.0 / np.sqrt(np.concatenate([[size, size], 0.3 * counts + (strength or 0.0)]))
    free = np.arange(2 if strength is None else len(start))
    whole = start.copy()
    latest: list[Any] = []

    def objective(point: Array) -> tuple[float, Array]:
        whole[free] = point * units[free]
        loss = penalty_free_loss(data, whole)
        latest[:] = [loss.curvature]
        return loss.value + 0.5 * float(ridge @ whole**2), ((loss.gradient + ridge * whole) * units)[free]

    found = minimize(
        objective,
        (start / units)[free],
        jac=True,
        bounds=[(1e-3 / units[0], 1e3 / units[0])] + [(None, None)] * (len(free) - 1),
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-10, "gtol": 1e-3, "maxcor": 20},
    )
    whole[free] = found.x * units[free]
    return whole, latest[0], bool(found.success)


def penalty_free_loss(data: _Labelled, point: Float[Array, " parameters"]) -> _Loss:
    """The negative log-likelihood at scale, slope and deviations, in blocks of rows."""
    bias = point[1] * data.tilt + point[2:]
    value, slope = 0.0, 0.0
    moved, squares = np.zeros(len(bias)), np.zeros(len(bias))
    length = max(1, _BLOCK // len(bias))
    for begin in range(0, len(data.labels), length):
        part = slice(begin, begin + length)
        logits, labels, weights = data.logits[part], data.labels[part], data.weights[part]
        rows = np.arange(len(labels))
        scaled = logits * point[0]
        scaled += bias
        scaled -= scaled.max(axis=1, keepdims=True)
        chosen = scaled[rows, labels]
        odds = np.exp(scaled, out=scaled)
        sums = odds.sum(axis=1)
        value += float(weights @ (np.log(sums) - chosen))
        odds /= sums[:, None]
        slope += float(weights @ np.einsum("nc,nc->n", odds, logits) - weights @ logits[rows, labels])
        moved += weights @ odds
        squares += np.einsum("n,nc,nc->c", weights, odds, odds)
    counts = np.bincount(data.labels, weights=data.weights, minlength=len(bias))
    residual = moved - counts
    return _Loss(value, np.concatenate([[slope, residual @ data.tilt], residual]), moved - squares)
