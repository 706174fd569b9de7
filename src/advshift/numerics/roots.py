"""Safeguarded Newton for increasing functions of one variable, in batches: one pure step, two drivers.

A problem is a function `evaluate(point) -> Evaluation`. Good problems are stated so that their residual is nearly
linear in the variable at both ends of its range: Newton then needs no luck with the start. The bracket is the
safety net: a proposal outside it, and from time to time a bracket that shrinks too slowly, is replaced by its middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from advshift.numerics.backend import choose, namespace
from advshift.types import Array, PerProblem, PerProblemFlag

__all__ = ["Evaluation", "RootState", "arithmetic_middle", "find_root", "geometric_middle", "root_step", "start"]

LIMIT = 200  # evaluations before the eager driver gives up; a hard problem takes about 15
_PATIENCE = 8  # Newton steps before every third proposal becomes the middle of the bracket


class Evaluation(NamedTuple):
    """What a problem says at a point.

    `residual` is negative below the root, `slope` is its derivative, `converged` says whether the point is good
    enough, and `result` is what the caller wants of the final point.
    """

    residual: PerProblem
    slope: PerProblem
    converged: PerProblemFlag
    result: tuple[Shaped[Array, "..."], ...]


class RootState(NamedTuple):
    """A point of the search, its evaluation, and the bracket that the search has proved so far."""

    point: PerProblem
    low: PerProblem
    high: PerProblem
    evaluation: Evaluation
    steps: int


Evaluate = Callable[[Array], Evaluation]
Middle = Callable[[Array, Array, Array], Array]


def geometric_middle(low: Array, high: Array, point: Array) -> Array:
    """The middle for a positive variable that may span many orders of magnitude; grows eightfold without a bound."""
    xp = namespace(point)
    inside = xp.sqrt(choose(low > 1e-4 * high, low, 1e-4 * high)) * xp.sqrt(high)
    return choose(xp.isfinite(high), inside, 8.0 * point)


def arithmetic_middle(low: Array, high: Array, point: Array) -> Array:
    """The middle for a variable on a logarithmic scale; moves by 4 towards a side without a bound."""
    xp = namespace(point)
    inside = 0.5 * (low + high)
    outside = choose(xp.isfinite(low), point + 4.0, point - 4.0)
    return choose(xp.isfinite(low) & xp.isfinite(high), inside, outside)


def start(evaluate: Evaluate, point: Array, low: Array | float, high: Array | float) -> RootState:
    """The first state, with the bracket (low, high)."""
    evaluation = evaluate(point)
    point = choose(evaluation.converged, point, point)
    return RootState(point, 0.0 * point + low, 0.0 * point + high, evaluation, 0)


def root_step(evaluate: Evaluate, middle: Middle, state: RootState) -> RootState:
    """One step: shrink the bracket, propose by Newton, fall back to the middle, and evaluate. Converged points stay."""
    xp = namespace(state.point)
    point, (residual, slope, converged, _) = state.point, state.evaluation
    low = choose(residual < 0, point, state.low)
    high = choose(residual < 0, state.high, point)
    proposal = point - residual / slope
    trusted = (proposal > low) & (proposal < high)
    if state.steps > _PATIENCE and state.steps % 3 == 0:
        trusted = trusted & ~xp.isfinite(high)
    proposal = choose(trusted, proposal, middle(low, high, point))
    proposal = choose(converged, point, proposal)
    return RootState(proposal, low, high, evaluate(proposal), state.steps + 1)


def find_root(
    evaluate: Evaluate,
    point: Array,
    *,
    low: Array | float = 0.0,
    high: Array | float = float("inf"),
    middle: Middle = geometric_middle,
    steps: int | None = None,
) -> RootState:
    """Search from `point` between `low` and `high` for the root of an increasing function.

    Parameters
    ----------
    evaluate
        The problem.
    point
        Where to start; any value inside the domain is safe, a good one saves steps.
    low, high
        The ends of the domain, at which the residual need not be evaluated.
    middle
        How to halve a bracket.
    steps
        `None` steps until every problem has converged, which reads a flag on the host after each step.
        A number takes that many steps and never reads a value of a tensor: that form compiles as one graph. A single
        NumPy problem stops where it has converged, since what has converged stays.
    """
    state = start(evaluate, point, low, high)
    if steps is not None:
        for _ in range(steps):
            if isinstance(state.evaluation.converged, np.bool_) and state.evaluation.converged:
                break
            state = root_step(evaluate, middle, state)
        return state
    while state.steps < LIMIT and not bool(state.evaluation.converged.all()):
        state = root_step(evaluate, middle, state)
    return state
