"""A known world, in which the posterior is exact, and real predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest


@dataclass
class Gaussians:
    """Classes with unit covariance around known means: the posterior under a label distribution is a formula."""

    means: np.ndarray

    @property
    def uniform(self) -> np.ndarray:
        return np.full(len(self.means), 1.0 / len(self.means))

    def draw(self, generator, prior, size, *, every_class=False):
        labels = generator.choice(len(self.means), size, p=prior)
        if every_class:
            labels[: len(self.means)] = np.arange(len(self.means))
        points = generator.normal(size=(size, self.means.shape[1])) + self.means[labels]
        return self.posterior(points, self.uniform), labels

    def posterior(self, points, prior):
        logits = points @ self.means.T - 0.5 * (self.means**2).sum(axis=1) + np.log(prior)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


@pytest.fixture(scope="session")
def world() -> Gaussians:
    return Gaussians(np.random.default_rng(1).normal(size=(5, 4)) * 1.6)


@pytest.fixture(scope="session")
def digits():
    """Cross-validated probabilities of a logistic regression on the digits, with their labels."""
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    images, labels = datasets.load_digits(return_X_y=True)
    noisy = images / 16.0 + np.random.default_rng(0).normal(scale=0.3, size=images.shape)
    model = LogisticRegression(C=0.1, max_iter=500)
    return cross_val_predict(model, noisy, labels, cv=3, method="predict_proba"), labels
