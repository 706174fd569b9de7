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
    over = [losses[y] >= cp.sum(hinge[np.flatnonzero(Y == y)]) / np.sum(Y == y) for y in range(CLASSES)]
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
    class_losses = np.array([losses[Y == y].mean() for y in range(CLASSES)])
    return float(uncertainty.worst_case(class_losses, P).value) + RIDGE * float(weights.double().square().sum())


FREE = {"clip": 1e6}
PROBLEMS: list[tuple[str, Any, UncertaintySet, str, dict[str, Any]]] = [
    ("kl", kl_dual(0.2), KLBall(0.2), "exact", {"radius": 0.2, "momentum": 0.0, **FREE}),
    ("kl", kl_dual(0.2), KLBall(0.2), "advshift", {"radius": 0.2, "penalty": 0.003, "step_size": 0.002, "stabiliser": 0.0, "step": "exact-prox", "initial": "reference", **FREE}),
    ("cvar", cap_dual(1 / 0.6), FrequencyCap(1 / 0.6), "class-cvar", {"level": 0.6, "momentum": 0.9}),
    ("group", group_dual, Simplex(), "group-dro", {"step_size": 0.1}),
    ("group", group_dual, Simplex(), "agnostic", {"step_size": 0.02}),
]


@pytest.mark.parametrize(("kind", "dual", "uncertainty", "name", "options"), PROBLEMS, ids=[p[0] + "-" + p[3] for p in PROBLEMS])
def test_full_batches_reach_the_saddle_value(kind: str, dual: Any, uncertainty: Any, name: str, options: Any) -> None:
    exact = saddle_value(dual)
    found = robust_value(train(name, batch=None, steps=2500, rate=0.5, **options), uncertainty)
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-3)
