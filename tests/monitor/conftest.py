"""A small world in which label shift holds exactly: Gaussian classes with known posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from advshift.monitor import Batch, SourceModel, make_source

MEANS = np.array([[1.6, 0.0], [-0.8, 1.4], [-0.8, -1.4]])
TRAINING = np.array([0.5, 0.3, 0.2])
SHIFTED = np.array([0.15, 0.25, 0.6])


class World:
    """Draws from the classes, with the posterior under the training mix."""

    def draw(self, generator: np.random.Generator, prior: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = generator.choice(3, size, p=prior)
        logits = (generator.normal(size=(size, 2)) + MEANS[labels]) @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)
        odds = TRAINING * np.exp(logits)
        return odds / odds.sum(axis=1, keepdims=True), labels

    def source(self, seed: int = 0, size: int = 900, *, hard: bool = False) -> SourceModel:
        rows, labels = self.draw(np.random.default_rng(seed), TRAINING, size)
        return make_source(["a", "b", "c"], rows, labels, hard=hard)

    def batch(self, seed: int, prior: np.ndarray, size: int, *, hard: bool = False) -> Batch:
        rows, _ = self.draw(np.random.default_rng(seed), prior, size)
        return Batch(rows.argmax(axis=1), None if hard else rows)


@pytest.fixture
def world() -> World:
    return World()
