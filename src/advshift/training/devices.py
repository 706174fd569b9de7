"""Number format and memory format: what a recipe leaves open is decided by the device that was found."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import nn

from advshift.training.recipe import TrainingSection

__all__ = ["Formats", "choose_formats"]


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
    convolves = any(isinstance(module, nn.Conv2d) for module in model.modules())
    precision, last = options.precision, options.channels_last
    if precision == "auto":
        precision = "bf16" if convolves and _has_bf16(device) else "float32"
    if last == "auto":
        last = convolves
    return Formats(precision, torch.channels_last if last else torch.contiguous_format, device)


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    known = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))
