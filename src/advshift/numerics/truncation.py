"""Truncated linear weights `π ∝ p·(e - η)₊`: the maximisers over a chi-square ball.

As `η` rises towards the largest risk, so do the mean risk and the divergence `½ Σ (π-p)²/p` of those weights. Both are
known at every class's risk from cumulative sums of positive terms, so that a sort says which classes keep weight; given
those, `η` has a closed form.
"""

from __future__ import annotations

from jaxtyping import Bool, Float

from advshift.numerics.backend import choose, dot, namespace, total
from advshift.numerics.filling import descending
from advshift.types import Array, PerProblem

__all__ = ["divergence_of", "truncate_to_divergence", "truncate_to_excess", "truncate_to_mean"]


def truncate_to_divergence(
    scaled: Float[Array, "*#batch classes"],
    reference: Float[Array, "*#batch classes"],
    radius: PerProblem,
) -> PerProblem:
    """Find the threshold `η` whose weights have divergence `radius`, below that of the classes of largest risk."""
    xp = namespace(scaled)
    risks, first, second = _excesses(scaled, reference)
    kept = _at_least(scaled, risks, second > (1.0 + 2.0 * radius) * first * first)
    weights = choose(kept, reference, 0.0)
    mass = total(weights)
    mean = dot(weights, scaled) / mass
    variance = dot(weights, (scaled - mean) ** 2) / mass
    room = 2.0 * radius * mass - total(reference - weights)
    return mean - xp.sqrt(variance / choose(room > 0, room, xp.finfo(scaled.dtype).smallest_normal))


def truncate_to_mean(
    scaled: Float[Array, "*#batch classes"],
    reference: Float[Array, "*#batch classes"],
    target: PerProblem,
) -> PerProblem:
    """Find the threshold `η` under whose weights the mean risk is `target`, between the reference's mean and 0."""
    risks, first, second = _excesses(scaled, reference)
    kept = _at_least(scaled, risks, second > (target - risks) * first)
    weights = choose(kept, reference, 0.0)
    distance = scaled - target
    lower = -dot(weights, distance)
    return target - dot(weights, distance * distance) / choose(lower > 0, lower, 1.0)


def truncate_to_excess(
    scaled: Float[Array, "*#batch classes"],
    reference: Float[Array, "*#batch classes"],
    excess: PerProblem,
) -> PerProblem:
    """Find the threshold `η` at which `Σ p (e-η)₊` is `excess`, which must be positive; the largest risk is 0."""
    risks, first, _ = _excesses(scaled, reference)
    weights = choose(_at_least(scaled, risks, first < excess), reference, 0.0)
    return (dot(weights, scaled) - excess) / total(weights)


def divergence_of(reference: Float[Array, "*#batch classes"], weights: Float[Array, "*#batch classes"]) -> PerProblem:
    """The divergence `½ Σ (π-p)²/p` of `π ∝ p·weights` from `p`."""
    ratio = weights / dot(reference, weights)
    return 0.5 * dot(reference, (ratio - 1.0) ** 2)


def _excesses(scaled: Array, reference: Array) -> tuple[Array, Array, Array]:
    """The risks from the largest down, with `Σ p (e-η)₊` and `Σ p (e-η)₊²` for `η` at each of them."""
    xp = namespace(scaled)
    risks, masses = descending(scaled, reference)
    gaps = xp.concat([xp.zeros_like(risks[..., :1]), risks[..., :-1] - risks[..., 1:]], axis=-1)
    above = masses.cumsum(-1) - masses
    first = (above * gaps).cumsum(-1)
    before = xp.concat([xp.zeros_like(risks[..., :1]), first[..., :-1]], axis=-1)
    second = (2.0 * gaps * before + gaps * gaps * above).cumsum(-1)
    return risks, first, second


def _at_least(scaled: Array, risks: Array, condition: Bool[Array, "*#batch classes"]) -> Bool[Array, "*batch classes"]:
    """The classes whose risk is at least the lowest for which a condition holds; it holds from the largest down."""
    xp = namespace(scaled)
    lowest = xp.min(choose(condition | (risks == 0), risks, 0.0), axis=-1, keepdims=True)
    return scaled >= lowest
