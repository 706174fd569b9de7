"""The adversary's step: entropic ascent on the class losses, pulled back to a reference by a KL penalty.

With the weights `π`, the reference `p`, the gradient `g` (a loss per class) and the parameter `λ`, the maximiser of
`g·q - α/(2λ)·KL(q ‖ p) - 1/(2λ)·KL(q ‖ π)` over the simplex is `q ∝ (π·p^α)^{1/(1+α)}·exp(2λg/(1+α))`. As a function
of `θ = 1/(1+α)` it is an exponential tilt of the reference, `q ∝ p·exp(θ·(log π - log p + 2λg))`, so that the `α` which
puts it on the boundary of a ball is the root that `tilt_to_divergence` finds.

Everything stays in logarithms. Classes that the reference or the weights lack, at `-inf`, get no mass and no nan.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float

from advshift.numerics.backend import choose, highest, lowest, namespace, squeeze, total
from advshift.numerics.divergences import kl_divergence
from advshift.numerics.tilt import TiltFamily, tilt_to_divergence
from advshift.types import Array

__all__ = ["ProximalStep", "exact_proximal_step", "log_normalised", "mirror_step"]


class ProximalStep(NamedTuple):
    """The outcome of an exact proximal step.

    Attributes
    ----------
    log_weights
        The logarithm of the new distribution.
    penalty
        The `α` that made it: 0 inside the ball, `2γλ` outside, between the two on the boundary.
    divergence
        `KL(π⁺ ‖ p)` of the new distribution.
    converged
        Whether the boundary was found to the tolerance; always true in the first two cases.
    """

    log_weights: Float[Array, "*batch classes"]
    penalty: Float[Array, "*batch"]
    divergence: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]


def mirror_step(
    log_weights: Float[Array, "*#batch classes"],
    log_reference: Float[Array, "*#batch classes"],
    gradient: Float[Array, "*#batch classes"],
    step_size: Array | float,
    penalty: Array | float,
) -> Float[Array, "*batch classes"]:
    """Take the closed-form step `log π⁺ = (log π + α·log p)/(1+α) + η·g`, normalised.

    Parameters
    ----------
    log_weights, log_reference
        Logarithms of the distribution and of the reference.
    gradient
        A loss per class; a larger one attracts mass.
    step_size
        `η`. The exact proximal step with the parameter `λ` has `η = 2λ/(1+α)`.
    penalty
        `α ≥ 0`, the pull towards the reference: a number, or an array with a last axis of length 1.

    >>> import numpy as np
    >>> uniform = np.log([0.5, 0.5])
    >>> np.exp(mirror_step(uniform, np.log([0.8, 0.2]), np.zeros(2), step_size=0.1, penalty=1.0)).round(4).tolist()
    [0.6667, 0.3333]
    """
    present = (log_reference > -float("inf")) & (log_weights > -float("inf"))
    own, centre = choose(present, log_weights, 0.0), choose(present, log_reference, 0.0)
    moved = own + (centre - own) * (penalty / (1.0 + penalty)) + step_size * choose(present, gradient, 0.0)
    return log_normalised(choose(present, moved, -float("inf")))


def exact_proximal_step(
    log_weights: Float[Array, "*#batch classes"],
    log_reference: Float[Array, "*#batch classes"],
    gradient: Float[Array, "*#batch classes"],
    step: Array | float,
    penalty: Array | float,
    radius: Array | float,
    *,
    steps: int | None = None,
) -> ProximalStep:
    """Maximise `g·q - γ·max(0, KL(q ‖ p) - r) - 1/(2λ)·KL(q ‖ π)` over the simplex, exactly.

    The penalty has a kink on the boundary of the ball, hence three cases. The step without penalty stands if it ends
    inside the ball, the step with the full penalty `α = 2γλ` if it ends outside. Otherwise the maximiser lies on the
    boundary, and `α` is what leads there.

    Parameters
    ----------
    log_weights, log_reference
        Logarithms of the distribution and of the reference.
    gradient
        A loss per class; a larger one attracts mass.
    step
        `λ`, the parameter of the proximal step.
    penalty
        `γ`, the weight of the penalty on leaving the ball.
    radius
        `r`, the ball's radius.
        These three are numbers, or arrays with a last axis of length 1.
    steps
        `None` iterates until converged, a number takes exactly so many steps and compiles as one graph; 20 are plenty.

    >>> import numpy as np
    >>> p = np.log([0.5, 0.3, 0.2])
    >>> found = exact_proximal_step(p, p, np.array([0.0, 1.0, 2.0]), step=0.5, penalty=10.0, radius=0.05)
    >>> np.exp(found.log_weights).round(4).tolist(), float(found.divergence.round(4))
    ([0.3629, 0.3212, 0.3159], 0.05)
    """
    path = _path(log_weights, log_reference, 2.0 * step * gradient)
    lowest_rate = 1.0 / (1.0 + 2.0 * penalty * step)
    inside, outside = path.at(1.0).divergence <= radius, path.at(lowest_rate).divergence >= radius
    between = ~inside & ~outside
    rate, converged = path.boundary(radius, between, steps)
    rate = choose(between, rate, 1.0)
    rate = choose(inside | between, rate, lowest_rate)
    found = path.at(rate)
    numbers = (1.0 / rate - 1.0, found.divergence, converged | ~between)
    return ProximalStep(found.log_weights, *[squeeze(number) for number in numbers])


class _Point(NamedTuple):
    log_weights: Float[Array, "*batch classes"]
    divergence: Float[Array, "*#batch 1"]


class _Path(NamedTuple):
    """The tilts `p·exp(θ·direction)` of a reference, restricted to the classes that are present."""

    present: Bool[Array, "*#batch classes"]
    log_reference: Float[Array, "*#batch classes"]
    direction: Float[Array, "*#batch classes"]

    def at(self, rate: Array | float) -> _Point:
        """The distribution at the rate `θ`, with its divergence from the reference."""
        xp = namespace(self.direction)
        log_weights = log_normalised(choose(self.present, self.log_reference + rate * self.direction, -float("inf")))
        return _Point(log_weights, kl_divergence(xp.exp(log_weights), xp.exp(self.log_reference)))

    def boundary(self, radius: Array | float, between: Array, steps: int | None) -> tuple[Array, Array]:
        """The rate whose divergence is the radius, where that lies between the two ends; a harmless one elsewhere."""
        xp = namespace(self.direction)
        largest = highest(choose(self.present, self.direction, -float("inf")))
        spread = largest - lowest(choose(self.present, self.direction, float("inf")))
        spread = choose(spread > 0, spread, 1.0)
        scaled = choose(self.present, (self.direction - largest) / spread, -1.0)
        reference = choose(self.present, xp.exp(self.log_reference), 0.0)
        mass = total(reference)
        limit = xp.log(mass) - xp.log(total(choose(self.present & (scaled == 0), reference, 0.0)))
        limit = choose(limit > 0, limit, 1.0)
        goal = choose(between, radius + xp.log(mass), 0.5 * limit)
        found = tilt_to_divergence(TiltFamily(scaled, reference / mass), goal, limit, steps=steps)
        return found.rate / spread, found.converged


def _path(log_weights: Array, log_reference: Array, boost: Array) -> _Path:
    present = (log_reference > -float("inf")) & (log_weights > -float("inf"))
    own, centre = choose(present, log_weights, 0.0), choose(present, log_reference, 0.0)
    return _Path(present, log_reference, own - centre + choose(present, boost, 0.0))


def log_normalised(logits: Float[Array, "*batch classes"]) -> Float[Array, "*batch classes"]:
    """Subtract the logarithm of the sum of exponentials over the last axis."""
    xp = namespace(logits)
    below = logits - highest(logits)
    return below - xp.log(total(xp.exp(below)))
