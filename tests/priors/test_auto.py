"""The recommended estimator: its equation by hand, the posterior that it stands for, and its errors and intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from advshift.priors import EM, Auto


def _mixed(seed, size, prior, sharpness=1.2):
    generator = np.random.default_rng(seed)
    classes = len(prior)
    labels = generator.choice(classes, size, p=prior)
    labels[:classes] = np.arange(classes)
    points = generator.normal(size=(size, classes))
    points[np.arange(size), labels] += sharpness
    odds = np.exp(sharpness * points)
    return odds / odds.sum(axis=1, keepdims=True), labels


def test_the_rows_at_the_mode_of_the_posterior():
    """The mode over `log q` by a general solver, then Bayes' rule per row."""
    source, labels = _mixed(0, 300, np.full(4, 0.25))
    target, _ = _mixed(1, 40, np.array([0.6, 0.3, 0.05, 0.05]))
    reference = source.mean(axis=0)

    def loss(logarithms):
        prior = np.exp(logarithms - logarithms.max())
        prior /= prior.sum()
        return -np.log(target @ (prior / reference)).sum() - 4 * reference @ np.log(prior)

    mode = np.exp(minimize(loss, np.zeros(4), tol=1e-12).x)
    rows = target * (mode / reference)
    wanted = (rows / rows.sum(axis=1, keepdims=True)).mean(axis=0)
    found = Auto(calibration=None, tolerance=1e-12, covariance="none").fit(source, labels).estimate(target)
    assert found.prior == pytest.approx(wanted, abs=1e-4)


def test_sure_predictions_are_counted():
    rows = np.eye(3)[[0, 0, 0, 0, 1, 1, 2]] * (1 - 1e-9) + 1e-9 / 3
    source = np.concatenate([rows, np.eye(3)])
    found = Auto(calibration=None).fit(source, source.argmax(axis=1)).estimate(rows)
    assert found.prior == pytest.approx(np.array([4, 2, 1]) / 7, abs=1e-6)


def test_a_target_like_the_source_has_its_mix():
    source, labels = _mixed(4, 500, np.array([0.7, 0.2, 0.1]))
    estimator = Auto(calibration=None, covariance="none", tolerance=1e-12).fit(source, labels)
    assert estimator.estimate(source).prior == pytest.approx(source.mean(axis=0), abs=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_near_the_exact_posterior_of_two_classes(share):
    """The expected label frequencies under the Dirichlet prior, by summing over it."""
    grid = np.linspace(0.0005, 0.9995, 1000)
    off = {"auto": 0.0, "likeliest": 0.0}
    for seed in range(10):
        source, labels = _mixed(seed, 400, np.array([share, 1 - share]), sharpness=0.8)
        target, _ = _mixed(seed + 50, 25, np.array([0.85, 0.15]), sharpness=0.8)
        reference = source.mean(axis=0)
        odds = target / reference
        mixtures = odds[:, :1] * grid + odds[:, 1:] * (1 - grid)
        density = grid ** (2 * reference[0] - 1) * (1 - grid) ** (2 * reference[1] - 1)
        weight = density * np.exp(np.log(mixtures).sum(axis=0) - np.log(mixtures).sum(axis=0).max())
        exact = ((odds[:, :1] * grid / mixtures).mean(axis=0) * weight).sum() / weight.sum()
        found = Auto(calibration=None, covariance="none").fit(source, labels).estimate(target).prior[0]
        likeliest = EM(covariance="none").fit(source, labels).estimate(target).prior[0]
        assert abs(found - exact) < 0.04
        off["auto"] += abs(found - exact)
        off["likeliest"] += abs(likeliest - exact)
    assert off["auto"] < 0.5 * off["likeliest"]


@pytest.mark.parametrize("size", [60, 600])
def test_smaller_errors_than_the_likelihood_alone(world, size):
    errors = {"auto": 0.0, "em": 0.0, "bcts": 0.0}
    for seed in range(40):
        generator = np.random.default_rng(seed)
        source, labels = world.draw(generator, world.uniform, 300, every_class=True)
        target, truth = world.draw(generator, generator.dirichlet(np.ones(5)), size)
        share = np.bincount(truth, minlength=5) / size
        makes = {"auto": Auto(covariance="none"), "em": EM(covariance="none")}
        for name, estimator in (makes | {"bcts": EM(calibration="bcts", covariance="none")}).items():
            errors[name] += np.abs(estimator.fit(source, labels).estimate(target).prior - share).sum()
    assert errors["auto"] < 1.02 * errors["em"]
    assert errors["auto"] < 0.95 * errors["bcts"]


def test_intervals_cover_in_spite_of_the_shrinking(world):
    """Where shrinking is strongest: few rows, and a label distribution far from flat."""
    prior = np.array([0.8, 0.05, 0.05, 0.05, 0.05])
    inside = []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        source, labels = world.draw(generator, world.uniform, 500, every_class=True)
        target, _ = world.draw(generator, prior, 50)
        found = Auto().fit(source, labels).estimate(target)
        inside.append(np.abs(found.prior - prior) < 1.96 * found.standard_errors)
    assert np.mean(inside) >= 0.95


def test_a_bootstrap_leaves_the_prior_out():
    source, labels = _mixed(2, 300, np.full(3, 1 / 3))
    target, _ = _mixed(3, 30, np.array([0.8, 0.1, 0.1]))
    limit = Auto().fit(source, labels).estimate(target)
    replicated = Auto(covariance="bootstrap", replicates=60).fit(source, labels).estimate(target)
    assert replicated.prior == pytest.approx(limit.prior)
    assert replicated.standard_errors.mean() == pytest.approx(limit.standard_errors.mean(), rel=0.5)
