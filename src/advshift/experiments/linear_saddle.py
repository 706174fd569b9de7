"""The exact min-max solution of a linear model, by a convex solver, and how near training comes to it.

    min_W max_{KL(π ‖ p) ≤ r} Σ_y π_y·ℓ̄_y(W) + λ‖W‖²

with the mean cross-entropies `ℓ̄_y` of the training part, and a constant among the features. The inner maximum enters
the solver through its dual, `min_t t·r + t·log Σ p exp(ℓ̄/t)`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.nn import functional

from advshift.data import DataSet
from advshift.errors import require
from advshift.experiments.worst_case import worst_case
from advshift.sets import KLBall

__all__ = [
    "RADII",
    "Problem",
    "Solved",
    "adversaries",
    "bounds",
    "class_risks",
    "descend",
    "make_problem",
    "robust_value",
    "solve",
    "study",
]

Weights = Float[np.ndarray, "features classes"]
RADII = (0.1, 0.5, 1.0)
STEPS = 4000
STABLE = 5.0  # rate of descent times the mean squared length of a row of features: near the largest that converges


class Problem(NamedTuple):
    """Features with a constant among them, labels from 0 up of which every class has some, radius and ridge."""

    features: Float[np.ndarray, "examples features"]
    labels: Int[np.ndarray, " examples"]
    radius: float
    ridge: float

    @property
    def counts(self) -> Int[np.ndarray, " classes"]:
        """Examples per class."""
        return np.bincount(self.labels)

    @property
    def reference(self) -> Float[np.ndarray, " classes"]:
        """The centre of the ball."""
        return np.asarray(self.counts / len(self.labels))


class Solved(NamedTuple):
    """Weights, the objective's value there, the solver's own relative gap between primal and dual, and its time."""

    weights: Weights
    value: float
    gap: float
    seconds: float
    status: str


def make_problem(data: DataSet, radius: float, ridge: float) -> Problem:
    """The training part, normalised as the engine does it, with a constant among the features."""
    rows = data.train.inputs  # type: ignore[attr-defined]  # both sets are kept in memory
    values = rows.double() / (255.0 if rows.dtype == torch.uint8 else 1.0)
    features = ((values - data.mean) / data.std).flatten(1).numpy()
    return Problem(np.hstack([features, np.ones((len(features), 1))]), data.train.labels.numpy(), radius, ridge)


def solve(problem: Problem) -> Solved:
    """Solve it by interior points (CVXPY with Clarabel)."""
    cp: Any = require("cvxpy", "the exact min-max solution", "dev")
    rows, classes = len(problem.labels), len(problem.counts)
    weights = cp.Variable((problem.features.shape[1], classes))
    logits = problem.features @ weights
    of_label = cp.sum(cp.multiply(np.eye(classes)[problem.labels], logits), axis=1)
    hinge = cp.log_sum_exp(logits, axis=1) - of_label
    share = np.zeros((classes, rows))
    share[problem.labels, np.arange(rows)] = 1.0 / problem.counts[problem.labels]
    losses, t, s, u = cp.Variable(classes), cp.Variable(nonneg=True), cp.Variable(), cp.Variable(classes)
    cones = cp.ExpCone(losses - s, t * np.ones(classes), u)  # t·exp((ℓ - s)/t) ≤ u
    constraints = [losses >= share @ hinge, cones, problem.reference @ u <= t]
    penalty = problem.ridge * cp.sum_squares(weights)
    program = cp.Problem(cp.Minimize(s + t * problem.radius + penalty), constraints)
    began = time.monotonic()
    data, chain, inverse = program.get_problem_data(cp.CLARABEL, solver_opts={})
    found = chain.solve_via_data(program, data, solver_opts={})
    program.unpack_results(found, chain, inverse)
    seconds = time.monotonic() - began
    gap = abs(found.obj_val - found.obj_val_dual) / max(abs(found.obj_val), 1e-12)
    return Solved(np.asarray(weights.value), float(program.value), float(gap), seconds, str(program.status))


def class_risks(problem: Problem, weights: Weights) -> Float[np.ndarray, " classes"]:
    """The mean cross-entropy of each class."""
    return _class_means(problem, _losses(problem, torch.from_numpy(weights))).numpy()


def _losses(problem: Problem, weights: torch.Tensor) -> torch.Tensor:
    logits = torch.from_numpy(problem.features) @ weights
    return functional.cross_entropy(logits, torch.from_numpy(problem.labels), reduction="none")


def _class_means(problem: Problem, losses: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros(len(problem.counts), dtype=losses.dtype).index_add(0, torch.from_numpy(problem.labels), losses)
    return sums / torch.from_numpy(problem.counts)


def robust_value(problem: Problem, weights: Weights) -> float:
    """The objective's value at any weights: never below that of the solution."""
    worst = worst_case(class_risks(problem, weights), problem.reference, [problem.radius])
    return float(worst[0]) + problem.ridge * float((weights**2).sum())


def bounds(problem: Problem, weights: Weights) -> tuple[float, float]:
    """What the saddle value lies between, whatever the weights.

    Above is the value at the weights. Below is the smallest weighted loss `min_W π·ℓ̄(W) + λ‖W‖²` under the
    distribution that is worst for these weights; less what the search's gradient says that it may have missed, by the
    strong convexity of the ridge: `‖g‖²/(4λ)`.
    """
    from scipy.optimize import minimize

    risks = class_risks(problem, weights)
    target = torch.from_numpy(np.asarray(KLBall(problem.radius).worst_case(risks, problem.reference).distribution))

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        variable = torch.from_numpy(flat.reshape(weights.shape)).requires_grad_()
        total = target @ _class_means(problem, _losses(problem, variable)) + problem.ridge * variable.square().sum()
        (gradient,) = torch.autograd.grad(total, variable)
        return float(total.detach()), gradient.numpy().ravel()

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-8}
    found = minimize(value, weights.ravel(), jac=True, method="L-BFGS-B", options=options)
    missed = float((found.jac**2).sum()) / (4.0 * problem.ridge)
    return float(found.fun) - missed, robust_value(problem, weights)


def adversaries(radius: float) -> dict[str, dict[str, Any]]:
    """The adversaries that are trained to their end: names and options of `RobustObjective`.

    AdvShift stands twice: as it is published, with its clip, its stabiliser and its switch, and with the exact proximal
    step and neither of the two, which is the algorithm that the theory is about.
    """
    exact_step = {"clip": 1e9, "stabiliser": 0.0, "step": "exact-prox", "initial": "reference"}
    return {
        "AdvShift": {"adversary": "advshift", "radius": radius, "initial": "reference"},
        "AdvShift, exact proximal step, no clip or stabiliser": {
            "adversary": "advshift",
            "radius": radius,
            "step_size": 0.02,
            "penalty": 0.2,
            **exact_step,
        },
        "exact adversary": {"adversary": "exact", "radius": radius, "momentum": 0.0, "clip": 1e9},
        "ERM": {"adversary": "erm"},
    }


def descend(problem: Problem, options: dict[str, Any], *, steps: int = STEPS) -> Weights:
    """Full-batch descent with momentum on the objective of the library, with a rate that falls to nothing."""
    from advshift.objective import RobustObjective

    features = torch.from_numpy(problem.features).float()
    labels = torch.from_numpy(problem.labels)
    rate = STABLE / float(features.square().sum(dim=1).mean())
    weights = torch.zeros(features.shape[1], len(problem.counts), requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=rate, momentum=0.9, nesterov=True)
    objective = RobustObjective(**options, class_counts=problem.counts.astype(float))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 * (1.0 + np.cos(np.pi * step / steps))
        loss = objective(features @ weights, labels) + problem.ridge * weights.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach().double().numpy()


def study(problem: Problem, *, by_solver: bool = True) -> Iterator[dict[str, Any]]:
    """The solver's solution, then every adversary's: objective, gap to the solver in percent, and certified bounds."""
    exact = None
    if by_solver:
        solved = solve(problem)
        exact = solved.value
        yield _row("CVXPY", problem, solved.weights, exact) | {
            "solver_gap": solved.gap,
            "seconds": round(solved.seconds, 2),
            "status": solved.status,
        }
    for name, options in adversaries(problem.radius).items():
        began = time.monotonic()
        weights = descend(problem, options)
        yield _row(name, problem, weights, exact) | {"seconds": round(time.monotonic() - began, 2)}


def _row(name: str, problem: Problem, weights: Weights, exact: float | None) -> dict[str, Any]:
    lower, upper = bounds(problem, weights)
    gap = None if exact is None else 100.0 * (upper / exact - 1.0)
    return {"name": name, "radius": problem.radius, "objective": upper, "gap_percent": gap, "lower_bound": lower}
