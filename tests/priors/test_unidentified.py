"""Label distributions that the predictions cannot tell apart: the covariance spans them."""

from __future__ import annotations

import numpy as np
import pytest

from advshift.priors import BBSE, EM, RLLS, Auto, KernelMeanMatching
from advshift.priors.unidentified import open_directions, wander

CONFUSED = np.array([[0.8, 0.1, 0.1], [0.1, 0.45, 0.45], [0.1, 0.45, 0.45]])


def test_a_walk_along_a_segment_is_uniform():
    """Of 0.6 that two classes share, each has anything: the mean square of a uniform distance."""
    away = wander(np.array([0.4, 0.5, 0.1]), np.array([[0.0], [1.0], [-1.0]]), 4000, 0)
    assert away[:, 0] == pytest.approx(0)
    assert away.sum(axis=1) == pytest.approx(0)
    assert away[:, 1].min() == pytest.approx(-0.5, abs=0.01)
    assert away[:, 1].max() == pytest.approx(0.1, abs=0.01)
    assert (away[:, 1] ** 2).mean() == pytest.approx((0.5**3 + 0.1**3) / (3 * 0.6), rel=0.05)


def test_a_walk_through_a_simplex_is_uniform():
    """Three classes that look alike: the flat Dirichlet distribution over their share."""
    directions = open_directions(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]))
    assert directions.shape == (4, 2)
    found = np.array([0.1, 0.9, 0.0, 0.0]) + wander(np.array([0.1, 0.9, 0.0, 0.0]), directions, 4000, 0)
    assert found.min() >= -1e-12
    assert found[:, 0] == pytest.approx(0.1)
    flat = np.random.default_rng(0).dirichlet(np.ones(3), 100_000) * 0.9
    assert found[:, 1:].mean(axis=0) == pytest.approx(0.3, abs=0.02)
    assert np.cov(found[:, 1:].T) == pytest.approx(np.cov(flat.T), abs=0.005)


def test_nothing_is_open_where_every_class_is_seen():
    assert open_directions(np.diag([0.9, 0.5, 1e-3])).shape == (3, 0)


def _look_alike(seed, prior, size):
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, size, p=prior)
    labels[:3] = np.arange(3)
    seen = generator.random((size, 1)) > CONFUSED[labels].cumsum(axis=1)
    rows = CONFUSED[seen.sum(axis=1)]
    return rows, labels


@pytest.mark.parametrize("covariance", ["asymptotic", "bootstrap"])
@pytest.mark.parametrize(
    "make",
    [
        EM,
        lambda **options: EM(calibration="bcts", **options),
        Auto,
        lambda **options: BBSE(unidentified="source", **options),
        RLLS,
        KernelMeanMatching,
    ],
)
def test_intervals_hold_every_split_of_classes_that_look_alike(make, covariance):
    rows, labels = _look_alike(0, np.full(3, 1 / 3), 900)
    target, _ = _look_alike(1, np.array([0.4, 0.5, 0.1]), 400)
    estimator = make(covariance=covariance, **({"replicates": 100} if covariance == "bootstrap" else {}))
    found = estimator.fit(rows, labels).estimate(target)
    errors = found.standard_errors
    for second in (0.0, 0.3, 0.6):
        split = np.array([0.4, second, 0.6 - second])
        assert (np.abs(found.prior - split)[1:] < 2.3 * errors[1:]).all()
    assert errors[0] < 0.08
    assert abs(found.prior[0] - 0.4) < 3 * errors[0]
