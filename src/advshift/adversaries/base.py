"""What every adversary shares: a state of tensors, one pure step, and the facts that the objective asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np
import torch
from jaxtyping import Float

from advshift.errors import InputError, as_number
from advshift.numerics.backend import is_torch, namespace, restrict, to_host
from advshift.types import Array

__all__ = [
    "Adversary",
    "ClassLosses",
    "Initial",
    "Nothing",
    "Weighting",
    "check_choice",
    "check_number",
    "estimated_class_losses",
    "initial_distribution",
    "log_on_support",
    "on_host",
]

T = TypeVar("T")
Initial = Literal["uniform", "reference"]
Weighting = Literal["importance", "class-means"]

LOG_OF_NOTHING = -1e4  # stands for log 0: finite, so that 0·log 0 is 0, and its exponential is 0 in every dtype


class ClassLosses(NamedTuple):
    """What a step learns of the data: per class, the sum of the losses and the number of examples; and their total."""

    sums: Float[Array, "classes"]
    counts: Float[Array, "classes"]
    total: Float[Array, ""]


class Nothing(NamedTuple):
    """The state of an adversary that remembers nothing, and the information of a step that has none to give."""


class Adversary(ABC):
    """A rule by which the label distribution that the learner is trained on moves.

    A state is a named tuple of arrays of fixed shape: what the next step needs, and nothing else.
    `init` and `step` are pure functions. A step takes no Python branch on a value, so that it compiles as one graph and
    never waits for a device. One that is written for NumPy arrays as well as for tensors may say so in `takes_numpy`:
    the objective then steps on NumPy views of its buffers where they lie on the host, at a third of the cost.
    """

    name: ClassVar[str]
    clip: float = float("inf")  # the largest loss of an example that the adversary gets to see
    weighting: ClassVar[Weighting] = "importance"  # how the published learner weights its examples
    immediate: ClassVar[bool] = False  # whether a batch is weighted by the step that it causes itself
    takes_numpy: ClassVar[bool] = False  # whether `step` and `distribution` work on NumPy arrays, too
    warms_up: ClassVar[bool] = False  # whether the state gathers statistics while a delayed start is awaited
    responds: ClassVar[bool] = False  # whether a step is an answer around the reference, of which it takes the newest
    refusals: ClassVar[dict[str, str]] = {}  # options that make no sense here -> the reason

    @abstractmethod
    def init(self, reference: Float[Array, "classes"]) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, state: Any, losses: ClassLosses, reference: Float[Array, "classes"]) -> tuple[Any, Any]:
        """Return the state after one look at the class losses, and a named tuple of diagnostics."""

    def distribution(self, state: Any, reference: Float[Array, "classes"]) -> Float[Array, "classes"]:
        """Return the label distribution that the learner is to train on."""
        return cast(Array, state.distribution)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({values})"


def initial_distribution(initial: Initial, reference: Float[Array, "classes"]) -> Float[Array, "classes"]:
    """The reference, or the uniform distribution over the classes that have mass in it."""
    if initial == "reference":
        return reference
    present = namespace(reference).astype(reference > 0, reference.dtype)
    return present / present.sum()


def estimated_class_losses(
    losses: ClassLosses, reference: Float[Array, "classes"], present: Any = None
) -> Float[Array, "classes"]:
    """The unbiased estimate `g_i = (1/b) Σ_j 1[y_j = i]·ℓ_j / p_i` of the class losses; 0 where `p_i = 0`.

    `present` is `everywhere(reference > 0)`, where the caller knows it already.
    """
    present = reference > 0 if present is None else present
    return restrict(losses.sums / (losses.total * reference), present, 0.0)


def log_on_support(distribution: Float[Array, "classes"]) -> Float[Array, "classes"]:
    """The logarithm, with a large negative number for log 0."""
    return restrict(namespace(distribution).log(distribution), distribution > 0, LOG_OF_NOTHING)


def on_host(function: Callable[..., T], *arrays: Array) -> T:
    """Apply a function of small arrays: through NumPy on the host, where an iteration is several times as fast."""
    if is_torch(arrays[0]) and (arrays[0].device.type != "cpu" or torch.compiler.is_compiling()):
        return function(*arrays)
    with np.errstate(all="ignore"):
        return function(*map(to_host, arrays))


def check_number(
    name: str, value: Any, *, low: float, high: float = float("inf"), open_low: bool = False, finite: bool = False
) -> float:
    """Return a number as a float, or say which range it should lie in."""
    number = as_number(value)
    inside = (low < number if open_low else low <= number) and number <= high
    if not inside or (finite and number == float("inf")):
        above = f"above {low:g}" if open_low else f"from {low:g}"
        up_to = "up" if high == float("inf") else f"to {high:g}"
        raise InputError(f"{name} must be a {'finite ' if finite else ''}number {above} {up_to}; got {value!r}")
    return number


def check_choice(name: str, value: str, choices: Any) -> None:
    """Raise unless a value is among the members of a `Literal`."""
    if value not in get_args(choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}; got {value!r}")
