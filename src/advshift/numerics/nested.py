"""The slow and certain way to project on a KL ball, for what the joint Newton method leaves: a search in a search.

For a multiplier `μ` and a threshold `c` stationarity gives `q = (μ/f)·ω(log(p·f/μ) + (v - c)/μ)`, with the Wright omega
function and the flatness `f`. The inner search finds the `c` with `Σq = 1`. It lies between `c₀ - f` and `c₀`, the
threshold of the tilt `p·exp(v/μ)`, because `0 ≤ f·q ≤ f`. The outer one, in `-log μ`, is for the radius.
"""

from __future__ import annotations

from jaxtyping import Bool

from advshift.numerics.backend import as_scalar, choose, dot, epsilon, namespace, total
from advshift.numerics.joint_newton import NewtonProblem, NewtonState, height
from advshift.numerics.lambert import omega
from advshift.numerics.roots import Evaluation, arithmetic_middle, find_root
from advshift.types import Array

__all__ = ["rescue"]

_STEEPEST = 80.0  # the smallest multiplier is exp(-80) of the flatness: what happens below is smaller than rounding
_LEAST = -1000.0  # of log(q/p): its exponential is zero


def rescue(problem: NewtonProblem, state: NewtonState) -> NewtonState:
    """Solve again what has not converged. Reads flags on the host, as the eager driver does."""
    if bool(state.converged.all()):
        return state
    xp = namespace(problem.scaled)
    rows = xp.broadcast_to(xp.asarray(~state.converged), (*state.log_ratio.shape[:-1], 1))[..., 0]
    found = _solve(NewtonProblem(*[_rows(part, rows) for part in problem]), _rows(state.highest, rows))
    new = dict(zip(("multiplier", "threshold", "log_ratio"), found.result, strict=True), converged=found.converged)
    return state._replace(**{name: _put(getattr(state, name), part, rows) for name, part in new.items()})


def _rows(part: Array, rows: Bool[Array, "*batch"]) -> Array:
    """The problems that the flags mark, as a matrix."""
    part = namespace(part).asarray(part)
    return namespace(part).broadcast_to(part, (*rows.shape, part.shape[-1] if part.ndim else 1))[rows]


def _put(old: Array, new: Array, rows: Bool[Array, "*batch"]) -> Array:
    """A copy with new numbers for the problems that the flags mark."""
    xp = namespace(old)
    copy = xp.asarray(xp.broadcast_to(xp.asarray(old), (*rows.shape, new.shape[-1])), copy=True)
    copy[rows] = new
    return as_scalar(copy)


def _solve(problem: NewtonProblem, highest: Array) -> Evaluation:
    """Search for the multiplier below `highest`; the result is the multiplier, the threshold and `log(q/p)`."""
    xp = namespace(problem.scaled)
    low, high = -xp.log(highest), _STEEPEST - xp.log(problem.flatness)

    def evaluate(point: Array) -> Evaluation:
        here = xp.exp(-point)
        threshold, ratio, weights = _threshold(problem, here)
        gained = problem.reference * xp.expm1(ratio)
        terms = (problem.reference + gained) * ratio
        divergence = total(terms) - total(gained)
        middle = dot(weights, ratio) / total(weights)
        centred = ratio - middle
        root, reached = height(divergence / problem.limit)
        slope = here * dot(weights * centred, centred) / (2.0 * problem.limit * root * (1.0 - root) * reached)
        tolerance = epsilon(here) ** 0.8 * problem.radius + 64.0 * epsilon(here) * (
            total(xp.abs(terms)) + xp.abs(middle)
        )
        met = xp.abs(divergence - problem.radius) <= tolerance
        return Evaluation(xp.log(reached / problem.goal), slope, met, (here, threshold, ratio))

    return find_root(evaluate, 0.5 * (low + high), low=low, high=high, middle=arithmetic_middle).evaluation


def _threshold(problem: NewtonProblem, multiplier: Array) -> tuple[Array, Array, Array]:
    """The threshold for which the sum is one; with it `log(q/p)`, and minus the derivative of `q` by the threshold."""
    xp = namespace(multiplier)
    scaled, reference, flatness, eps = problem.scaled, problem.reference, problem.flatness, epsilon(multiplier)
    curvature = xp.log(reference) + xp.log(flatness) - xp.log(multiplier)
    tilted = scaled / multiplier
    mass = dot(reference, xp.exp(tilted))
    top = multiplier * choose(mass < 0.5, xp.log(mass), xp.log1p(dot(reference, xp.expm1(tilted))))

    def evaluate(point: Array) -> Evaluation:
        steep = (scaled - top + flatness * point) / multiplier
        found = omega(steep + curvature)
        ratio = choose(found > 1.0, xp.log(found) - curvature, steep - found)
        ratio = choose((ratio > _LEAST) & (reference > 0), ratio, _LEAST)
        gained = reference * xp.expm1(ratio)
        quantity = reference + gained
        weights = quantity / (flatness * quantity + multiplier)
        noise = 16.0 * eps * (total(xp.abs(gained)) + (flatness + xp.abs(top)) * total(weights))
        residual = xp.log1p(total(gained))
        rise = flatness * total(weights) / total(quantity)
        return Evaluation(residual, rise, xp.abs(residual) <= noise, (ratio, gained, weights))

    found = find_root(evaluate, 0.0 * multiplier + 0.5, low=0.0, high=1.0, middle=arithmetic_middle)
    ratio, gained, weights = found.evaluation.result
    # a threshold has only so many digits: a Newton step in the logarithms has more
    change = -total(gained) / total(weights) / (flatness * (reference + gained) + multiplier)
    change = choose(xp.abs(change) < 0.5, change, 0.0)
    return top - flatness * found.point, ratio + change, weights
