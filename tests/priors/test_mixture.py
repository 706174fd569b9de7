from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.priors.mixture import Mixture, maximise_mixture


def _rows(seed, size, classes, sharpness=2.0):
    generator = np.random.default_rng(seed)
    odds = np.exp(generator.normal(size=(size, classes)) * sharpness)
    reference = generator.dirichlet(np.full(classes, 3.0))
    return odds / odds.sum(axis=1, keepdims=True), reference


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 60), st.booleans())
def test_certificate_and_monotone_values(seed, classes, size, pulled):
    rows, reference = _rows(seed, size, classes)
    pseudo = np.full(classes, 0.2 / classes) if pulled else None
    mixture = Mixture(rows, reference, pseudo=pseudo)
    fit = maximise_mixture(mixture, reference, tolerance=1e-9)
    assert fit.converged
    assert fit.prior.min() >= 0
    assert fit.prior.sum() == pytest.approx(1, abs=1e-12)
    assert np.diff(fit.values).min(initial=0) >= -1e-13 * (1 + abs(fit.value))
    for other in np.random.default_rng(seed).dirichlet(np.ones(classes), size=5):
        assert mixture.evaluate(other)[0] <= fit.value + fit.gap + 1e-12


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_gradient_and_curvature(seed, classes):
    rows, reference = _rows(seed, 20, classes)
    mixture = Mixture(rows, reference, pseudo=np.full(classes, 0.01))
    prior = np.random.default_rng(seed + 1).dirichlet(np.full(classes, 5.0)) * 0.9 + 0.1 / classes
    value, gradient = mixture.evaluate(prior)
    assert prior @ gradient == pytest.approx(1)
    step = 1e-6
    for index in range(classes):
        moved = prior + step * np.eye(classes)[index]
        later, slope = mixture.evaluate(moved)
        assert (later - value) / step == pytest.approx(gradient[index], rel=1e-3)
        assert (gradient - slope) / step == pytest.approx(mixture.curvature(prior)[index], rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("pulled", [False, True])
def test_against_a_general_maximiser(pulled):
    cvxpy = pytest.importorskip("cvxpy")
    rows, reference = _rows(11, 300, 8)
    pseudo = np.full(8, 0.05 / 8) if pulled else np.zeros(8)
    fit = maximise_mixture(Mixture(rows, reference, pseudo=pseudo), reference, tolerance=1e-12)
    variable = cvxpy.Variable(8, nonneg=True)
    data = cvxpy.sum(cvxpy.log((rows / reference) @ variable)) * (1 - pseudo.sum()) / 300
    goal = data + pseudo @ cvxpy.log(variable) if pulled else data
    problem = cvxpy.Problem(cvxpy.Maximize(goal), [cvxpy.sum(variable) == 1])
    problem.solve(solver="CLARABEL")
    assert fit.value == pytest.approx(problem.value, abs=1e-7)
    assert fit.value >= problem.value - 1e-8
    assert fit.prior == pytest.approx(variable.value, abs=1e-4)


def test_many_classes_agree_with_plain_em():
    """Above 128 classes the search extrapolates EM first and takes a curvature in single precision."""
    rows, reference = _rows(2, 3000, 150, sharpness=4.0)
    mixture = Mixture(rows, reference)
    fit = maximise_mixture(mixture, reference, tolerance=1e-9)
    prior = reference.copy()
    for _ in range(3000):
        prior = prior * mixture.evaluate(prior)[1]
    assert fit.converged
    assert fit.gap <= 1e-9
    assert fit.value >= mixture.evaluate(prior)[0] - 1e-9
    assert np.abs(fit.prior - prior).sum() < 1e-2


def test_weights_are_repetitions():
    rows, reference = _rows(4, 50, 4)
    times = np.random.default_rng(0).integers(1, 4, size=50)
    weighted = maximise_mixture(Mixture(rows, reference, weights=times.astype(float)), reference)
    repeated = maximise_mixture(Mixture(np.repeat(rows, times, axis=0), reference), reference)
    assert weighted.prior == pytest.approx(repeated.prior, abs=1e-6)


def test_single_precision_rows_are_not_copied():
    rows, reference = _rows(5, 400, 6)
    narrow = rows.astype(np.float32)
    mixture = Mixture(narrow, reference)
    assert np.shares_memory(mixture.rows, narrow)
    wide = maximise_mixture(Mixture(rows, reference), reference).prior
    assert maximise_mixture(mixture, reference).prior == pytest.approx(wide, abs=1e-4)


def test_fewer_rows_than_classes_take_no_longer():
    """The curvature is singular: many distributions are as likely, and the quadratic model alone leads nowhere."""
    odds = np.exp(3.0 * (np.random.default_rng(0).standard_normal((75, 150)) + 3.0 * np.eye(75, 150)))
    rows, uniform = odds / odds.sum(axis=1, keepdims=True), np.full(150, 1.0 / 150)
    fit = maximise_mixture(Mixture(rows, uniform), uniform)
    assert fit.converged
    assert fit.iterations < 100
