"""Calibration of probabilities on labelled data: softmax(scale ∘ z + bias) with `z = log f`, fitted by likelihood.

Four forms, as in Alexandari, Kundaje and Shrikumar (ICML 2020): one scale (temperature), one scale and a bias per class
(bias-corrected temperature scaling), a scale per class with and without a bias (vector scaling). Stated with the
scale instead of the temperature, the negative log-likelihood is convex.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from advshift.types import Array

__all__ = [
    "BiasCorrectedTemperature",
    "Calibration",
    "Temperature",
    "VectorScaling",
    "VectorScalingNoBias",
    "log_probabilities",
]

_FLOOR = 1e-12  # a probability of zero says less than its logarithm does
_BLOCK = 1 << 21  # numbers of a block of rows


def log_probabilities(probabilities: Float[Array, "examples classes"]) -> Float[Array, "examples classes"]:
    """Logits whose softmax gives the probabilities, centred on zero per row; zeros are raised to 1e-12.

    >>> log_probabilities(np.array([[0.5, 0.5]])).tolist()
    [[0.0, 0.0]]
    """
    logits = np.log(np.maximum(probabilities, _FLOOR, dtype=np.float64))
    logits -= logits.mean(axis=1, keepdims=True)
    return logits


class Calibration(ABC):
    """A map of probabilities that is fitted on labelled ones; a form says which parameters are free."""

    name: ClassVar[str]
    per_class: ClassVar[bool]
    biased: ClassVar[bool]

    scale: Float[Array, "..."]
    bias: Float[Array, "..."]
    converged: bool

    def fit(
        self,
        probabilities: Float[Array, "examples classes"],
        labels: Int[Array, " examples"],
        weights: Float[Array, " examples"] | None = None,
    ) -> Calibration:
        """Maximise the likelihood of the labels; a second fit starts where the first one ended.

        Parameters
        ----------
        probabilities, labels
            A row per example, and the number of its class.
        weights
            A weight per example; equal by default.
        """
        from scipy.optimize import minimize

        classes = probabilities.shape[1]
        share = np.full(len(labels), 1.0 / len(labels)) if weights is None else weights / weights.sum()
        logits = log_probabilities(probabilities)
        scales = classes if self.per_class else 1
        start = np.concatenate([np.ones(scales), np.zeros(classes if self.biased else 0)])
        if hasattr(self, "scale"):
            start = np.concatenate([np.atleast_1d(self.scale), self.bias if self.biased else []])
        bounds = [(1e-3, 1e3)] * scales + [(None, None)] * (len(start) - scales)
        found = minimize(
            lambda point: self._loss(point, logits, labels, share, scales),
            start,
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-7, "maxcor": 20},
        )
        self.scale = found.x[:scales] if self.per_class else found.x[0]
        self.bias = found.x[scales:] - found.x[scales:].mean() if self.biased else np.zeros(classes)
        self.converged = bool(found.success)
        return self

    def _loss(self, point: Array, logits: Array, labels: Array, share: Array, scales: int) -> tuple[float, Array]:
        scaled = logits * point[:scales] + (point[scales:] if self.biased else 0.0)
        scaled -= scaled.max(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        chosen = scaled[rows, labels]
        residual = np.exp(scaled, out=scaled)
        sums = residual.sum(axis=1)
        loss = share @ (np.log(sums) - chosen)
        residual *= (share / sums)[:, None]
        residual[rows, labels] -= share
        slope = np.einsum("nc,nc->c", residual, logits)
        gradient = slope if self.per_class else np.array([slope.sum()])
        return float(loss), np.concatenate([gradient, residual.sum(axis=0)]) if self.biased else gradient

    def __call__(self, probabilities: Float[Array, "examples classes"]) -> Float[Array, "examples classes"]:
        """Calibrate probabilities; the answer has their dtype."""
        calibrated = np.empty_like(probabilities)
        length = max(1, _BLOCK // probabilities.shape[1])
        for start in range(0, len(probabilities), length):
            logits = log_probabilities(probabilities[start : start + length]) * self.scale + self.bias
            logits = np.exp(logits - logits.max(axis=1, keepdims=True))
            calibrated[start : start + length] = logits / logits.sum(axis=1, keepdims=True)
        return calibrated


class Temperature(Calibration):
    """`softmax(z / T)`.

    >>> confident = np.array([[0.99, 0.01], [0.99, 0.01], [0.01, 0.99], [0.99, 0.01]])
    >>> Temperature().fit(confident, np.array([0, 0, 1, 1]))(confident).round(3)[0].tolist()
    [0.75, 0.25]
    """

    name = "temperature"
    per_class = False
    biased = False


class BiasCorrectedTemperature(Calibration):
    """`softmax(z / T + b)` with a bias per class; on the data that it is fitted on, the mean matches the labels'.

    >>> biased = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> BiasCorrectedTemperature().fit(biased, np.array([0, 1, 0, 1]))(biased).mean(axis=0).round(4).tolist()
    [0.5, 0.5]
    """

    name = "bcts"
    per_class = False
    biased = True


class VectorScaling(Calibration):
    """`softmax(s ∘ z + b)` with a scale and a bias per class."""

    name = "vector"
    per_class = True
    biased = True


class VectorScalingNoBias(Calibration):
    """`softmax(s ∘ z)` with a scale per class."""

    name = "vector-no-bias"
    per_class = True
    biased = False
