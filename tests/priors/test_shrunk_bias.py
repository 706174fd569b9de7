"""Shrunk biases: an independent solver, numeric derivatives, and simulations in which the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from advshift.priors import BiasCorrectedTemperature, ShrunkBias
from advshift.priors.shrunk_bias import _prepare, maximise_penalised, penalty_free_loss


def _softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _biased(seed, size, bias, scale=1.0, prior=None):
    """Labels from the posterior of noisy classes, and that posterior distorted by `softmax((z - bias) / scale)`."""
    generator = np.random.default_rng(seed)
    classes = len(bias)
    labels = generator.choice(classes, size, p=prior)
    labels[:classes] = np.arange(classes)
    points = generator.normal(size=(size, classes))
    points[np.arange(size), labels] += 2.0
    logits = 2.0 * points + (0.0 if prior is None else np.log(prior))
    return _softmax((logits - bias) / scale), labels


def test_derivatives_against_differences():
    rows, labels = _biased(0, 120, np.array([0.5, -0.5, 0.2, -0.2]))
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 120)
    data = _prepare(rows, labels, weights)
    point = np.array([0.8, 0.4, 0.3, -0.1, 0.2, 0.0])
    loss = penalty_free_loss(data, point)

    def value(step):
        return penalty_free_loss(data, point + step).value

    steps = 1e-4 * np.eye(6)
    numeric = np.array([(value(step) - value(-step)) / 2e-4 for step in steps])
    second = np.array([(value(step) - 2 * loss.value + value(-step)) / 1e-8 for step in steps])
    assert loss.gradient == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    assert loss.curvature == pytest.approx(second[2:], rel=1e-3)


@pytest.mark.parametrize("strength", [0.5, 20.0, None])
def test_penalised_likelihood_against_a_convex_solver(strength):
    cvxpy = pytest.importorskip("cvxpy")
    rows, labels = _biased(2, 80, np.array([0.6, -0.3, -0.3]), prior=np.array([0.6, 0.3, 0.1]))
    data = _prepare(rows, labels, None)
    found, _, converged = maximise_penalised(data, strength, np.array([1.0, 0.0, 0.0, 0.0, 0.0]))
    scale, slope, deviations = cvxpy.Variable(), cvxpy.Variable(), cvxpy.Variable(3)
    bias = slope * data.tilt + deviations
    scores = scale * data.logits + np.ones((80, 1)) @ cvxpy.reshape(bias, (1, 3), order="C")
    chosen = cvxpy.sum(cvxpy.multiply(np.eye(3)[labels], scores))
    penalty = 0.5 * cvxpy.square(slope) + 0.5 * (strength or 0.0) * cvxpy.sum_squares(deviations)
    limits = [deviations == 0] if strength is None else []
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.log_sum_exp(scores, axis=1)) - chosen + penalty), limits).solve(
        solver="CLARABEL"
    )
    assert converged
    assert found[0] == pytest.approx(float(scale.value), abs=1e-3)
    assert found[1] * data.tilt + found[2:] == pytest.approx(bias.value, abs=1e-3)


def test_large_biases_are_found_as_by_bcts():
    bias = np.linspace(-2, 2, 6)
    rows, labels = _biased(3, 20000, bias, scale=0.7)
    shrunk = ShrunkBias().fit(rows, labels)
    plain = BiasCorrectedTemperature().fit(rows, labels)
    assert shrunk.converged
    assert shrunk.scale == pytest.approx(plain.scale, abs=0.01)
    assert shrunk.bias - shrunk.bias.mean() == pytest.approx(plain.bias, abs=0.03)


def test_no_biases_are_invented():
    """Calibrated rows, few of them: the biases stay below those that a fit of each would take."""
    shrunk, plain = 0.0, 0.0
    for seed in range(10):
        rows, labels = _biased(seed, 200, np.zeros(10))
        shrunk += (ShrunkBias().fit(rows, labels).bias ** 2).sum()
        plain += (BiasCorrectedTemperature().fit(rows, labels).bias ** 2).sum()
    assert shrunk < 0.4 * plain


def test_strength_is_that_of_the_simulation():
    found = []
    for seed in range(4):
        bias = np.random.default_rng(seed).normal(scale=0.5, size=60)
        found.append(ShrunkBias().fit(*_biased(seed, 6000, bias)).strength)
    assert np.median(found) == pytest.approx(1 / 0.25, rel=0.4)


def test_a_bias_that_follows_the_frequencies_costs_one_parameter():
    prior = 0.8 ** np.arange(20)
    prior /= prior.sum()
    rows, labels = _biased(5, 3000, 0.5 * np.log(prior), prior=prior)
    fitted = ShrunkBias().fit(rows, labels)
    slope = np.polyfit(np.log(prior), fitted.bias, 1)[0]
    assert slope == pytest.approx(0.5, abs=0.1)
    assert np.isinf(fitted.strength) or fitted.strength > 20


def test_weights_are_repetitions_and_a_second_fit_agrees():
    rows, labels = _biased(6, 400, np.array([1.0, 0.0, -1.0]))
    times = np.random.default_rng(0).integers(1, 4, size=400)
    repeated = ShrunkBias().fit(np.repeat(rows, times, axis=0), np.repeat(labels, times))
    weighted = ShrunkBias().fit(rows, labels, times.astype(float))
    assert weighted.scale == pytest.approx(repeated.scale, rel=0.03)  # the prior weighs more against fewer rows
    assert weighted.bias == pytest.approx(repeated.bias, abs=0.05)
    once = weighted.scale
    assert weighted.fit(rows, labels, times.astype(float)).scale == pytest.approx(once, rel=1e-3)
