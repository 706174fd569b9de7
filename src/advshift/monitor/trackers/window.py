"""A sliding window: the last examples, estimated afresh by any estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from advshift.errors import InputError
from advshift.monitor.moments import check_identified, features_of, from_moments
from advshift.monitor.source import Batch, SourceModel
from advshift.monitor.trackers.base import State, Tracker, TrackerOptions
from advshift.priors import ESTIMATORS
from advshift.types import PriorEstimate

__all__ = ["Window"]


class Window(Tracker):
    """The estimate from the last `window` examples, each with the same weight.

    `bbse` solves for the mix from the window's mean prediction; every other estimator is fitted on the source once.
    """

    name = "window"

    def __init__(self, source: SourceModel, options: TrackerOptions) -> None:
        super().__init__(source, options)
        kind = ESTIMATORS[options.estimator]
        self._estimator: Any = None
        if options.estimator == "bbse" and options.calibration is None:
            check_identified(source)
            return
        if source.rows is None:
            raise InputError(
                f"the estimator {options.estimator!r} needs probabilities, and there are only predicted classes; "
                "leave --estimator and --calibration out"
            )
        chosen: dict[str, Any] = {}  # without a word, the estimator has its own
        if options.calibration is not None:
            chosen["calibration"] = options.calibration
        self._estimator = kind(**chosen).fit(source.rows, source.labels)

    def start(self) -> State:
        """No example."""
        empty: State = {"predicted": np.zeros(0, dtype=np.int64)}
        return empty if self.source.hard else empty | {"rows": np.zeros((0, len(self.source.classes)))}

    def update(self, state: State, batch: Batch) -> State:
        """Keep the last examples."""
        kept = {"predicted": np.concatenate([state["predicted"], batch.predicted])[-self.options.window :]}
        if not self.source.hard:
            kept["rows"] = np.concatenate([state["rows"], batch.rows])[-self.options.window :]
        return state | kept

    def estimate(self, state: State) -> PriorEstimate | None:
        """Of the examples in the window."""
        held = Batch(state["predicted"], state.get("rows"))
        size = len(held.predicted)
        if size < 2:
            return None
        if self._estimator is not None:
            found: PriorEstimate = self._estimator.estimate(held.rows)
            return found
        features = features_of(held, len(self.source.classes))
        mean = features.mean(axis=0)
        covariance = (features.T @ features / size - np.outer(mean, mean)) / size
        return from_moments(self.source, mean, covariance, size, "bbse")
