"""Online gradient descent on the estimated risk of the corrected model (ROGD; Wu et al., NeurIPS 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.monitor.moments import check_identified, features_of, unbiased
from advshift.monitor.source import Batch, SourceModel
from advshift.monitor.trackers.base import State, TrackerOptions
from advshift.monitor.trackers.window import Window
from advshift.numerics.projection import project_simplex
from advshift.types import Array

__all__ = ["OnlineGradient", "Risk", "project"]

FLOOR = 0.1  # over the number of classes: the least share of a class, without which the gradient has no bound
DIAMETER = float(np.sqrt(2.0))  # of the simplex
DRAWS = 100  # random distributions at which the gradient is measured, besides the corners


class Risk:
    """The risk of the model corrected for `π`, on a target with the label distribution `q`, from the source.

    `err_y(π)` is the mean over the source's class `y` of one minus the corrected probability of `y`; it is smooth in
    `π`, and the risk `Σ_y q_y err_y(π)` is linear in `q`, so that an unbiased estimate of `q` gives an unbiased one of
    the risk and of its gradient.
    """

    def __init__(self, source: SourceModel) -> None:
        chosen = source.sample
        self.labels = source.labels[chosen]
        ratios = (
            source.means[source.predicted[chosen]] if source.rows is None else source.rows[chosen] / source.training
        )
        self.ratios = np.maximum(ratios, 1e-12)
        self.own = self.ratios[np.arange(len(chosen)), self.labels]
        self.counts = np.bincount(self.labels, minlength=len(source.classes)).astype(np.float64)

    def errors(self, prior: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """`err_y(π)` of every class."""
        right = self.own * prior[self.labels] / (self.ratios @ prior)
        return 1.0 - np.bincount(self.labels, weights=right, minlength=len(self.counts)) / self.counts

    def gradients(self, prior: Float[Array, " classes"]) -> Float[Array, "classes classes"]:
        """The gradient of every class's error, one class a column."""
        from scipy.sparse import csr_matrix

        total = self.ratios @ prior
        pulled = self.own * prior[self.labels] / total**2
        shape = (len(self.counts), len(self.labels))
        sums = csr_matrix((pulled, (self.labels, np.arange(len(self.labels)))), shape=shape) @ self.ratios
        direct = np.bincount(self.labels, weights=self.own / total, minlength=len(self.counts))
        return (sums - np.diag(direct)).T / self.counts

    def largest_gradient(self, source: SourceModel) -> float:
        """The largest gradient over the corners, the centre and random points, for any predicted class."""
        classes = len(self.counts)
        corners = np.eye(classes) * (1.0 - FLOOR) + FLOOR / classes
        draws = np.random.default_rng(0).dirichlet(np.ones(classes), DRAWS)
        points = np.concatenate([corners, np.full((1, classes), 1.0 / classes), project(draws)])
        estimates = np.linalg.inv(source.means)
        return float(max(np.linalg.norm(self.gradients(point) @ estimates, axis=0).max() for point in points))


def project(values: Float[Array, "*batch classes"]) -> Float[Array, "*batch classes"]:
    """The nearest label distribution that gives every class the least share."""
    least = FLOOR / values.shape[-1]
    nearest: Array = least + (1.0 - FLOOR) * project_simplex((values - least) / (1.0 - FLOOR))
    return nearest


class OnlineGradient(Window):
    """`π ← Proj(π - η Σ_y q̂_y ∇err_y(π))` once a round, `q̂` the unbiased estimate of that round's predictions alone.

    With a horizon of `T` rounds the step is the published `η = √(2/T)/G`, `G` the largest gradient. Without one it is
    `η_t = D/√(2 Σ_s |g_s|²)`, `D` the diameter of the simplex, whose regret `√2 D √(Σ|g|²)` is of the same order for
    every `T` and needs no `G`. The result is a distribution to correct for, not an estimate: that is the window's.
    """

    name = "rogd"

    def __init__(self, source: SourceModel, options: TrackerOptions) -> None:
        super().__init__(source, options)
        check_identified(source)
        self.risk = Risk(source)
        self.step = None if options.horizon is None else self._published_step(options.horizon)

    def _published_step(self, horizon: int) -> float:
        return float(np.sqrt(2.0 / horizon) / max(self.risk.largest_gradient(self.source), 1e-12))

    def start(self) -> State:
        """At the training mix."""
        classes = len(self.source.classes)
        online = {"prior": project(self.source.training), "squares": np.zeros(1)}
        return super().start() | online | {"sum": np.zeros(classes), "size": np.zeros(1)}

    def update(self, state: State, batch: Batch) -> State:
        """Add to the round."""
        features = features_of(batch, len(self.source.classes))
        round_ = {"sum": state["sum"] + features.sum(axis=0), "size": state["size"] + len(features)}
        return super().update(state, batch) | round_

    def close(self, state: State) -> State:
        """Take the step of the round."""
        if state["size"][0] == 0:
            return state
        estimate = unbiased(self.source, state["sum"] / state["size"][0])
        empty = {"sum": np.zeros_like(state["sum"]), "size": np.zeros(1)}
        return state | self._step(state, estimate) | empty

    def _step(self, state: State, estimate: Array) -> State:
        gradient = self.risk.gradients(state["prior"]) @ estimate
        squares = state["squares"] + gradient @ gradient
        step = DIAMETER / np.sqrt(2.0 * max(squares[0], 1e-300)) if self.step is None else self.step
        return {"prior": project(state["prior"] - step * gradient), "squares": squares}

    def adapted(self, state: State) -> Any:
        """Where the descent stands."""
        return state["prior"]
