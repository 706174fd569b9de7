"""What every uncertainty set shares: checks, scaling, broadcasting and chunks. A set adds its formula in `_solve`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float

from advshift.errors import InputError
from advshift.numerics.backend import (
    as_floating,
    as_like,
    as_numpy,
    as_scalar,
    check_broadcast,
    check_distribution,
    check_rows,
    choose,
    dot,
    epsilon,
    from_host,
    highest,
    is_torch,
    lowest,
    namespace,
    restrict,
    squeeze,
    to_host,
    total,
    total_where,
)
from advshift.types import Array, ArrayLike, PerProblem, PerProblemFlag, WorstCase

__all__ = ["Ball", "Problem", "Solution", "Support", "UncertaintySet"]

Support = Literal["reference", "all"]

ROUNDING = 1e-12  # by how much a sum may miss one before the reference is divided by it
CHUNK = 1 << 17  # numbers in one temporary (1 MiB): a large batch stays in the cache and in bounded memory


class Problem(NamedTuple):
    """A batch of scaled problems, as the formulas take them.

    `scaled` holds the risks, shifted and scaled to 0 at the largest and -1 at the smallest over the `allowed` classes,
    those that may carry mass; all are 0 where the risks are equal. Elsewhere `scaled` is -1. `start` is a multiplier,
    in the same units, from which a search may begin.
    """

    scaled: Float[Array, "*#batch classes"]
    reference: Float[Array, "*#batch classes"]
    allowed: Bool[Array, "*#batch classes"]
    start: PerProblem | None = None

    def top(self) -> Bool[Array, "*#batch classes"]:
        """The classes of largest risk."""
        return self.allowed & (self.scaled == 0)

    def top_mass(self) -> PerProblem:
        """The reference's mass on the classes of largest risk."""
        return total_where(self.top(), self.reference)

    def concentrated(self) -> Float[Array, "*#batch classes"]:
        """The reference restricted to the classes of largest risk; uniform on them if it has no mass there."""
        xp = namespace(self.scaled)
        top = xp.astype(self.top(), self.scaled.dtype)
        share = choose(self.top_mass() > 0, self.reference * top, top)
        return share / total(share)


class Solution(NamedTuple):
    """What a formula returns, in scaled units; numbers per problem keep the last axis with length 1.

    `multiplier` is None for a set without one radius, `converged` is None where nothing is iterated.
    """

    distribution: Float[Array, "*batch classes"]
    multiplier: PerProblem | None
    converged: PerProblemFlag | None


class UncertaintySet(ABC):
    """A set of label distributions around a reference, over which the worst case is taken.

    Parameters
    ----------
    support
        `"reference"`: a class without mass in the reference gets none. `"all"`: it may gain mass where the set's
        formula lets it (for `KLBall`, `ChiSquareBall` and `FrequencyCap` none does, by definition).
    """

    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, support: Support = "reference") -> None:
        if support not in get_args(Support):
            raise InputError(f"support must be 'reference' or 'all'; got {support!r}")
        self.support: Support = support

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers that define the set, by name."""
        return {name: getattr(self, name) for name in self.parameter_names}

    @property
    def _everywhere(self) -> bool:
        """Whether every class may carry mass."""
        return self.lifts and self.support == "all"

    def __repr__(self) -> str:
        plain = {
            key: value.item() if isinstance(value, np.generic) else value for key, value in self.parameters.items()
        }
        values = [f"{name}={value!r}" for name, value in plain.items()]
        if self.support != "reference":
            values.append(f"support={self.support!r}")
        return f"{type(self).__name__}({', '.join(values)})"

    def worst_case(
        self, risks: ArrayLike, reference: ArrayLike, *, steps: int | None = None, start: ArrayLike | None = None
    ) -> WorstCase:
        """Find `max π·risks` over the set, exactly.

        Leading axes of the risks, of the reference and of the set's radius are broadcast against each other:
        `KLBall(radii[:, None])` on risks of shape `(models, classes)` gives values of shape `(radii, models)`.

        Parameters
        ----------
        risks
            A number per class (an error, a loss, a cost), shape `(..., classes)`.
        reference
            The set's centre, a label distribution of shape `(classes,)` or `(..., classes)`.
        steps
            `None` checks the input and iterates until converged. A number takes exactly that many steps, checks
            nothing and never waits for the device: the form for compiled code.
        start
            With `steps`, the multiplier of a similar problem: a search begins there, so that few steps suffice. What
            is not a positive number is passed over, and so it is by the sets that need no search.

        Returns
        -------
        WorstCase
            For tensors, the gradient of `value` with respect to the risks is the distribution (Danskin's theorem).
        """
        risks, reference = as_floating(risks=risks, reference=reference)
        operands = (risks, reference, *self._operands(risks))
        if steps is not None:
            start = None if start is None else as_like(start, risks)[..., None]
            found = self._worst_case(*operands, steps=steps, start=start)
        elif start is None:
            found = WorstCase(*self._run(self._worst_case, operands, self._check))
        else:
            raise InputError("a start is for a fixed number of steps; pass steps= too")
        if is_torch(risks) and risks.requires_grad:
            attached = found.value + squeeze(dot(found.distribution, risks - risks.detach()))
            return found._replace(value=attached)
        return found

    def value(self, risks: ArrayLike, reference: ArrayLike) -> Array:
        """Find the worst case's value alone: as `worst_case`, in memory that does not grow with the distributions."""
        risks, reference = as_floating(risks=risks, reference=reference)
        operands = (risks, reference, *self._operands(risks))
        return self._run(lambda *chunk: self._worst_case(*chunk)[:1], operands, self._check)[0]

    def breaking_point(self, risks: ArrayLike, reference: ArrayLike, target: ArrayLike) -> Array:
        """Find the smallest radius at which the worst case reaches `target`, whatever this set's own radius.

        Returns
        -------
        Array
            0 where the risk at the reference is `target` already, infinity where no radius reaches it. The shapes of
            risks, reference and target are broadcast as in `worst_case`.
        """
        risks, reference = as_floating(risks=risks, reference=reference)
        if not bool(np.all(as_numpy(target) == as_numpy(target))):
            raise InputError(f"the target must be a number, or an array of them; got {target!r}")
        goal = as_like(target, risks)[..., None]
        return self._run(self._breaking_point, (risks, reference, goal))[0]

    def _run(
        self,
        function: Callable[..., Sequence[Array]],
        operands: tuple[Array, ...],
        check: Callable[..., None] | None = None,
    ) -> tuple[Array, ...]:
        """Check the operands and apply a function to them in chunks, on the host through NumPy."""
        like = operands[0]
        with np.errstate(all="ignore"):
            operands = self._checked(*[to_host(array) for array in operands])
            if check is not None:
                check(operands[1], operands[2:])
            results = _in_chunks(function, operands)
        return tuple(from_host(array, like) for array in results)

    def _checked(self, risks: Array, reference: Array, *operands: Array) -> tuple[Array, ...]:
        """Refuse what has no answer, normalise the reference, and return all operands ready to be broadcast."""
        xp = namespace(risks)
        check_rows("risks", risks, reference)
        error = check_distribution(reference, "the reference")
        check_broadcast("risks", risks, reference, "radius or target", *operands)
        if not bool(xp.all(xp.isfinite(highest(risks) - lowest(risks)))):
            allowed = reference >= 0 if self._everywhere else reference > 0
            spread = highest(choose(allowed, risks, -float("inf"))) - lowest(choose(allowed, risks, float("inf")))
            if not bool(xp.all(xp.isfinite(spread))):
                raise InputError(_fault_of_risks(risks, allowed))
        return (risks, reference / total(reference) if error > ROUNDING else reference, *operands)

    def _worst_case(
        self, risks: Array, reference: Array, *operands: Array, steps: int | None = None, start: Array | None = None
    ) -> WorstCase:
        problem, largest, spread = _scale(risks, reference, everywhere=self._everywhere)
        if start is not None:
            problem = problem._replace(start=as_scalar(start) / spread)
        distribution, multiplier, converged = self._solve(problem, tuple(map(as_scalar, operands)), steps)
        value = largest + spread * dot(distribution, problem.scaled)
        exact = value == value
        multiplier = value + float("nan") if multiplier is None else multiplier * spread + 0.0 * value
        converged = exact if converged is None else converged & exact
        return WorstCase(squeeze(value), distribution, squeeze(multiplier), squeeze(converged))

    def _breaking_point(self, risks: Array, reference: Array, target: Array) -> tuple[Array]:
        problem, largest, spread = _scale(risks, reference, everywhere=self._everywhere)
        mean = dot(self._centre(problem), problem.scaled)
        goal = (as_scalar(target) - largest) / choose(spread > 0, spread, 1.0)
        slack = 4.0 * epsilon(risks)
        reached, never = goal <= mean + slack, goal > slack
        inside = choose(reached | never, 0.5 * mean, choose(goal < 0, goal, 0.0))
        radius = self._break(problem, inside)
        never = never & ~reached
        radius = choose(reached, self._at_rest(problem), choose(never, self._never, radius))
        return (squeeze(radius),)

    lifts: ClassVar[bool] = False  # whether the formula can give mass to a class that the reference lacks
    _unmoved: ClassVar[float] = 0.0  # the radius at which the set holds its centre alone
    _never: ClassVar[float] = float("inf")  # what the breaking point is when no radius reaches the target

    def _centre(self, problem: Problem) -> Array:
        """The distribution that the set shrinks to."""
        return problem.reference

    def _at_rest(self, problem: Problem) -> Array:
        """The radius at which the set holds its centre alone."""
        return 0.0 * problem.top_mass() + self._unmoved

    @abstractmethod
    def _operands(self, like: Array) -> tuple[Array, ...]:
        """The set's parameters as arrays like `like`, with a last axis of length 1 or of the number of classes."""

    def _check(self, reference: Array, operands: tuple[Array, ...]) -> None:  # noqa: B027
        """Raise if no distribution satisfies the constraints."""

    @abstractmethod
    def _solve(self, problem: Problem, operands: tuple[Array, ...], steps: int | None) -> Solution:
        """The set's formula, on scaled risks. It holds for every row at once and takes no branch on a value."""

    def _break(self, problem: Problem, target: Array) -> Array:
        """The radius whose worst case is `target`, which lies between the scaled risks' mean and 0."""
        raise InputError(f"{type(self).__name__} has no radius to vary, so there is no breaking point to find")


class Ball(UncertaintySet):
    """An uncertainty set with a radius: a number, or an array that is broadcast against the risks' leading axes."""

    parameter_names = ("radius",)

    def __init__(self, radius: ArrayLike, *, support: Support = "reference") -> None:
        super().__init__(support=support)
        values = as_numpy(radius)
        if values.dtype.kind not in "fiu" or not bool(np.all(values >= 0)):
            raise InputError(f"the radius must be a number from 0 up, or an array of them; got {radius!r}")
        self.radius = radius

    def _operands(self, like: Array) -> tuple[Array, ...]:
        return (as_like(self.radius, like)[..., None],)


def _scale(risks: Array, reference: Array, *, everywhere: bool) -> tuple[Problem, Array, Array]:
    """Shift and scale the risks of the classes that may carry mass to [-1, 0]; also their maximum and range."""
    if is_torch(risks):
        risks, reference = risks.detach(), reference.detach()
    allowed = reference >= 0 if everywhere else reference > 0
    largest = highest(restrict(risks, allowed, -float("inf")))
    smallest = lowest(restrict(risks, allowed, float("inf")))
    spread = largest - smallest
    varied = spread > 0
    scaled = risks - smallest
    scaled /= choose(varied, spread, 1.0)
    scaled -= choose(varied, spread / spread, 0.0)
    return Problem(restrict(scaled, allowed, -1.0), reference, allowed), largest, spread


def _fault_of_risks(risks: Array, allowed: Array) -> str:
    xp = namespace(risks)
    unknown = allowed & ~xp.isfinite(risks)
    bad = int(xp.sum(xp.astype(unknown, xp.int64)))
    if bad == 0:
        return f"the risks span more than a {risks.dtype} can hold; divide them by a constant first"
    return f"the risks must be finite for every class that may carry mass; {bad} of {prod(unknown.shape)} are not"


def _in_chunks(function: Callable[..., Sequence[Array]], operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Apply a function of broadcastable operands piece by piece along their leading axes, and join its results."""
    batch = np.broadcast_shapes(*[tuple(array.shape[:-1]) for array in operands])
    classes = operands[0].shape[-1]
    if not batch or prod(batch) * classes <= CHUNK:
        return tuple(function(*operands))
    rows = max(1, CHUNK // (prod(batch[1:]) * classes))
    pieces = []
    for begin in range(0, batch[0], rows):
        piece = tuple(_rows(array, len(batch), begin, begin + rows) for array in operands)
        if rows == 1 and len(batch) > 1:
            inner = _in_chunks(function, tuple(_drop_axis(array, len(batch)) for array in piece))
            pieces.append(tuple(array[None] for array in inner))
        else:
            pieces.append(tuple(function(*piece)))
    xp = namespace(operands[0])
    return tuple(xp.concat(parts, axis=0) for parts in zip(*pieces, strict=True))


def _rows(array: Array, axes: int, begin: int, end: int) -> Array:
    """Take rows of the first of `axes` leading axes, if the array has that axis and does not broadcast along it."""
    return array[begin:end] if array.ndim == axes + 1 and array.shape[0] > 1 else array


def _drop_axis(array: Array, axes: int) -> Array:
    """Remove the first of `axes` leading axes, which has length 1, if the array has it."""
    return array[0] if array.ndim == axes + 1 else array
