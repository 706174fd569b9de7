"""The schedulers of torch by name, as pure functions of the step: replayed on an optimiser of no consequence."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["TORCH_SCHEDULES", "torch_schedule"]

TORCH_SCHEDULES = (
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "StepLR",
)
PER_STEP = ("CyclicLR", "OneCycleLR")  # which torch's documentation steps after every batch


class _Replay:
    """The learning rates of a scheduler, worked out as far as they are asked for."""

    def __init__(self, name: str, lr: int | float, options: dict[str, Any]) -> None:
        import torch

        kind = getattr(torch.optim.lr_scheduler, name)
        known = [option for option in inspect.signature(kind).parameters if option not in ("optimizer", "last_epoch")]
        for option in options:
            if option not in known:
                raise InputError(
                    f"schedule {name!r} has no option {option!r}{nearest(option, known)} "
                    f"(its options: interval, {', '.join(known)})"
                )
        # Momentum, so that the schedulers that move it find some; only the learning rate is taken from here.
        self._optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr, momentum=0.9)
        try:
            self._scheduler = kind(self._optimizer, **options)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise InputError(f"schedule {name!r} refuses its options: {error}") from None
        self._rates = [self._rate()]

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])

    def __call__(self, number: int) -> float:
        while len(self._rates) <= number:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the optimiser has not stepped
                try:
                    self._scheduler.step()
                except ValueError:  # a cycle that is over
                    return self._rates[-1]
            self._rates.append(self._rate())
        return self._rates[number]


def torch_schedule(
    name: str,
    total_steps: int,
    steps_per_epoch: int,
    *,
    lr: int | float,
    interval: str | None = None,
    **options: Any,
) -> Any:
    """Make the function from a step to the factor on the learning rate.

    Parameters
    ----------
    name
        One of `TORCH_SCHEDULES`.
    total_steps, steps_per_epoch
        The length of training.
    lr
        The optimiser's learning rate, which some of these schedulers' options are compared with.
    interval
        What the scheduler counts: epochs; steps for those that torch steps after every batch.
    options
        Those of the class. `OneCycleLR` gets its `total_steps` from here, and `max_lr` if that is left out.

    >>> factor = torch_schedule("StepLR", 60, 10, lr=0.5, step_size=3)
    >>> [round(factor(step), 3) for step in (0, 29, 30, 59)]
    [1.0, 1.0, 0.1, 0.1]
    """
    counts = interval or ("step" if name in PER_STEP else "epoch")
    if counts not in ("step", "epoch"):
        raise InputError(f"interval must be 'step' or 'epoch'; got {interval!r}")
    length = 1 if counts == "step" else steps_per_epoch
    if name == "OneCycleLR":
        options = {"max_lr": lr, **options, "total_steps": -(-total_steps // length)}
    replay = _Replay(name, lr, options)
    return lambda step: replay(step // length) / lr
