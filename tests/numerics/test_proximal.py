"""The mirror step and the exact proximal step, against SciPy's minimiser and in their three cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr, softmax

from advshift.numerics import exact_proximal_step, mirror_step


def _objective(q, pi, p, g, step, penalty, radius):
    inside = rel_entr(q, p).sum(-1) - radius
    return q @ g - penalty * np.maximum(0, inside) - rel_entr(q, pi).sum(-1) / (2 * step)


@given(
    st.integers(2, 30),
    st.integers(0, 10**6),
    st.sampled_from([1e-3, 0.05, 1.0]),
    st.sampled_from([0.0, 0.1, 1.0, 100.0]),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0, np.inf]),
)
def test_nothing_near_is_better(classes, seed, step, penalty, radius) -> None:
    rng = np.random.default_rng(seed)
    pi, p, g = rng.dirichlet(np.ones(classes)), rng.dirichlet(np.full(classes, 5.0)), rng.normal(size=classes)
    found = exact_proximal_step(np.log(pi), np.log(p), g, step, penalty, radius)
    q = np.exp(found.log_weights)
    assert bool(found.converged)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert 0 <= found.penalty <= 2 * penalty * step * (1 + 1e-12)
    if 0 < found.penalty < 2 * penalty * step * (1 - 1e-12):
        assert found.divergence == pytest.approx(radius, rel=1e-7, abs=1e-14)
    best = _objective(q, pi, p, g, step, penalty, radius)
    for size in (1e-1, 1e-3, 1e-5):
        others = softmax(found.log_weights + size * rng.normal(size=(50, classes)), axis=-1)
        others = np.concatenate([others, q + size * (np.stack([p, pi]) - q)])
        assert (_objective(others, pi, p, g, step, penalty, radius) <= best + 1e-12).all()


@pytest.mark.parametrize(("radius", "case"), [(1.0, "inside"), (1e-3, "outside"), (0.04, "between")])
def test_agrees_with_scipy(radius: float, case: str) -> None:
    pi, p, g = np.array([0.3, 0.3, 0.4]), np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0])
    step, penalty = 0.05, 40.0 if case == "between" else 2.0
    found = exact_proximal_step(np.log(pi), np.log(p), g, step, penalty, radius)
    full = 2 * penalty * step
    alpha, end = float(found.penalty), full * (1 - 1e-9)
    assert {"inside": alpha == 0, "outside": alpha >= end, "between": 0 < alpha < end}[case]
    best = minimize(
        lambda z: -_objective(softmax([*z, 0.0]), pi, p, g, step, penalty, radius),
        [0.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 4000},
    )
    np.testing.assert_allclose(np.exp(found.log_weights), softmax([*best.x, 0.0]), atol=1e-6)


@given(st.integers(1, 20), st.integers(0, 10**6), st.floats(0, 10), st.floats(0, 5))
@settings(max_examples=50)
def test_mirror_step_is_its_formula(classes, seed, step_size, penalty) -> None:
    rng = np.random.default_rng(seed)
    pi, p, g = rng.dirichlet(np.ones(classes)), rng.dirichlet(np.ones(classes)), rng.normal(size=classes)
    exact = (np.log(pi) + penalty * np.log(p)) / (1 + penalty) + step_size * g
    found = mirror_step(np.log(pi), np.log(p), g, step_size, penalty)
    np.testing.assert_allclose(found, exact - logsumexp(exact), atol=1e-11)


def test_mirror_step_at_a_fixed_penalty_is_proximal() -> None:
    pi, p, g = np.array([0.3, 0.3, 0.4]), np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0])
    found = exact_proximal_step(np.log(pi), np.log(p), g, step=0.05, penalty=2.0, radius=1e-3)
    alpha = 2 * 2.0 * 0.05
    np.testing.assert_allclose(found.log_weights, mirror_step(np.log(pi), np.log(p), g, 2 * 0.05 / (1 + alpha), alpha))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_class_without_mass_gets_none(library: str, penalty: float) -> None:
    with np.errstate(divide="ignore"):
        log_pi, log_p = np.log([0.5, 0.3, 0.0, 0.2]), np.log([0.5, 0.0, 0.2, 0.3])
    g = np.array([0.0, 50.0, np.nan, 1.0])
    if library == "torch":
        log_pi, log_p, g = (torch.from_numpy(array) for array in (log_pi, log_p, g))
    for radius in (0.0, 0.5, 10.0):
        exact = exact_proximal_step(log_pi, log_p, g, 0.5, penalty, radius)
        mirrored = mirror_step(log_pi, log_p, g, 0.5, penalty)
        for log_weights in (exact.log_weights, mirrored):
            weights = np.exp(np.asarray(log_weights))
            assert weights[1] == weights[2] == 0
            assert weights.sum() == pytest.approx(1)
        assert np.isfinite(float(exact.divergence))


def test_batches_radii_torch_and_float32() -> None:
    rng = np.random.default_rng(0)
    log_pi, log_p, g = (np.log(rng.dirichlet(np.ones(6), n)) for n in (3, 1, 3))
    radii = np.array([[0.001], [0.2], [5.0]])
    exact = exact_proximal_step(log_pi, log_p, g, 0.3, 5.0, radii)
    for row in range(3):
        single = exact_proximal_step(log_pi[row], log_p[0], g[row], 0.3, 5.0, float(radii[row, 0]))
        np.testing.assert_allclose(exact.log_weights[row], single.log_weights, atol=1e-10)
    for dtype, atol in ((torch.float64, 1e-10), (torch.float32, 2e-5)):
        arguments = [torch.tensor(array, dtype=dtype) for array in (log_pi, log_p, g)]
        found = exact_proximal_step(*arguments, 0.3, 5.0, torch.tensor(radii, dtype=dtype), steps=12)
        assert found.log_weights.dtype == found.divergence.dtype == found.penalty.dtype == dtype
        assert bool(found.converged.all())
        np.testing.assert_allclose(found.log_weights, exact.log_weights, atol=atol)
