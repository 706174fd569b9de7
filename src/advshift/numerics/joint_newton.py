"""The joint Newton method behind the projection on a KL ball.

Stationarity reads `q + μ·log(q/p) = v - c` with two scalars: `μ ≥ 0` belongs to the radius and `c` to the sum. `q` is
`μ·ω(log(p/μ) + (v - c)/μ)` with the Wright omega function, which is evaluated once, at the start. From there one Newton
method moves the two scalars and the logarithms `x = log(q/p)` together. Where the sum and the divergence of the present
point can be trusted, `μ` moves: by Newton on `-log(1 - √(KL/K))` as a function of `1/μ`, with `K` the divergence of the
projection on the simplex. Elsewhere `μ` waits, and the rest catches up. Nothing forces it to converge: it is quick,
says whether it did, and leaves the few others to `nested`.
Values come shifted and scaled to [-1, 0]; `flatness` is what that makes of the one in front of `½‖q - v‖²`.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float

from advshift.numerics.backend import choose, dot, epsilon, highest, namespace, total
from advshift.numerics.lambert import omega
from advshift.types import Array

__all__ = ["NewtonProblem", "NewtonState", "drive", "height", "pose", "start"]

LIMIT = 40  # steps before the eager driver gives up; 5 is usual, 20 is many
_FARTHEST = 10.0  # the largest factor by which the multiplier moves in one step


class NewtonProblem(NamedTuple):
    """Scaled problems, radius inside (0, limit); `ceiling` bounds `log(q/p)`, `goal` is the height of the radius."""

    scaled: Float[Array, "*#batch classes"]
    reference: Float[Array, "*#batch classes"]
    ceiling: Float[Array, "*#batch classes"]
    flatness: Float[Array, "*#batch 1"]
    radius: Float[Array, "*#batch 1"]
    limit: Float[Array, "*#batch 1"]
    goal: Float[Array, "*#batch 1"]


class NewtonState(NamedTuple):
    """The two scalars, the logarithms `log(q/p)`, a bound of the multiplier, and whether the search is over."""

    multiplier: Float[Array, "*#batch 1"]
    threshold: Float[Array, "*#batch 1"]
    log_ratio: Float[Array, "*#batch classes"]
    highest: Float[Array, "*#batch 1"]
    converged: Bool[Array, "*#batch 1"]
    steps: int


class _Linear(NamedTuple):
    """The equations at a point, and what a Newton step at a fixed multiplier makes of them.

    `excess` is `Σq - 1`, `divergence` and `expected` are `KL` before and after that step, `slope` is minus the
    derivative of `KL` along the multiplier, and `change` is the step in `log(q/p)`, of which each unit of the
    multiplier takes `centred/stiffness`.
    """

    excess: Float[Array, "*#batch 1"]
    divergence: Float[Array, "*#batch 1"]
    expected: Float[Array, "*#batch 1"]
    slope: Float[Array, "*#batch 1"]
    weight: Float[Array, "*#batch 1"]
    shift: Float[Array, "*#batch 1"]
    middle: Float[Array, "*#batch 1"]
    centred: Float[Array, "*#batch classes"]
    spread: Float[Array, "*#batch classes"]
    stiffness: Float[Array, "*#batch classes"]
    curved: Float[Array, "*#batch classes"]
    mass: Float[Array, "*#batch classes"]
    change: Float[Array, "*#batch classes"]


def height(share: Array) -> tuple[Array, Array]:
    """`√share` kept below one, and `-log(1 - √share)`."""
    xp = namespace(share)
    steepest = 1.0 - 2.0 * epsilon(share)
    share = choose(share < steepest, share, steepest)
    root = xp.sqrt(choose(share > 0, share, 0.0))
    return root, -xp.log1p(-root)


def pose(scaled: Array, reference: Array, flatness: Array, radii: tuple[Array, Array, Array]) -> NewtonProblem:
    """State the problems; those that are not `inside` get some radius that does no harm."""
    xp = namespace(scaled)
    radius, limit, inside = radii
    limit = choose(inside, limit, 1.0)
    radius = choose(inside, radius, 0.5 * limit)
    ceiling = -xp.log(choose(reference > 0, reference, 1.0))
    return NewtonProblem(scaled, reference, ceiling, flatness, radius, limit, height(radius / limit)[1])


def start(problem: NewtonProblem, nearest: Array, done: Array) -> NewtonState:
    """Start from a feasible point on the way to the projection on the simplex: it says what tilt to begin with.

    At a point `q` of the boundary the answer for the linear problem `max (v - q)·π` is a tilt; its threshold is
    known, and its multiplier is about the standard deviation of `v - q` over `√(2r)`. The value that a radius can buy
    bounds the multiplier: `μ·r ≤ f(p) - f(nearest)`.
    """
    xp = namespace(problem.scaled)
    tiny = xp.finfo(problem.scaled.dtype).smallest_normal
    scaled, reference, radius = problem.scaled, problem.reference, problem.radius
    moved = nearest - reference
    feasible = reference + xp.sqrt(radius / problem.limit) * moved
    slope = scaled - problem.flatness * feasible
    middle = scaled - 0.5 * problem.flatness * (reference + nearest)
    gained = dot(moved, middle - dot(reference, middle))
    gained = choose(gained > 0, gained, 0.0) + 8.0 * epsilon(scaled) * total(xp.abs(moved))
    high = 2.0 * gained / radius + tiny
    guess = xp.sqrt(dot(feasible, (slope - dot(feasible, slope)) ** 2) / (2.0 * radius))
    guess = choose(guess < high, guess, high)
    multiplier = choose(guess > 1e-6 * high, guess, 1e-6 * high)
    tilted = slope / multiplier
    tallest = highest(tilted)
    threshold = multiplier * (xp.log(dot(reference, xp.exp(tilted - tallest))) + tallest)
    steep = (scaled - threshold) / multiplier
    log_ratio = steep - omega(steep + xp.log(reference) + xp.log(problem.flatness / multiplier))
    log_ratio = choose(log_ratio < problem.ceiling, log_ratio, problem.ceiling)
    return NewtonState(multiplier, threshold, log_ratio, high, done, 0)


def drive(problem: NewtonProblem, state: NewtonState, steps: int | None) -> NewtonState:
    """The two drivers: a fixed count, or until every problem has converged."""
    if steps is not None:
        for _ in range(steps):
            state = _step(problem, state)
        return state
    while state.steps < LIMIT and not bool(state.converged.all()):
        state = _step(problem, state)
    return state


def _linearise(problem: NewtonProblem, state: NewtonState) -> _Linear:
    """Evaluate the equations at a point; `expm1` keeps small differences, so that no radius is too small."""
    xp = namespace(problem.scaled)
    tiny = xp.finfo(problem.scaled.dtype).smallest_normal
    ratio = state.log_ratio
    gained = problem.reference * xp.expm1(ratio)
    mass = problem.reference + gained
    curved = problem.flatness * mass
    stiffness = curved + state.multiplier
    residual = problem.scaled - state.threshold - curved - state.multiplier * ratio
    weights = mass / stiffness
    weight = total(weights) + tiny
    middle = dot(weights, ratio) / weight
    centred = ratio - middle
    spread = weights * centred
    excess = total(gained)
    divergence = dot(mass, ratio) - excess
    shift = (excess + dot(weights, residual)) / weight
    # the gain of KL: Σ weights·ratio·(residual - shift), with the excess where the sum is not yet one
    expected = divergence + dot(spread, residual) - middle * excess
    change = (residual - shift) / stiffness
    room = problem.ceiling - ratio
    change = choose(change < room, change, room)
    slope = dot(spread, centred)
    return _Linear(
        excess, divergence, expected, slope, weight, shift, middle, centred, spread, stiffness, curved, mass, change
    )


def _step(problem: NewtonProblem, state: NewtonState) -> NewtonState:
    """One step of the joint Newton method. Converged problems stay."""
    here = _linearise(problem, state)
    multiplier = _propose(problem, state, here)
    over = _is_over(problem, here) & (namespace(multiplier).abs(multiplier - state.multiplier) <= 0.01 * multiplier)
    multiplier = choose(state.converged, state.multiplier, multiplier)
    move = multiplier - state.multiplier
    change = here.change - move * here.centred / here.stiffness
    bend = 1.0 + 0.5 * change * here.curved / here.stiffness
    log_ratio = state.log_ratio + change / choose(bend > 0.5, bend, 0.5)
    log_ratio = choose(log_ratio < problem.ceiling, log_ratio, problem.ceiling)
    threshold = state.threshold + here.shift - move * here.middle
    return NewtonState(
        multiplier,
        choose(state.converged, state.threshold, threshold),
        choose(state.converged, state.log_ratio, log_ratio),
        state.highest,
        state.converged | over,
        state.steps + 1,
    )


def _propose(problem: NewtonProblem, state: NewtonState, here: _Linear) -> Array:
    """The next multiplier: by Newton where the point can be trusted, else the same."""
    xp = namespace(problem.scaled)
    tiny = xp.finfo(problem.scaled.dtype).smallest_normal
    point, expected = state.multiplier, here.expected
    left, spare = problem.limit - expected, problem.limit - problem.radius
    smallest = choose(expected < problem.radius, expected, choose(left > spare, left, spare))
    settled = (xp.abs(here.excess) <= 0.3) & (xp.abs(expected - here.divergence) <= 0.3 * smallest)
    root, reached = height(expected / problem.limit)
    factor = 1.0 + 2.0 * (problem.goal - reached) * (1.0 - root) * expected / (root * point * here.slope + tiny)
    factor = choose(factor > 1.0 / _FARTHEST, choose(factor < _FARTHEST, factor, _FARTHEST), 1.0 / _FARTHEST)
    proposal = choose(point / factor < state.highest, point / factor, state.highest)
    return choose(settled, proposal, point)


def _is_over(problem: NewtonProblem, here: _Linear) -> Array:
    """Whether the point is so close that the step which is about to be taken leaves nothing but rounding."""
    xp = namespace(problem.scaled)
    eps = epsilon(problem.scaled)
    radius = problem.radius
    rounding = 8.0 * eps * here.weight
    tolerance = eps**0.8 * radius + 64.0 * eps * xp.sqrt(radius)
    tolerance = tolerance + 8.0 * eps * total(xp.abs(here.spread)) + eps**1.25
    met = (xp.abs(here.divergence - radius) <= tolerance) & (xp.abs(here.excess) <= eps**0.8 + rounding)
    still = highest(here.mass * xp.abs(here.change)) <= eps**0.6 + rounding
    return met & still & (highest(here.change) <= 1e-3)
