"""The projections: against CVXPY, by their optimality conditions, by the laws that every projection obeys."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, wrightomega

from advshift.errors import InputError
from advshift.numerics import divergence, project_kl_ball, project_simplex
from advshift.sets import KLBall

RADII = (1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99)


def _instance(classes: int, seed: int, concentration: float = 1.0, size: float = 1.0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, concentration)) + 1e-12
    p = p / p.sum()
    return p, size * rng.normal(size=classes) + p


def _radius(v: np.ndarray, p: np.ndarray, share: float) -> float:
    return share * float(rel_entr(project_simplex(v), p).sum())


def _check_optimality(v: np.ndarray, p: np.ndarray, radius: float, found) -> None:
    """Feasible, and no point of the ball lies further along `v - q`: that is what makes `q` the projection."""
    q = found.distribution
    assert bool(found.converged)
    assert (q >= 0).all()
    assert abs(q.sum() - 1) <= 1e-9
    assert rel_entr(q, p).sum() <= radius + 1e-9
    support = np.ptp(v) + 1
    gap = float(KLBall(radius).worst_case(v - q, p).value) - q @ (v - q)
    assert gap <= 1e-9 * support
    stationary = wrightomega(np.log(p / found.multiplier) + (v - found.threshold) / found.multiplier)
    np.testing.assert_allclose(q, found.multiplier * stationary, atol=1e-9 * support)


instances = st.tuples(
    st.integers(2, 200),
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.0, 30.0]),
    st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
)


@given(instances, st.sampled_from(RADII[1:]))
def test_feasible_and_optimal(instance, share: float) -> None:
    p, v = _instance(*instance)
    radius = _radius(v, p, share)
    if radius > 1e-12:
        _check_optimality(v, p, radius, project_kl_ball(v, p, radius))


@pytest.mark.parametrize("radius", RADII)
def test_ten_thousand_classes(radius: float) -> None:
    p, v = _instance(10_000, 5, size=0.01)
    found = project_kl_ball(v, p, radius)
    _check_optimality(v, p, radius, found)
    assert float(divergence("kl", found.distribution, p)) == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("classes", [2, 10, 100, 300])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_agrees_with_cvxpy(classes: int, share: float) -> None:
    p, v = _instance(classes, classes, concentration=3.0, size=0.3)
    radius = _radius(v, p, share)
    q = cp.Variable(classes, nonneg=True)
    constraints = [cp.sum(q) == 1, cp.sum(cp.kl_div(q, p)) <= radius]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(q - v)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    found = project_kl_ball(v, p, radius)
    assert float(found.value) == pytest.approx(problem.value, abs=1e-9)
    np.testing.assert_allclose(found.distribution, q.value, atol=2e-5)


@given(instances, st.sampled_from(RADII[2:]))
@settings(max_examples=50)
def test_laws_of_a_projection(instance, share: float) -> None:
    p, v = _instance(*instance)
    radius = _radius(v, p, share)
    rng = np.random.default_rng(instance[1])
    other = v + rng.normal(size=len(v)) * 0.1
    q, r = (project_kl_ball(x, p, radius).distribution for x in (v, other))
    assert np.linalg.norm(q - r) <= np.linalg.norm(v - other) + 1e-9
    assert (q - r) @ (v - other) >= (q - r) @ (q - r) - 1e-9
    np.testing.assert_allclose(project_kl_ball(q, p, radius).distribution, q, atol=1e-7)
    order = rng.permutation(len(v))
    np.testing.assert_allclose(project_kl_ball(v[order], p[order], radius).distribution, q[order], atol=1e-9)
    np.testing.assert_allclose(project_kl_ball(v + 7.0, p, radius).distribution, q, atol=1e-9)


def test_multiplier_is_the_price_of_the_radius() -> None:
    p, v = _instance(20, 3)
    low, middle, high = (project_kl_ball(v, p, 0.2 + h) for h in (-1e-5, 0.0, 1e-5))
    assert float(low.value - high.value) / 2e-5 == pytest.approx(float(middle.multiplier), rel=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_edges(library: str) -> None:
    p, v = np.array([0.2, 0.3, 0.5, 0.0]), np.array([0.9, 0.3, 0.1, 5.0])
    if library == "torch":
        p, v = torch.from_numpy(p), torch.from_numpy(v)
    found = project_kl_ball(v, p, [0.0, 1e-12, 0.1, 0.8, np.inf])
    q = np.asarray(found.distribution)
    assert bool(found.converged.all())
    assert (q[:, 3] == 0).all()
    np.testing.assert_allclose(q[0], p, atol=1e-16)
    assert 0 < float(np.abs(q[1] - np.asarray(p)).max()) < 1e-6
    assert rel_entr(q[1], np.asarray(p)).sum() == pytest.approx(1e-12, rel=1e-3)
    np.testing.assert_allclose(q[4], [0.8, 0.2, 0.0, 0.0], atol=1e-15)
    assert found.multiplier[0] == np.inf
    assert found.multiplier[4] == 0
    assert (np.diff(np.asarray(found.value)) < 0).all()


def test_one_class_and_equal_values() -> None:
    assert project_kl_ball([7.0], [1.0], 0.1).distribution.tolist() == [1.0]
    p = np.array([0.25, 0.75])
    inside = project_kl_ball(p + 3.0, p, 0.1)
    np.testing.assert_allclose(inside.distribution, p, atol=1e-15)
    assert inside.multiplier == 0


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1e6, 1e150, 1e300])
def test_magnitudes(size: float) -> None:
    p = np.array([0.1, 0.2, 0.3, 0.4])
    v = size * np.array([1.0, -0.5, 0.25, 0.0])
    with np.errstate(over="ignore"):
        found = project_kl_ball(v, p, 0.1)
    assert bool(found.converged)
    if size > 1:  # the quadratic no longer counts: the projection is the worst case for v
        np.testing.assert_allclose(found.distribution, KLBall(0.1).worst_case(v, p).distribution, atol=2 / size + 1e-12)
    else:
        np.testing.assert_allclose(found.distribution, project_kl_ball(np.zeros(4), p, 0.1).distribution, atol=1e-11)


def test_leading_axes_broadcast_as_single_problems() -> None:
    rng = np.random.default_rng(2)
    v, p, radii = rng.normal(size=(5, 8)), rng.dirichlet(np.ones(8), 5), np.array([[0.0], [0.01], [0.3], [9.0]])
    batch = project_kl_ball(v, p, radii)
    assert batch.distribution.shape == (4, 5, 8)
    for i, j in np.ndindex(4, 5):
        single = project_kl_ball(v[j], p[j], radii[i, 0])
        np.testing.assert_allclose(batch.distribution[i, j], single.distribution, atol=1e-12)
        np.testing.assert_allclose(batch.multiplier[i, j], single.multiplier, rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_eager_is_numpy(dtype: torch.dtype) -> None:
    p, v = _instance(50, 4)
    exact = project_kl_ball(v, p, 0.2)
    found = project_kl_ball(torch.tensor(v, dtype=dtype), torch.tensor(p, dtype=dtype), 0.2)
    assert found.distribution.dtype == found.value.dtype == dtype
    assert found.converged.dtype == torch.bool
    atol = 1e-6 if dtype == torch.float32 else 1e-13
    np.testing.assert_allclose(found.distribution, exact.distribution, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fixed_count_agrees(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(6)
    v, p, radii = rng.normal(size=(4, 12)), rng.dirichlet(np.ones(12)), np.array([1e-3, 0.1, 0.5, 50.0])
    exact = project_kl_ball(v, p, radii)
    found = project_kl_ball(*[torch.tensor(array, dtype=dtype) for array in (v, p, radii)], steps=12)
    assert bool(found.converged.all())
    atol = 1e-5 if dtype == torch.float32 else 1e-11
    np.testing.assert_allclose(found.distribution, exact.distribution, atol=atol)


@given(instances)
def test_simplex_is_optimal(instance) -> None:
    _, v = _instance(*instance)
    q = project_simplex(v)
    assert (q >= 0).all()
    assert q.sum() == pytest.approx(1, abs=1e-12)
    # the variational inequality at the simplex's corners
    assert (v - q).max() - (v - q) @ q <= 1e-12 * (1 + np.abs(v).max())
    np.testing.assert_allclose(project_simplex(q), q, atol=1e-14)


def test_simplex_in_batches_on_torch_and_through_autograd() -> None:
    rng = np.random.default_rng(3)
    v = rng.normal(size=(4, 3, 9))
    q = project_simplex(v)
    np.testing.assert_allclose(q[2, 1], project_simplex(v[2, 1]), atol=1e-15)
    np.testing.assert_allclose(project_simplex(torch.from_numpy(v)), q, atol=1e-15)
    tensor = torch.tensor([0.5, 0.6, -2.0], requires_grad=True, dtype=torch.float64)
    project_simplex(tensor)[0].backward()
    np.testing.assert_allclose(tensor.grad, [0.5, -0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(project_simplex([1e300, -1e300, 1e300]), [0.5, 0.0, 0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [0.5, 0.6], 0.1), "the reference must be a distribution; its sum is 0.1 away"),
        (([1.0, 2.0], [0.5, 0.5], -0.1), "the radius must be a number from 0 up"),
        (([1.0, 2.0], [0.5, 0.5], np.nan), "the radius must be a number from 0 up"),
        (([1.0, 2.0, 3.0], [0.5, 0.5], 0.1), r"got shapes \(3,\) and \(2,\)"),
        (([1.0, np.nan], [0.5, 0.5], 0.1), "values must be finite"),
        (([1.7e308, -1.7e308], [0.5, 0.5], 0.1), "values must be finite"),
        ((np.ones((3, 2)), [0.5, 0.5], [0.1, 0.2]), r"do not broadcast; .* radius\[:, None\]"),
    ],
)
def test_refuses(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message), np.errstate(over="ignore"):
        project_kl_ball(*arguments)


def test_simplex_refuses() -> None:
    with pytest.raises(InputError, match="values must be finite"):
        project_simplex([1.0, np.inf])
    with pytest.raises(InputError, match="a number per class"):
        project_simplex(3.0)
