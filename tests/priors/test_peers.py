"""Equality with published packages where they compute the same; skipped where they are not installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from advshift.priors import BBSE, CALIBRATIONS, EM


@pytest.fixture(scope="module")
def sample():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(3000, 5)) * 1.5
    odds = np.exp(logits)
    rows = odds / odds.sum(axis=1, keepdims=True)
    labels = (generator.random((3000, 1)) > rows.cumsum(axis=1)).sum(axis=1)
    weights = np.array([0.1, 0.2, 0.5, 1.0, 0.6])[labels]
    chosen = generator.choice(3000, 1500, p=weights / weights.sum())
    return rows, labels, rows[chosen]


def _import(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, exc_type=ImportError)


def test_quapy_expectation_maximisation(sample):
    aggregative = _import("quapy.method.aggregative")
    rows, labels, target = sample
    ours = EM(source_prior="counted", tolerance=1e-12, covariance="none").fit(rows, labels).estimate(target)
    theirs, _ = aggregative.EMQ.EM(np.bincount(labels) / len(labels), target, epsilon=1e-9)
    assert ours.prior == pytest.approx(theirs, abs=1e-6)


def test_mlquantify_expectation_maximisation(sample):
    likelihood = _import("mlquantify.likelihood")
    rows, labels, target = sample
    share = np.bincount(labels) / len(labels)
    ours = EM(source_prior="counted", tolerance=1e-12, covariance="none").fit(rows, labels).estimate(target)
    theirs, _ = likelihood.EMQ.EM(target, share, tolerance=1e-10, max_iter=5000)
    assert ours.prior == pytest.approx(np.asarray(theirs), abs=1e-5)


@pytest.mark.parametrize("predictions", ["hard", "soft"])
def test_abstention_black_box_weights(sample, predictions):
    label_shift = _import("abstention.label_shift")
    rows, labels, target = sample
    adapter = label_shift.BBSEImbalanceAdapter(soft=predictions == "soft")
    theirs = adapter(np.eye(5)[labels], target, rows).multipliers
    ours = BBSE(predictions=predictions, covariance="none").fit(rows, labels).estimate(target)
    assert ours.weights == pytest.approx(theirs, rel=1e-6)


def test_abstention_expectation_maximisation(sample):
    label_shift = _import("abstention.label_shift")
    rows, labels, target = sample
    adapter = label_shift.EMImbalanceAdapter(tolerance=1e-10, max_iterations=5000)
    theirs = adapter(tofit_initial_posterior_probs=target, valid_posterior_probs=rows, valid_labels=np.eye(5)[labels])
    ours = EM(tolerance=1e-12, covariance="none").fit(rows, labels).estimate(target)
    assert ours.weights == pytest.approx(theirs.multipliers, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "factory", "options"),
    [
        ("temperature", "TempScaling", {}),
        ("bcts", "TempScaling", {"bias_positions": "all"}),
        ("vector", "VectorScaling", {}),
        ("vector-no-bias", "NoBiasVectorScaling", {}),
    ],
)
def test_abstention_calibration(sample, name, factory, options):
    calibration = _import("abstention.calibration")
    rows, labels, target = sample
    rows, target = (sharp / sharp.sum(axis=1, keepdims=True) for sharp in (rows**2, target**2))
    theirs = getattr(calibration, factory)(**options)(rows, np.eye(5)[labels], posterior_supplied=True)
    ours = CALIBRATIONS[name]().fit(rows, labels)
    assert ours(target) == pytest.approx(theirs(target), abs=2e-3)
    likelihoods = [np.log(form(rows)[np.arange(3000), labels]).mean() for form in (ours, theirs)]
    assert likelihoods[0] >= likelihoods[1] - 1e-9
