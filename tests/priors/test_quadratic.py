from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.priors.quadratic import minimise_quadratic, tangent_inverse


def _problem(seed, classes, rank):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(rank, classes))
    return root.T @ root, generator.normal(size=classes) * 3


@given(st.integers(0, 10**6), st.integers(2, 30), st.booleans())
def test_optimality_conditions(seed, classes, simplex):
    matrix, vector = _problem(seed, classes, classes + 3)
    fit = minimise_quadratic(matrix, vector, simplex=simplex)
    gradient = matrix @ fit.point - vector
    level = gradient[fit.point > 0].mean() if simplex else 0.0
    assert fit.converged
    assert fit.point.min() >= 0
    scale = np.abs(gradient).max() + np.abs(vector).max()
    assert np.abs(gradient[fit.point > 0] - level).max(initial=0) <= 1e-8 * scale
    assert (gradient - level).min() >= -1e-8 * scale
    if simplex:
        assert fit.point.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_against_a_general_solver(seed, simplex):
    cvxpy = pytest.importorskip("cvxpy")
    matrix, vector = _problem(seed, 40, 45)
    variable = cvxpy.Variable(40, nonneg=True)
    goal = cvxpy.Minimize(0.5 * cvxpy.quad_form(variable, cvxpy.psd_wrap(matrix)) - vector @ variable)
    cvxpy.Problem(goal, [cvxpy.sum(variable) == 1] if simplex else []).solve(solver="CLARABEL")
    assert minimise_quadratic(matrix, vector, simplex=simplex).point == pytest.approx(variable.value, abs=1e-5)


def test_start_does_not_matter():
    matrix, vector = _problem(3, 50, 60)
    wanted = minimise_quadratic(matrix, vector).point
    for seed in range(5):
        start = np.random.default_rng(seed).random(50) < 0.3
        assert minimise_quadratic(matrix, vector, start=start).point == pytest.approx(wanted, abs=1e-9)


def test_singular_matrix_still_reaches_the_minimum():
    matrix, vector = _problem(5, 30, 10)
    fit = minimise_quadratic(matrix, matrix @ np.full(30, 1 / 30))
    residual = fit.point - 1 / 30
    assert residual @ matrix @ residual == pytest.approx(0, abs=1e-8)
    assert vector.shape == fit.point.shape


def test_tangent_inverse_is_the_derivative():
    matrix, vector = _problem(7, 6, 9)
    vector = matrix @ np.full(6, 1 / 6)
    change = np.random.default_rng(0).normal(size=6) * 1e-5
    moved = minimise_quadratic(matrix, vector + change).point - minimise_quadratic(matrix, vector).point
    assert moved == pytest.approx(tangent_inverse(matrix) @ change, rel=1e-4, abs=1e-10)
