from __future__ import annotations

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.priors import CALIBRATIONS, EM, BiasCorrectedTemperature, Temperature
from advshift.priors.calibration import log_probabilities


def _softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _miscalibrated(seed, size=4000, classes=4):
    """Labels drawn from softmax(z), and the overconfident, biased softmax(2z + b)."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(size, classes))
    labels = (generator.random((size, 1)) > _softmax(logits).cumsum(axis=1)).sum(axis=1)
    bias = np.linspace(-0.5, 0.5, classes)
    return _softmax(2 * logits + bias), labels, bias


def _loss(rows, labels):
    return -np.log(rows[np.arange(len(labels)), labels]).mean()


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_gain_and_normalisation(name):
    rows, labels, _ = _miscalibrated(0)
    fitted = CALIBRATIONS[name]().fit(rows, labels)
    calibrated = fitted(rows)
    assert fitted.converged
    assert _loss(calibrated, labels) < _loss(rows, labels)
    assert calibrated.sum(axis=1) == pytest.approx(1)
    assert fitted(rows.astype(np.float32)).dtype == np.float32


def test_bias_corrected_temperature_finds_the_truth():
    rows, labels, bias = _miscalibrated(1, size=40000)
    fitted = BiasCorrectedTemperature().fit(rows, labels)
    assert fitted.scale == pytest.approx(0.5, abs=0.03)
    assert fitted.bias == pytest.approx(-bias / 2, abs=0.05)
    assert fitted(rows).mean(axis=0) == pytest.approx(np.bincount(labels) / len(labels), abs=1e-5)


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_gradient_of_the_loss(name):
    rows, labels, _ = _miscalibrated(2, size=200)
    form = CALIBRATIONS[name]()
    scales = 4 if form.per_class else 1
    point = np.random.default_rng(0).uniform(0.5, 1.5, size=scales + (4 if form.biased else 0))
    share, logits = np.full(200, 1 / 200), log_probabilities(rows)
    _, gradient = form._loss(point, logits, labels, share, scales)
    numeric = [
        (
            form._loss(point + step, logits, labels, share, scales)[0]
            - form._loss(point - step, logits, labels, share, scales)[0]
        )
        / 2e-6
        for step in 1e-6 * np.eye(len(point))
    ]
    assert gradient == pytest.approx(np.array(numeric), abs=1e-6)


def test_weights_are_repetitions():
    rows, labels, _ = _miscalibrated(3, size=300)
    times = np.random.default_rng(0).integers(1, 4, size=300)
    weighted = Temperature().fit(rows, labels, times.astype(float))
    repeated = Temperature().fit(np.repeat(rows, times, axis=0), np.repeat(labels, times))
    assert weighted.scale == pytest.approx(repeated.scale, rel=1e-4)


def test_zeros_survive():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(Temperature().fit(rows, np.array([0, 1, 1, 0]))(rows)).all()


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="unknown calibration 'platt'"):
        EM(calibration="platt")


def test_calibration_repairs_em(world):
    """Sharpened probabilities mislead EM; calibrated ones do not."""
    prior = np.array([0.4, 0.25, 0.2, 0.1, 0.05])

    def sharpen(rows):
        return rows**3 / (rows**3).sum(axis=1, keepdims=True)

    errors = {None: 0.0, "bcts": 0.0}
    for seed in range(5):
        generator = np.random.default_rng(seed)
        source, labels = world.draw(generator, world.uniform, 4000)
        target, _ = world.draw(generator, prior, 4000)
        for name in errors:
            estimator = EM(calibration=name, covariance="none").fit(sharpen(source), labels)
            errors[name] += np.abs(estimator.estimate(sharpen(target)).prior - prior).sum()
    assert errors["bcts"] < 0.8 * errors[None]
