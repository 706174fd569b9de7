"""The processes that train together: torchrun's, or any launcher's that sets its variables. One process is the rule."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from advshift.errors import AdvshiftError, InputError

__all__ = ["Workers", "join_workers"]

T = TypeVar("T")

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Workers:
    """One process among those that train together.

    Attributes
    ----------
    rank, world
        Its number, and how many there are.
    device
        Where it computes.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over the processes, in place."""
        if self.world > 1:
            distributed.all_reduce(tensor)
        return tensor

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        if self.world == 1:
            return flag
        return bool(self.add_up(torch.tensor(float(flag), device=self.device)) > 0)

    def share(self, value: Any) -> Any:
        """Return the first process's value in all of them."""
        if self.world == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, device=self.device)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value, by rank."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, value)
        return found

    def together(self, action: Callable[[], T]) -> T:
        """Let the first process do something; its error is everybody's, so that none waits for one that has gone."""
        outcome: tuple[Any, str | None] = (None, None)
        if self.leads:
            try:
                outcome = (action(), None)
            except AdvshiftError as error:
                outcome = (None, str(error))
        result, fault = self.share(outcome)
        if fault is not None:
            raise InputError(fault)
        return result  # type: ignore[no-any-return]

    def wrap(self, model: nn.Module) -> nn.Module:
        """Let the gradients be averaged over the processes. Batch norm's statistics stay each process's own."""
        if self.world == 1:
            return model
        devices = [self.device.index] if self.device.type == "cuda" else None
        kind = nn.parallel.DistributedDataParallel
        # torch 2.13 gave the option another name, and warns of the old one.
        known = inspect.signature(kind).parameters
        option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        left_alone: dict[str, Any] = {option: False}
        return kind(model, device_ids=devices, **left_alone)

    def agree_on_buffers(self, model: nn.Module) -> None:
        """Take the first process's buffers (batch norm's running statistics) everywhere, before they are used."""
        if self.world > 1:
            for buffer in model.buffers():
                distributed.broadcast(buffer, src=0)


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Join the process group that the launcher's variables describe, and leave it at the end."""
    world = _number("WORLD_SIZE", 1)
    if world == 1:
        yield Workers(0, 1, _device(0))
        return
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise InputError(
            f"WORLD_SIZE={world} asks for several processes, but {', '.join(missing)} is not set; "
            "start with torchrun, or a launcher that sets its variables"
        )
    device = _device(_number("LOCAL_RANK", 0))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Workers(distributed.get_rank(), world, device)
    finally:
        distributed.destroy_process_group()


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"{name} must be a whole number; got {text!r}")
    return int(text)


def _device(local_rank: int) -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", local_rank % torch.cuda.device_count())
    return torch.device("cpu")
