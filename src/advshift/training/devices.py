"""Number format, memory format and threads: what a recipe leaves open is decided by the device that was found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from advshift.training.recipe import TrainingSection

__all__ = ["Formats", "choose_formats", "choose_threads", "keep_memory", "threads"]

# Parameters of glibc's mallopt, and the values that it begins with.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
GLIBC_DEFAULT, LARGEST = 128 * 1024, 1 << 30


class Formats(NamedTuple):
    """How tensors are laid out and multiplied."""

    precision: str
    memory: torch.memory_format
    device: torch.device

    def autocast(self) -> AbstractContextManager[object]:
        """Run the model in bf16 where that is the format; weights, statistics and the adversary stay float32."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def choose_formats(options: TrainingSection, device: torch.device, model: nn.Module) -> Formats:
    """Decide what `auto` means: bf16 and channels last for convolutions where the device multiplies bf16 natively."""
    convolves = _convolves(model)
    precision, last = options.precision, options.channels_last
    if precision == "auto":
        precision = "bf16" if convolves and _has_bf16(device) else "float32"
    if last == "auto":
        last = convolves
    return Formats(precision, torch.channels_last if last else torch.contiguous_format, device)


def choose_threads(wanted: int | str, device: torch.device, model: nn.Module) -> int:
    """Decide what `auto` means: one thread where there are no convolutions, whose steps are shorter than a wait.

    On a machine with other work, threads that wait for each other after every small product cost far more than they
    save.
    """
    if isinstance(wanted, int):
        return wanted
    return torch.get_num_threads() if device.type != "cpu" or _convolves(model) else 1


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch compute with so many threads for as long as the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def keep_memory() -> Iterator[None]:
    """Let the C library keep what is freed for the next step, for as long as the block runs.

    It otherwise hands the megabytes of each activation back to the system and asks for them again, page by page: a
    tenth of the time of a step of a small network. Only glibc can be told; elsewhere nothing happens.
    """
    import ctypes

    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tune is None:
        yield
        return
    for parameter in (MMAP_THRESHOLD, TRIM_THRESHOLD):
        tune(parameter, LARGEST)
    try:
        yield
    finally:
        for parameter in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            tune(parameter, GLIBC_DEFAULT)


def _convolves(model: nn.Module) -> bool:
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    return any(isinstance(module, kinds) for module in model.modules())


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))
