"""End to end on a convex problem: the saddle value of the exact min-max problem, by a convex solver."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch.nn import functional

from advshift import RobustObjective
from advshift.sets import FrequencyCap, KLBall, Simplex, UncertaintySet

CLASSES, FEATURES = 3, 3
RIDGE = 0.01


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), [120, 60, 20])
    centres = np.array([[0.0, 0.0], [1.2, 0.0], [0.6, 1.0]])
    return np.c_[centres[labels] + rng.normal(size=(200, 2)), np.ones(200)], labels


X, Y = data()
P = np.bincount(Y) / len(Y)


def saddle_value(penalty_of: Any) -> float:
    """`min_W max_π π·ℓ̄(W) + ridge`, with the inner maximum through the dual of the set."""
    weights = cp.Variable((FEATURES, CLASSES))
    logits = X @ weights
    hinge = cp.log_sum_exp(logits, axis=1) - cp.sum(cp.multiply(np.eye(CLASSES)[Y], logits), axis=1)
    losses = cp.Variable(CLASSES)
    over = [losses[y] >= cp.sum(hinge[np.flatnonzero(y == Y)]) / np.sum(y == Y) for y in range(CLASSES)]
    worst, constraints = penalty_of(losses)
    problem = cp.Problem(cp.Minimize(worst + RIDGE * cp.sum_squares(weights)), over + constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def kl_dual(radius: float) -> Any:
    """`min_t t·r + t·log Σ p exp(ℓ/t)`, by exponential cones: `Σ p·u ≤ t` with `t·exp((ℓ - s)/t) ≤ u`."""

    def dual(losses: Any) -> Any:
        t, s, u = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(CLASSES)
        cones = [cp.ExpCone(losses[y] - s, t, u[y]) for y in range(CLASSES)]
        return s + t * radius, [*cones, P @ u <= t]

    return dual


def cap_dual(ratio: float) -> Any:
    def dual(losses: Any) -> Any:
        level = cp.Variable()
        return level + ratio * (P @ cp.pos(losses - level)), []

    return dual


def group_dual(losses: Any) -> Any:
    worst = cp.Variable()
    return worst, [losses <= worst]


def train(name: str, *, batch: int | None, steps: int, rate: float, **options: Any) -> torch.Tensor:
    """Descent with a falling step; the average of the second half of the path."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.from_numpy(X).float(), torch.from_numpy(Y)
    weights = torch.zeros(FEATURES, CLASSES, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=rate)
    objective = RobustObjective(name, class_counts=np.bincount(Y).astype(float), **options)
    average = torch.zeros_like(weights)
    for step in range(steps):
        rows = slice(None) if batch is None else torch.randint(0, len(Y), (batch,), generator=generator)
        for group in optimizer.param_groups:
            group["lr"] = rate / (1 + 4 * step / steps)
        loss = objective(x[rows] @ weights, y[rows]) + RIDGE * weights.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= steps // 2:
            average += weights.detach() / (steps - steps // 2)
    return average


def robust_value(weights: torch.Tensor, uncertainty: UncertaintySet) -> float:
    logits = torch.from_numpy(X).double() @ weights.double()
    losses = functional.cross_entropy(logits, torch.from_numpy(Y), reduction="none").numpy()
    class_losses = np.array([losses[y == Y].mean() for y in range(CLASSES)])
    return float(uncertainty.worst_case(class_losses, P).value) + RIDGE * float(weights.double().square().sum())


ASCENT = {"penalty": 0.003, "step_size": 0.002, "stabiliser": 0.0, "step": "exact-prox", "initial": "reference"}
KL, CVAR, GROUP = ((kl_dual(0.2), KLBall(0.2)), (cap_dual(1 / 0.6), FrequencyCap(1 / 0.6)), (group_dual, Simplex()))
CASES: list[tuple[str, tuple[Any, UncertaintySet], int | None, int, dict[str, Any]]] = [
    ("exact", KL, None, 600, {"radius": 0.2, "momentum": 0.0, "clip": 1e6}),
    ("group-dro", GROUP, None, 2500, {"step_size": 0.1}),
]
LONG_CASES = [
    ("exact", KL, 32, 3000, {"radius": 0.2, "momentum": 0.98, "clip": 1e6}),
    ("advshift", KL, None, 2500, {"radius": 0.2, "clip": 1e6, **ASCENT}),
    ("advshift", KL, 64, 3000, {"radius": 0.2, "clip": 1e6, **ASCENT}),
    ("class-cvar", CVAR, None, 2500, {"level": 0.6, "momentum": 0.99}),
    ("class-cvar", CVAR, 128, 5000, {"level": 0.6, "momentum": 0.998}),
    ("group-dro", GROUP, 200, 6000, {"step_size": 0.02}),
    ("agnostic", GROUP, None, 2500, {"step_size": 0.02}),
]


def check(
    name: str, problem: tuple[Any, UncertaintySet], batch: int | None, steps: int, options: dict[str, Any]
) -> None:
    dual, uncertainty = problem
    exact = saddle_value(dual)
    weights = train(name, batch=batch, steps=steps, rate=0.5 if batch is None else 0.3, **options)
    assert exact * (1 - 1e-6) <= robust_value(weights, uncertainty) <= exact * (1 + 1e-3)


@pytest.mark.parametrize(("name", "problem", "batch", "steps", "options"), CASES, ids=lambda value: str(value)[:9])
def test_the_saddle_value_is_reached(
    name: str, problem: Any, batch: int | None, steps: int, options: Any, no_shape_checks: None
) -> None:
    check(name, problem, batch, steps, options)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "problem", "batch", "steps", "options"), LONG_CASES, ids=lambda value: str(value)[:9])
def test_the_saddle_value_is_reached_in_the_long_run(
    name: str, problem: Any, batch: int | None, steps: int, options: Any, no_shape_checks: None
) -> None:
    check(name, problem, batch, steps, options)
