"""The best response to running class losses: the exact worst case of any uncertainty set."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from advshift.adversaries.base import Adversary, ClassLosses, check_number, on_host
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy, choose, from_host, namespace
from advshift.numerics.classwise import class_means
from advshift.sets import SETS, UncertaintySet
from advshift.types import Array, WorstCase

__all__ = ["ExactAdversary", "ExactInfo", "ExactState", "RunningLosses"]

# Newton steps of the sets that need a search: few for the one that starts from the last multiplier.
SEARCH_STEPS = {"kl": 5, "reverse-kl": 12}


class RunningLosses(NamedTuple):
    """Moving averages of the class losses, and the weight that each has gathered, from 0 to 1."""

    averages: Float[Array, "classes"]
    weights: Float[Array, "classes"]

    def seen(self, losses: ClassLosses, momentum: float) -> RunningLosses:
        """Move the averages of the classes in the batch towards its mean losses."""
        share = (1.0 - momentum) * namespace(losses.counts).astype(losses.counts > 0, losses.counts.dtype)
        means = class_means(losses.sums, losses.counts)
        return RunningLosses(
            self.averages + share * (means - self.averages), self.weights + share * (1.0 - self.weights)
        )

    def estimates(self, reference: Float[Array, "classes"]) -> Float[Array, "classes"]:
        """The averages without their start-up bias; for a class not yet seen, the mean over those that were."""
        unseen = namespace(reference).astype(self.weights == 0, reference.dtype)
        losses = self.averages / (self.weights + unseen)
        mean = (reference * losses).sum() / ((reference - reference * unseen).sum() + 1e-30)
        return losses + unseen * mean


class ExactState(NamedTuple):
    """The running class losses, the worst case at them, and its multiplier, where the next search begins."""

    averages: Float[Array, "classes"]
    weights: Float[Array, "classes"]
    distribution: Float[Array, "classes"]
    multiplier: Float[Array, ""]


class ExactInfo(NamedTuple):
    """The worst-case risk at the running class losses, and whether its search converged."""

    value: Float[Array, ""]
    converged: Bool[Array, ""]


class ExactAdversary(Adversary):
    """Best response `π = argmax_{π ∈ P} Σ π_y·m_y` to running class losses, by the closed form of the set `P`.

    `m_y ← β·m_y + (1-β)·(mean clipped loss of class y in the batch)` for the classes of the batch, corrected for the
    start from zero by a weight per class. The set's constraint holds at every step, which a penalty does not promise: a
    search that has not converged in its few steps leaves the distribution as it is, to go on from there the next time.

    Parameters
    ----------
    radius
        For `uncertainty` given by name: its radius, ratio or `k`.
    uncertainty
        An uncertainty set, or the name of one that has a single parameter.
    momentum
        `β`: how long a batch is remembered. The longer, the less the adversary follows noise.
    clip
        The largest loss of one example that counts.

    >>> adversary = ExactAdversary(0.01)
    >>> reference = torch.full((3,), 1 / 3)
    >>> losses = ClassLosses(torch.tensor([1.0, 2.0, 4.0]), torch.ones(3), torch.tensor(3.0))
    >>> adversary.step(adversary.init(reference), losses, reference)[0].distribution
    tensor([0.2843, 0.3180, 0.3977])
    """

    name = "exact"
    takes_numpy = True
    clip = 2.0
    warms_up = True
    responds = True

    def __init__(
        self,
        radius: float | None = None,
        *,
        uncertainty: str | UncertaintySet = "kl",
        momentum: float = 0.98,
        clip: float = 2.0,
    ) -> None:
        self.uncertainty = _with_tensors(_as_set(uncertainty, radius))
        self.momentum = check_number("the momentum", momentum, low=0.0, high=1.0)
        self.clip = check_number("clip", clip, low=0.0, open_low=True)
        if self.momentum == 1.0:
            raise InputError("the momentum must be below 1, else the running losses never move")
        if self.uncertainty.support != "reference":
            raise InputError(
                "training cannot put mass on a class without examples, whatever its weight; use support='reference'"
            )

    def init(self, reference: Float[Array, "classes"]) -> ExactState:
        """Begin at the set's centre."""
        nothing = torch.zeros_like(reference)
        centre = self.uncertainty.worst_case(nothing, reference).distribution
        if centre.shape != reference.shape:
            raise InputError(f"the adversary needs one set, not an array of them; got {self.uncertainty!r}")
        return ExactState(nothing, nothing.clone(), centre.to(reference).clone(), nothing.sum())

    def step(
        self, state: ExactState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[ExactState, ExactInfo]:
        """Update the running losses and respond to them."""
        running = RunningLosses(state.averages, state.weights).seen(losses, self.momentum)
        worst = self._respond(running.estimates(reference), reference, state.multiplier)
        multiplier = choose(worst.multiplier < float("inf"), worst.multiplier, 0.0)  # nan and infinity start nothing
        distribution = choose(worst.converged, worst.distribution, state.distribution)
        return ExactState(*running, distribution, multiplier), ExactInfo(worst.value, worst.converged)

    def _respond(self, risks: Array, reference: Array, start: Array) -> WorstCase:
        steps = SEARCH_STEPS.get(self.uncertainty.name, 1)

        def respond(risks: Array, reference: Array, start: Array) -> WorstCase:
            return self.uncertainty.worst_case(risks, reference, steps=steps, start=start)

        found = on_host(respond, risks, reference, start)
        return WorstCase(*(from_host(array, risks) for array in found))


def _as_set(uncertainty: str | UncertaintySet, radius: float | None) -> UncertaintySet:
    if isinstance(uncertainty, UncertaintySet):
        if radius is not None:
            raise InputError("the uncertainty set has its own radius; leave radius out, or give the set by its name")
        return uncertainty
    kind = SETS[uncertainty]
    if uncertainty == "box":
        raise InputError("a box has two bounds; pass the set itself, for example uncertainty=Box(0.01, 0.2)")
    if not kind.parameter_names:
        if radius is not None:
            raise InputError(f"the uncertainty set {uncertainty!r} has no radius; leave it out")
        return kind()
    if radius is None:
        raise InputError(f"the uncertainty set {uncertainty!r} needs its {kind.parameter_names[0]}: pass radius=")
    if as_numpy(radius).size != 1:
        raise InputError(f"the radius must be one number; got {radius!r}")
    return kind(radius)  # type: ignore[call-arg, arg-type]


def _with_tensors(uncertainty: UncertaintySet) -> UncertaintySet:
    """Hold a set's arrays as tensors, which compiled code can read."""
    held = copy.copy(uncertainty)
    for name, value in uncertainty.parameters.items():
        array = as_numpy(value)
        setattr(held, name, torch.from_numpy(array.astype(np.float64)) if array.ndim else float(array))
    return held
