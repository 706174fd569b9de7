"""Euclidean projections of a vector on the simplex, and on the label distributions with `KL(q ‖ p) ≤ r`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from advshift.errors import InputError
from advshift.numerics.backend import (
    as_floating,
    as_like,
    as_scalar,
    check_broadcast,
    check_distribution,
    check_rows,
    choose,
    dot,
    epsilon,
    from_host,
    highest,
    lowest,
    namespace,
    squeeze,
    to_host,
    total,
)
from advshift.numerics.divergences import kl_divergence
from advshift.numerics.joint_newton import drive, pose, start
from advshift.numerics.nested import rescue
from advshift.types import Array, ArrayLike

__all__ = ["Projection", "project_kl_ball", "project_simplex"]


class Projection(NamedTuple):
    """The nearest distribution of a ball, with the two numbers that prove it.

    Attributes
    ----------
    value
        `½‖q - v‖²`.
    distribution
        The projection `q`. On its support `q = v - threshold - multiplier·log(q/p)`.
    multiplier
        Minus the derivative of `value` with respect to the radius: 0 where the radius is slack, infinite at radius 0.
    threshold
        What is subtracted from every class so that the sum is one. In the Lagrangian with `ν·(Σq - 1)` and
        `μ·(KL - r)` it is `ν + μ`.
    converged
        Whether the iteration met its tolerance.
    steps
        How many steps the whole batch took.
    """

    value: Float[Array, "*batch"]
    distribution: Float[Array, "*batch classes"]
    multiplier: Float[Array, "*batch"]
    threshold: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    steps: int


def project_simplex(values: ArrayLike, *, check: bool = True) -> Array:
    """Find the label distribution nearest to each row of `values`: `argmin ½‖q - v‖²` over the simplex.

    Exact, by one sort. Tensors carry gradients; turn `check` off in compiled code.

    >>> project_simplex([0.5, 0.6, -2.0]).round(3).tolist()
    [0.45, 0.55, 0.0]
    """
    (values,) = as_floating(values=values)
    if check:
        if values.ndim == 0 or 0 in values.shape:
            raise InputError(f"values must hold a number per class along their last axis; got shape {values.shape}")
        _check_finite(values)
    return _nearest(values - highest(values))[0]


def project_kl_ball(
    values: ArrayLike, reference: ArrayLike, radius: ArrayLike, *, steps: int | None = None
) -> Projection:
    """Find the nearest distribution of a KL ball: `argmin ½‖q - v‖²` over the simplex with `KL(q ‖ p) ≤ r`.

    Classes that the reference lacks get no mass, whatever their value. Leading axes are broadcast: a radius of shape
    `(radii, 1)` with values of shape `(rows, classes)` gives `(radii, rows)` problems.

    Parameters
    ----------
    values
        The vector `v` to project, shape `(..., classes)`.
    reference
        The ball's centre `p`, shape `(classes,)` or `(..., classes)`.
    radius
        From 0, which gives the centre, to infinity, which gives the projection on the simplex.
    steps
        `None` checks the input and iterates until converged. A number takes exactly that many steps, checks nothing
        and never waits for the device: the form for compiled code; 20 are plenty.

    >>> found = project_kl_ball([0.9, 0.3, 0.1], [0.2, 0.3, 0.5], radius=0.1)
    >>> found.distribution.round(4).tolist(), float(found.multiplier.round(4))
    ([0.3851, 0.2834, 0.3314], 0.6997)
    """
    values, reference = as_floating(values=values, reference=reference)
    limit = as_like(radius, values)[..., None]
    if steps is not None:
        return _project(values, reference, limit, steps)
    like = values
    values, reference, limit = (to_host(array) for array in (values, reference, limit))
    _check(values, reference, limit)
    with np.errstate(all="ignore"):
        found = _project(values, reference / total(reference), limit, None)
    arrays = {name: from_host(getattr(found, name), like) for name in Projection._fields if name != "steps"}
    return found._replace(**arrays)


def _project(values: Array, reference: Array, radius: Array, steps: int | None) -> Projection:
    """Scale, solve, and put the answers for a slack radius and for radius 0 in their places."""
    allowed = reference > 0
    top = highest(choose(allowed, values, -float("inf")))
    shifted = choose(allowed, values - top, -2.0)
    nearest, slack_threshold = _nearest(shifted)
    limit = kl_divergence(nearest, reference)
    radius = as_scalar(radius)
    eps = epsilon(values)
    slack = radius >= limit * (1.0 - eps**0.75) - 64.0 * eps * namespace(values).sqrt(limit)
    inside = ~slack & (radius > eps**2)
    spread = -lowest(choose(allowed, shifted, 0.0))
    scale = choose(spread > 1, spread, 1.0)
    problem = pose(shifted / scale, reference, 1.0 / scale, (radius, limit, inside))
    state = drive(problem, start(problem, nearest, ~inside), steps)
    if steps is None:
        state = rescue(problem, state)
    weights = reference * namespace(values).exp(state.log_ratio)
    distribution = choose(inside, weights / total(weights), choose(slack, nearest, reference))
    threshold = choose(slack, slack_threshold, dot(reference, shifted - reference))
    threshold = choose(inside, state.threshold * scale, threshold)
    multiplier = choose(inside, state.multiplier * scale, choose(slack, 0.0, threshold * 0.0 + float("inf")))
    distance = values - distribution
    value = 0.5 * dot(distance, distance)
    numbers = (value, multiplier, threshold + top, state.converged)
    value, multiplier, threshold, converged = (squeeze(number) for number in numbers)
    return Projection(value, distribution, multiplier, threshold, converged, state.steps)


def _nearest(shifted: Float[Array, "*batch classes"]) -> tuple[Array, Array]:
    """The projection on the simplex and its threshold, for values whose largest is 0. Below -1 nothing counts."""
    xp = namespace(shifted)
    values = choose(shifted > -2.0, shifted, -2.0)
    ordered = xp.sort(values, axis=-1, descending=True)
    count = xp.ones_like(ordered).cumsum(-1)
    kept = ordered * count > ordered.cumsum(-1) - 1.0
    active = values >= lowest(choose(kept, ordered, 0.0))
    number = total(xp.astype(active, values.dtype))
    threshold = (total(choose(active, values, 0.0)) - 1.0) / number
    above = values - threshold
    return choose(above > 0, above, 0.0), threshold


def _check_finite(values: Array) -> None:
    xp = namespace(values)
    if not bool(xp.isfinite(xp.max(values) - xp.min(values))):
        raise InputError("values must be finite, and their range too; got nan, an infinity or numbers beyond the dtype")


def _check(values: Array, reference: Array, radius: Array) -> None:
    check_rows("values", values, reference)
    check_distribution(reference, "the reference")
    if not bool((radius >= 0).all()):
        raise InputError("the radius must be a number from 0 up, or an array of them; got a negative number or nan")
    check_broadcast("values", values, reference, "radius", radius)
    _check_finite(values)
