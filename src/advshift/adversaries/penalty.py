"""The penalty under which AdvShift's mirror ascent keeps its ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from advshift.adversaries.base import check_number
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy, check_distribution
from advshift.types import Array, ArrayLike

__all__ = ["PenaltySearch", "resting_divergence", "tune_penalty"]

LIMIT = 60  # bisections


class PenaltySearch(NamedTuple):
    """The penalty that was found, the divergence at which the adversary rests under it, and the trials it took."""

    penalty: float
    divergence: float
    converged: bool
    trials: int


def resting_divergence(
    penalty: float, class_losses: ArrayLike, reference: ArrayLike, *, step_size: float = 0.01
) -> float:
    """The divergence at which penalised mirror ascent rests while the class losses stay as they are.

    The fixed point of `π ∝ (π·p^α)^{1/(1+α)}·exp(η·m)` is the tilt `π ∝ p·exp(η·(1+α)/α·m)`.
    """
    losses, weights = _read(class_losses, reference)
    return _tilted_divergence(losses, weights, step_size * (1.0 + penalty) / penalty)


def tune_penalty(
    class_losses: ArrayLike,
    reference: ArrayLike,
    radius: float,
    *,
    step_size: float = 0.01,
    trial: Callable[[float], float] | None = None,
    low: float = 1e-4,
    high: float = 1e4,
    tolerance: float = 1e-3,
) -> PenaltySearch:
    """Find the smallest penalty `α` that holds the adversary in the ball, by bisection of its logarithm.

    A smaller penalty lets `KL(π ‖ p)` settle above the radius; a larger one throws `π` further back each time that it
    leaves, so that the ball is not used up.

    Parameters
    ----------
    class_losses
        The clipped class losses of a model as it is trained, for example an ERM model's.
    reference
        The training label distribution.
    radius
        The ball's radius.
    step_size
        The adversary's `η`.
    trial
        A function from a penalty to the divergence that a run with it ends with: a short training of the real model.
        It must not grow with the penalty. By default `resting_divergence` at the given losses.
    low, high
        The range that is searched.
    tolerance
        The relative width of the penalty's bracket at which the search ends.

    >>> found = tune_penalty([0.1, 0.5, 2.0], [0.6, 0.3, 0.1], radius=0.1)
    >>> round(found.penalty, 4), round(found.divergence, 3)
    (0.0161, 0.1)
    """
    check_number("the radius", radius, low=0.0, open_low=True)
    losses, weights = _read(class_losses, reference)
    run = trial or (lambda penalty: resting_divergence(penalty, losses, weights, step_size=step_size))
    if run(high) > radius:
        raise InputError(
            f"even the penalty {high:g} leaves the divergence above the radius {radius:g}; raise high or the radius"
        )
    reached, trials = run(low), 2
    if reached <= radius:
        return PenaltySearch(low, reached, True, trials)
    while high > low * (1.0 + tolerance) and trials < LIMIT:
        middle, trials = float(np.sqrt(low * high)), trials + 1
        low, high = (low, middle) if run(middle) <= radius else (middle, high)
    return PenaltySearch(high, run(high), high <= low * (1.0 + tolerance), trials + 1)


def _read(class_losses: ArrayLike, reference: ArrayLike) -> tuple[Array, Array]:
    losses, weights = (as_numpy(array).astype(np.float64) for array in (class_losses, reference))
    check_distribution(weights, "the reference")
    if losses.shape != weights.shape or not bool(np.all(np.isfinite(losses))):
        raise InputError(f"class_losses must be one finite number per class: {weights.shape}; got {losses.shape}")
    return losses, weights


def _tilted_divergence(losses: Array, reference: Array, rate: float) -> float:
    exponent = rate * (losses - losses[reference > 0].max())
    mass = reference * np.exp(np.minimum(exponent, 0.0))
    tilted = mass / mass.sum()
    return float(np.sum(tilted * exponent) - np.log(mass.sum()))
