"""Convex quadratics over the simplex and the positive orthant, solved exactly by exchanging blocks of variables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from advshift.types import Array

__all__ = ["QuadraticFit", "minimise_quadratic", "tangent_inverse"]

_LIMIT = 500  # exchanges before giving up; a hard problem of a thousand classes takes about 10
_PATIENCE = 3  # exchanges of a whole block that may fail to shrink the set of violations
_RIDGE = 1e-14  # times the mean of the diagonal: keeps the factorisation of a singular matrix alive


class QuadraticFit(NamedTuple):
    """The minimiser, which of its entries are free, and how the search went."""

    point: Float[Array, " classes"]
    free: Bool[Array, " classes"]
    iterations: int
    converged: bool


def minimise_quadratic(
    matrix: Float[Array, "classes classes"],
    vector: Float[Array, " classes"],
    *,
    simplex: bool = True,
    start: Bool[Array, " classes"] | None = None,
    limit: int = _LIMIT,
) -> QuadraticFit:
    """Minimise `½ x'Gx - h'x` over `x ≥ 0`, and `Σx = 1` when `simplex` is set.

    Block principal pivoting: solve the equations of the free variables, exchange every variable that breaks the
    optimality conditions, and fall back to one exchange at a time (Murty's rule) when the blocks do not get smaller.
    That ends after finitely many exchanges where `G` is positive definite; each costs one Cholesky factorisation.

    Parameters
    ----------
    matrix, vector
        `G`, positive semidefinite, and `h`.
    simplex
        Whether the entries sum to one.
    start
        The variables that are free in the first guess; all of them by default.
    limit
        The most exchanges.

    >>> fit = minimise_quadratic(np.eye(3), np.array([0.9, 0.5, -0.4]))
    >>> fit.point.round(6).tolist()
    [0.7, 0.3, 0.0]
    """
    free = np.ones(len(vector), dtype=bool) if start is None or not start.any() else start.copy()
    fewest, patience = len(vector) + 1, _PATIENCE
    scale = _RIDGE * max(float(np.trace(matrix)) / len(vector), 1e-300)
    for iteration in range(1, limit + 1):
        point, slack = _solve_free(matrix, vector, free, simplex=simplex, ridge=scale)
        wrong = _violations(point, slack, free)
        count = int(wrong.sum())
        if count == 0:
            return _finish(point, free, iteration, simplex=simplex)
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            wrong = np.arange(len(vector)) == np.flatnonzero(wrong)[-1]
        free = free ^ wrong
        if simplex and not free.any():
            free[int(np.argmax(vector))] = True
    return _finish(point, free, limit, simplex=simplex)._replace(converged=False)


def _finish(point: Array, free: Array, iterations: int, *, simplex: bool) -> QuadraticFit:
    point = np.maximum(point, 0.0)
    return QuadraticFit(point / point.sum() if simplex else point, free, iterations, True)


def _violations(point: Array, slack: Array, free: Array) -> Any:
    """The free variables below zero and the bound ones that want to rise, beyond rounding."""
    below = point < -1e-12 * max(float(np.abs(point).max()), 1e-300)
    rising = slack < -1e-10 * max(float(np.abs(slack).max()), 1e-300)
    return np.where(free, below, rising)


def _solve_free(matrix: Array, vector: Array, free: Array, *, simplex: bool, ridge: float) -> tuple[Array, Array]:
    """The stationary point with all other variables at zero, and the gradient along those."""
    index = np.flatnonzero(free)
    if len(index) == 0:
        return np.zeros(len(vector)), -vector
    block = matrix if len(index) == len(vector) else matrix[np.ix_(index, index)]
    sides = np.stack([vector[index], np.ones(len(index))], axis=1)
    solved = _solve_definite(block, sides, ridge)
    level = (solved[:, 0].sum() - 1.0) / solved[:, 1].sum() if simplex else 0.0
    point = np.zeros(len(vector))
    point[index] = solved[:, 0] - level * solved[:, 1]
    slack = np.where(free, 0.0, matrix[:, index] @ point[index] - vector + level)
    return point, slack


def _solve_definite(block: Array, sides: Array, ridge: float) -> Any:
    """Solve by Cholesky, with one step of refinement; the ridge grows until the factorisation exists."""
    from scipy.linalg import cho_factor, cho_solve

    while True:
        lifted = block + ridge * np.eye(len(block))
        try:
            factor = cho_factor(lifted, check_finite=False)
        except np.linalg.LinAlgError:
            ridge *= 100.0
            continue
        solved = cho_solve(factor, sides, check_finite=False)
        return solved + cho_solve(factor, sides - lifted @ solved, check_finite=False)


def tangent_inverse(matrix: Float[Array, "classes classes"]) -> Float[Array, "classes classes"]:
    """How the minimiser under `Σx = 1` answers a change of `h`: `P = G⁻¹ - G⁻¹11'G⁻¹ / 1'G⁻¹1`.

    The bounds are left out: a class that is estimated at zero is uncertain, too.
    """
    inverse = np.linalg.pinv(matrix, hermitian=True, rcond=1e-13)
    ones = inverse.sum(axis=1)
    return inverse - np.outer(ones, ones) / ones.sum()
