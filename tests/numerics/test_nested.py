"""The bracketed projection: it solves what the joint Newton method leaves, and whatever else it is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr

from advshift.numerics import joint_newton, project_kl_ball, project_simplex
from advshift.numerics.divergences import kl_divergence
from advshift.sets import KLBall


def _harsh(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Ties, heavy tails, huge and tiny values, long tails and empty classes; radii from 1e-12 to the edge of slack."""
    rng = np.random.default_rng([seed, 7])
    classes = int(rng.integers(2, 301))
    v = [
        lambda: rng.normal(size=classes),
        lambda: rng.integers(0, 3, classes) * 10.0 ** rng.uniform(-4, 4),
        lambda: rng.standard_cauchy(classes),
        lambda: rng.normal(size=classes) * 10.0 ** rng.uniform(-9, 12),
    ][rng.integers(4)]()
    p = [
        lambda: np.ones(classes),
        lambda: np.arange(1.0, classes + 1) ** -rng.uniform(0.5, 2),
        lambda: 10.0 ** rng.uniform(-12, 0, classes),
        lambda: rng.dirichlet(np.ones(classes)) * (rng.random(classes) < 0.7) + (np.arange(classes) == 0),
    ][rng.integers(4)]()
    p = p / p.sum()
    v = v + p * rng.integers(2)
    largest = float(kl_divergence(project_simplex(np.where(p > 0, v - v[p > 0].max(), -2.0)), p))
    inner, edge = 10 ** rng.uniform(-12, np.log10(max(largest, 2e-12))), largest * (1 - 10.0 ** -rng.uniform(0, 11))
    return v, p, max(min(inner, largest), 0.0) if rng.random() < 0.5 else edge


def _check(v: np.ndarray, p: np.ndarray, radius: float, found) -> None:
    """Feasible, and by duality no point of the ball is nearer; the error of `q` is bounded by the root of the gap."""
    q, some = found.distribution, p > 0
    assert bool(found.converged)
    assert (q >= 0).all()
    assert (q[~some] == 0).all()
    assert abs(q.sum() - 1) <= 1e-12
    assert rel_entr(q, p).sum() <= radius + 1e-9
    slope = (v - q)[some]
    gap = float(KLBall(radius).worst_case(slope, p[some]).value) - q[some] @ slope
    assert gap <= 1e-9 * max(1.0, np.ptp(v[some]))


@pytest.mark.parametrize("seed", range(8))
def test_harsh_instances(seed: int) -> None:
    for case in range(15):
        problem = _harsh(100 * seed + case)
        _check(*problem, project_kl_ball(*problem))


# in the last five, 200 steps of the joint method do not get there even inside a bracket
@pytest.mark.parametrize("seed", [28, 139, 163, 268, 101, 200, 487, 575, 840])
def test_what_the_joint_method_leaves(seed: int) -> None:
    problem = _harsh(seed)
    found = project_kl_ball(*problem)
    _check(*problem, found)


@pytest.mark.parametrize("seed", range(4))
def test_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single step of the joint method, its answers are the same."""
    problems = [_harsh(1000 + 10 * seed + case) for case in range(10)]
    joint = [project_kl_ball(*problem) for problem in problems]
    monkeypatch.setattr(joint_newton, "LIMIT", 0)
    for problem, other in zip(problems, joint, strict=True):
        found = project_kl_ball(*problem)
        _check(*problem, found)
        np.testing.assert_allclose(found.distribution, other.distribution, atol=1e-6)


@pytest.mark.parametrize("kind", ["numpy", "tensor"])
def test_only_some_rows_of_a_batch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    v, p = rng.normal(size=(4, 9)), rng.dirichlet(np.ones(9))
    radii = np.array([[0.0], [1e-3], [0.2], [0.4], [50.0]])
    expected = project_kl_ball(v, p, radii)
    monkeypatch.setattr(joint_newton, "LIMIT", 4)
    if kind == "tensor":  # as on an accelerator, where nothing goes to the host
        monkeypatch.setattr("advshift.numerics.projection.to_host", lambda array: array)
        v, p, radii = (torch.from_numpy(array) for array in (v, p, radii))
    found = project_kl_ball(v, p, radii)
    assert bool(found.converged.all())
    np.testing.assert_allclose(found.distribution, expected.distribution, atol=1e-9)
    np.testing.assert_allclose(found.multiplier, expected.multiplier, rtol=1e-6)
    np.testing.assert_allclose(found.threshold, expected.threshold, rtol=1e-6)
