"""Learning rates over time: pure functions of the step, and the schedulers of torch by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from advshift.errors import InputError
from advshift.registry import nearest
from advshift.training.torch_schedules import TORCH_SCHEDULES, torch_schedule

__all__ = ["SCHEDULES", "Factor", "build_schedule", "constant", "cosine", "linear", "one_cycle", "step_decay"]

Factor: TypeAlias = Callable[[int], float]


def _after_warmup(warmup: int | float, decay: Factor) -> Factor:
    """Rise in equal steps to 1 at step `warmup`, then `decay` of the steps since then."""
    whole = math.ceil(warmup)
    return lambda step: (step + 1) / (whole + 1) if step < whole else decay(step - whole)


def constant(total_steps: int, steps_per_epoch: int, *, warmup: int | float = 0) -> Factor:
    """1 at every step."""
    return _after_warmup(_warmup_steps(warmup, total_steps), lambda step: 1.0)


def cosine(total_steps: int, steps_per_epoch: int, *, warmup: int | float = 0, final: int | float = 0.0) -> Factor:
    """`final + (1 - final)·(1 + cos(π·t))/2`, with `t` the share of the steps after the warm-up that is done.

    >>> factor = cosine(100, 10)
    >>> factor(0), round(factor(50), 3), factor(100)
    (1.0, 0.5, 0.0)
    """
    rise = _warmup_steps(warmup, total_steps)
    length = total_steps - rise

    def decay(step: int) -> float:
        return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * min(step / length, 1.0)))

    return _after_warmup(rise, decay)


def linear(total_steps: int, steps_per_epoch: int, *, warmup: int | float = 0, final: int | float = 0.0) -> Factor:
    """From 1 to `final` in equal steps."""
    rise = _warmup_steps(warmup, total_steps)
    length = total_steps - rise
    return _after_warmup(rise, lambda step: 1.0 + (final - 1.0) * min(step / length, 1.0))


def step_decay(
    total_steps: int,
    steps_per_epoch: int,
    *,
    warmup: int | float = 0,
    milestones: Sequence[int | float] | None = None,
    every: int | None = None,
    gamma: int | float = 0.1,
) -> Factor:
    """Multiply by `gamma` at each milestone.

    Parameters
    ----------
    total_steps, steps_per_epoch
        The length of training.
    warmup
        Steps, or a fraction of training; the milestones are counted from the start of training all the same.
    milestones
        Epochs (whole numbers) or fractions of training (below 1); half and three quarters by default.
    every
        In place of milestones: each time that so many epochs are done.
    gamma
        The factor.

    >>> factor = step_decay(100, 10, milestones=[3, 0.5])
    >>> [round(factor(step), 4) for step in (29, 30, 49, 50)]
    [1.0, 0.1, 0.1, 0.01]
    """
    rise = math.ceil(_warmup_steps(warmup, total_steps))
    if milestones is not None and every is not None:
        raise InputError("a step schedule takes milestones or every, not both")
    if every is not None:
        if not _is_whole(every) or every < 1:
            raise InputError(f"every must be a whole number of epochs from 1 up; got {every!r}")
        return _after_warmup(rise, lambda step: gamma ** ((step + rise) // (every * steps_per_epoch)))
    given = (0.5, 0.75) if milestones is None else milestones
    marks = [_mark(value, total_steps, steps_per_epoch) for value in given]
    return _after_warmup(rise, lambda step: gamma ** sum(step + rise >= mark for mark in marks))


def one_cycle(
    total_steps: int,
    steps_per_epoch: int,
    *,
    warmup: int | float = 0.3,
    divide: int | float = 25.0,
    final_divide: int | float = 1e4,
) -> Factor:
    """Half a cosine up from `1/divide` to 1, and one down to `1/(divide·final_divide)` at the last step.

    As torch's `OneCycleLR`, with the momentum left alone (Smith and Topin, 2017).

    >>> factor = one_cycle(100, 10, warmup=0.3)
    >>> round(factor(0), 4), factor(29)
    (0.04, 1.0)
    """
    low, lowest = 1.0 / divide, 1.0 / (divide * final_divide)
    peak, last = max(_warmup_share(warmup, total_steps) - 1.0, 0.0), total_steps - 1.0

    def factor(step: int) -> float:
        if step <= peak and peak > 0:
            return _half_cosine(low, 1.0, step / peak)
        return _half_cosine(1.0, lowest, min((step - peak) / (last - peak), 1.0) if last > peak else 1.0)

    return factor


def _half_cosine(start: int | float, end: int | float, share: int | float) -> float:
    return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * share))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mark(value: int | float, total_steps: int, steps_per_epoch: int) -> int:
    """Find the step of a milestone."""
    if _is_whole(value) and value >= 0:
        return int(value) * steps_per_epoch
    if isinstance(value, float) and 0.0 <= value < 1.0:
        return round(value * total_steps)
    raise InputError(f"a milestone is a whole number of epochs, or a fraction of training below 1; got {value!r}")


def _warmup_share(warmup: int | float, total_steps: int) -> float:
    """Return the steps of the warm-up, which need not be whole."""
    if _is_whole(warmup) and 0 <= warmup < max(total_steps, 1):
        return float(warmup)
    if isinstance(warmup, float) and 0.0 <= warmup < 1.0:
        return warmup * total_steps
    raise InputError(
        f"warmup must be a whole number of steps below the {total_steps} of training, or a fraction below 1; "
        f"got {warmup!r}"
    )


def _warmup_steps(warmup: int | float, total_steps: int) -> int:
    return min(round(_warmup_share(warmup, total_steps)), total_steps - 1)


SCHEDULES: dict[str, Callable[..., Factor]] = {
    "constant": constant,
    "cosine": cosine,
    "step": step_decay,
    "one-cycle": one_cycle,
    "linear": linear,
}


def build_schedule(
    name: str,
    total_steps: int,
    steps_per_epoch: int,
    *,
    lr: int | float = 1.0,
    warmup: int | float | None = None,
    **options: Any,
) -> Factor:
    """Make the function from a step to the factor on the learning rate.

    Parameters
    ----------
    name
        `"constant"`, `"cosine"`, `"step"`, `"one-cycle"` or `"linear"`, or a scheduler of torch such as `"StepLR"`.
    total_steps, steps_per_epoch
        The length of training, in optimiser steps.
    lr
        The optimiser's learning rate; schedulers of torch take some rates as they are.
    warmup
        A whole number of steps, or a fraction of training; a scheduler of torch begins after it.
    options
        Those of the schedule.

    >>> factor = build_schedule("cosine", total_steps=100, steps_per_epoch=10, warmup=4)
    >>> [round(factor(step), 2) for step in (0, 1, 4, 52, 100)]
    [0.2, 0.4, 1.0, 0.5, 0.0]
    """
    if name not in SCHEDULES and name not in TORCH_SCHEDULES:
        known = [*SCHEDULES, *TORCH_SCHEDULES]
        raise InputError(f"unknown schedule {name!r}{nearest(name, known)} (known: {', '.join(known)})")
    for what, value in (("total_steps", total_steps), ("steps_per_epoch", steps_per_epoch)):
        if not _is_whole(value) or value < 1:
            raise InputError(f"{what} must be a whole number from 1 up; got {value!r}")
    if name in TORCH_SCHEDULES:
        rise = math.ceil(_warmup_steps(warmup or 0, total_steps))
        return _after_warmup(rise, torch_schedule(name, total_steps - rise, steps_per_epoch, lr=lr, **options))
    kind = SCHEDULES[name]
    options |= {} if warmup is None else {"warmup": warmup}
    _check_options(name, kind, options)
    try:
        factor = kind(total_steps, steps_per_epoch, **options)
        ends = [factor(0), factor(total_steps)]
        sound = all(math.isfinite(value) and value >= 0.0 for value in ends)
    except (TypeError, ZeroDivisionError, OverflowError):
        sound = False
    if not sound:
        given = ", ".join(f"{option} = {value!r}" for option, value in options.items())
        raise InputError(
            f"schedule {name!r} gives no learning rate with {given}; its options are numbers, and milestones a list"
        )
    return factor


def _check_options(name: str, kind: Callable[..., Factor], options: Mapping[str, Any]) -> None:
    known = [
        option for option in inspect.signature(kind).parameters if option not in ("total_steps", "steps_per_epoch")
    ]
    for option in options:
        if option not in known:
            raise InputError(
                f"schedule {name!r} has no option {option!r}{nearest(option, known)} (its options: {', '.join(known)})"
            )
