"""Exponential forgetting: every example weighs less than the next, by the same factor."""

from __future__ import annotations

import numpy as np

from advshift.monitor.moments import check_identified, features_of, from_moments
from advshift.monitor.source import Batch, SourceModel
from advshift.monitor.trackers.base import State, Tracker, TrackerOptions
from advshift.types import PriorEstimate

__all__ = ["Exponential"]


class Exponential(Tracker):
    """The estimate from weighted moments of the predictions; nothing but sums is kept.

    With weights `ω_i` the mean prediction has the covariance `Cov · Σω²/(Σω)²`, so that the moments are worth
    `(Σω)²/Σω²` examples.
    """

    name = "exponential"

    def __init__(self, source: SourceModel, options: TrackerOptions) -> None:
        super().__init__(source, options)
        check_identified(source)
        self.decay = self._decay()

    def _decay(self) -> float:
        half_life = self.options.window / 3.0 if self.options.half_life is None else self.options.half_life
        return float(0.5 ** (1.0 / half_life))

    def start(self) -> State:
        """No weight."""
        classes = len(self.source.classes)
        return {
            "first": np.zeros(classes),
            "second": np.zeros((classes, classes)),
            "weight": np.zeros(1),
            "square": np.zeros(1),
        }

    def update(self, state: State, batch: Batch) -> State:
        """Forget a little with every example."""
        size = len(batch.predicted)
        features = features_of(batch, len(self.source.classes))
        weights = self.decay ** np.arange(size - 1.0, -1.0, -1.0)
        left = self.decay**size
        return state | {
            "first": left * state["first"] + weights @ features,
            "second": left * state["second"] + (features * weights[:, None]).T @ features,
            "weight": left * state["weight"] + weights.sum(),
            "square": left**2 * state["square"] + (weights**2).sum(),
        }

    def estimate(self, state: State) -> PriorEstimate | None:
        """Of the weighted examples."""
        weight, square = float(state["weight"][0]), float(state["square"][0])
        if square == 0.0 or weight**2 / square < 2.0 - 1e-9:
            return None
        mean = state["first"] / weight
        spread = state["second"] / weight - np.outer(mean, mean)
        return from_moments(self.source, mean, spread * (square / weight**2), weight**2 / square, self.name)
