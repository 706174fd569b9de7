"""An average of the weights over the steps of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from advshift.errors import InputError

__all__ = ["WeightAverage"]


class WeightAverage:
    """The exponential moving average `a ← d·a + (1-d)·θ` of a model's parameters and of its norms' statistics.

    The decay rises as `min(d, (1+n)/(10+n))` over the first updates `n`, so that the first weights are soon forgotten.
    Buffers that count are copied. Averages of numbers in half precision are kept in float32.

    Parameters
    ----------
    model
        On its device already; not a wrapper of it.
    decay
        How long a step is remembered: 0.999 is about a thousand steps.

    >>> model = nn.Linear(2, 1)
    >>> average = WeightAverage(model, 0.9)
    >>> average.update(model)
    >>> with average.swap(model):
    ...     _ = model(torch.zeros(1, 2))
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        if isinstance(decay, bool) or not isinstance(decay, float) or not 0.0 <= decay < 1.0:
            raise InputError(f"the decay of an average must be a number from 0 up to below 1; got {decay!r}")
        self.decay, self.updates = decay, 0
        self.tensors = {name: _wide(value.detach()).clone() for name, value in _tensors(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after an optimiser step."""
        self.updates += 1
        weight = 1.0 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, value in _tensors(model):
            if value.is_floating_point():
                self.tensors[name].lerp_(value.to(self.tensors[name].dtype), weight)
            else:
                self.tensors[name].copy_(value)

    @contextmanager
    def swap(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averages for as long as the block runs; then its own weights again, to the last bit."""
        own = {name: value.detach().clone() for name, value in _tensors(model)}
        _fill(model, self.tensors)
        try:
            yield
        finally:
            _fill(model, own)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"decay": self.decay, "updates": self.updates, "tensors": dict(self.tensors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        found = {name: tuple(value.shape) for name, value in state["tensors"].items()}
        own = {name: tuple(value.shape) for name, value in self.tensors.items()}
        if found != own:
            odd = next(name for name in [*own, *found] if own.get(name) != found.get(name))
            raise InputError(f"the saved average is of another model: {odd!r} differs in shape or is missing")
        self.decay, self.updates = float(state["decay"]), int(state["updates"])
        for name, value in state["tensors"].items():
            self.tensors[name].copy_(value)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _wide(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


@torch.no_grad()
def _fill(model: nn.Module, values: dict[str, Tensor]) -> None:
    for name, value in _tensors(model):
        value.copy_(values[name])
