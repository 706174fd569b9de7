"""The worst case over each set by a general convex solver (CVXPY with Clarabel): slow, and not ours."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advshift.errors import require
from advshift.sets import (
    Box,
    ChiSquareBall,
    FrequencyCap,
    KLBall,
    ReverseKLBall,
    Simplex,
    TopK,
    TotalVariationBall,
    UncertaintySet,
)

__all__ = ["OracleProblem", "worst_case_by_solver"]

TOLERANCES = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 400}

Vector = NDArray[np.float64]


class OracleProblem:
    """`max π·e` over a set, built once: risks and radius are parameters that each solve sets again.

    Parameters
    ----------
    uncertainty_set
        Any of the sets, with parameters for one problem.
    reference
        The centre; it must have mass on every class.
    """

    def __init__(self, uncertainty_set: UncertaintySet, reference: Vector) -> None:
        cp: Any = require("cvxpy", "the oracle", "test")
        self.cp = cp
        self.distribution = cp.Variable(reference.size, nonneg=True)
        self.risks = cp.Parameter(reference.size)
        self.radius = cp.Parameter(nonneg=True)
        self.has_radius = hasattr(uncertainty_set, "radius")
        self.radius.value = float(getattr(uncertainty_set, "radius", 0.0))
        constraints = [cp.sum(self.distribution) == 1, *self._constraints(uncertainty_set, reference)]
        self.problem = cp.Problem(cp.Maximize(self.risks @ self.distribution), constraints)

    def _constraints(self, uncertainty_set: UncertaintySet, p: Vector) -> list[Any]:
        cp, q, r = self.cp, self.distribution, self.radius
        match uncertainty_set:
            case KLBall():
                return [cp.sum(cp.kl_div(q, p)) <= r]
            case ReverseKLBall():
                return [cp.sum(cp.kl_div(p, q)) <= r]
            case ChiSquareBall():
                return [cp.sum_squares(cp.multiply(1 / np.sqrt(p), q - p)) <= 2 * r]
            case TotalVariationBall():
                return [cp.norm1(q - p) <= 2 * r]
            case FrequencyCap():
                return [q <= uncertainty_set.ratio * p]
            case TopK():
                return [q <= 1 / uncertainty_set.k]
            case Simplex():
                return []
            case Box():
                return [q >= uncertainty_set.lower, q <= uncertainty_set.upper]
            case _:
                raise NotImplementedError(type(uncertainty_set).__name__)

    def solve(self, risks: Vector, radius: float | None = None) -> tuple[float, Vector]:
        """Solve for new risks (and a new radius); return the value and the distribution, or nan where it fails."""
        self.risks.value = risks
        if radius is not None:
            self.radius.value = radius
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.problem.solve(solver="CLARABEL", **TOLERANCES)
        except self.cp.error.SolverError:
            return float("nan"), np.full(risks.size, np.nan)
        if self.problem.status != "optimal":
            return float("nan"), np.full(risks.size, np.nan)
        return float(self.problem.value), np.asarray(self.distribution.value)


def worst_case_by_solver(uncertainty_set: UncertaintySet, risks: Vector, reference: Vector) -> tuple[float, Vector]:
    """Solve one problem on the classes that the reference has."""
    support = reference > 0
    value, inside = OracleProblem(uncertainty_set, reference[support]).solve(risks[support])
    distribution = np.zeros_like(reference)
    distribution[support] = inside
    return value, distribution
