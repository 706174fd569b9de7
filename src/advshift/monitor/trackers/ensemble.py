"""An ensemble of online gradient descents (after ATLAS; Bai, Zhang, Zhao, Sugiyama and Zhou, NeurIPS 2022)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from advshift.monitor.source import SourceModel
from advshift.monitor.trackers.base import State, TrackerOptions
from advshift.monitor.trackers.gradient import OnlineGradient, project
from advshift.types import Array

__all__ = ["OnlineEnsemble"]

HORIZON = 10_000  # rounds, where nothing else is said


class OnlineEnsemble(OnlineGradient):
    """`K = 1 + ⌈½ log₂(1 + 2T)⌉` descents with the steps `η₀ 2^i`, mixed by Hedge on their estimated risks.

    The smallest step suits a mix that stays, the largest one that moves every round; the weights `∝ exp(-ε Σ risk)`,
    `ε = 2 √(ln K/T)`, find out which it is. ATLAS moves a classifier's parameters; here the correction's distribution
    moves, as in ROGD, whose step for `T` rounds is `η₀`.
    """

    name = "atlas"

    def __init__(self, source: SourceModel, options: TrackerOptions) -> None:
        super().__init__(source, replace(options, horizon=options.horizon or HORIZON))
        rounds = options.horizon or HORIZON
        count = 1 + int(np.ceil(0.5 * np.log2(1.0 + 2.0 * rounds)))
        assert self.step is not None
        self.steps = self.step * 2.0 ** np.arange(count)
        self.rate = 2.0 * np.sqrt(np.log(count) / rounds)

    def start(self) -> State:
        """All descents at the training mix."""
        first = project(self.source.training)
        many = {"priors": np.tile(first, (len(self.steps), 1)), "losses": np.zeros(len(self.steps))}
        return super().start() | many

    def _step(self, state: State, estimate: Array) -> State:
        losses = np.array([self.risk.errors(prior) @ estimate for prior in state["priors"]])
        gradients = np.array([self.risk.gradients(prior) @ estimate for prior in state["priors"]])
        priors = project(state["priors"] - self.steps[:, None] * gradients)
        return {"priors": priors, "losses": state["losses"] + losses}

    def adapted(self, state: State) -> Any:
        """The mean of the descents, by their weights."""
        weights = np.exp(-self.rate * (state["losses"] - state["losses"].min()))
        return weights @ state["priors"] / weights.sum()
