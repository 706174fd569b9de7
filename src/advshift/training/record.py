"""What `run.json` says: what is trained, with what, and where."""

from __future__ import annotations

import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import advshift
from advshift.training.session import Session

__all__ = ["changes", "describe", "introduction", "peak_memory", "training_mix"]

# What resumed numbers depend on, down to the last bit.
SURROUNDINGS = ("versions", "device", "instructions", "precision", "world", "threads")


def describe(session: Session) -> dict[str, Any]:
    """The record of a run that is about to begin."""
    return {
        "name": session.recipe.name,
        "status": "new",
        "reason": None,
        "fingerprint": session.data.fingerprint,
        "versions": {
            "advshift": advshift.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": _device_name(session.workers.device),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "precision": session.formats.precision,
        "world": session.workers.world,
        "threads": session.threads,
        "epochs": session.recipe.training.epochs,
        "steps": session.total_steps,
        "classes": list(session.data.class_names),
        "train_counts": session.feed.train_counts.tolist(),
        "parameters": sum(parameter.numel() for parameter in session.model.parameters()),
        "seed": session.recipe.seed,
    }


def introduction(session: Session) -> str:
    """What is about to be trained, in a sentence."""
    workers, training = session.workers, session.recipe.training
    parameters = sum(parameter.numel() for parameter in session.model.parameters())
    together = f", {workers.world} processes" if workers.world > 1 else ""
    chooses = "" if session.feed.has("validation") else "; without a validation part no best checkpoint is chosen"
    return (
        f"{session.recipe.name}: {session.recipe.model.name}, {parameters:,} parameters; {session.feed.size:,} "
        f"training examples of {session.classes:,} classes; {session.total_steps:,} steps of {training.batch_size:,} "
        f"on {_device_name(workers.device)}, {session.formats.precision}{together}{chooses}"
    )


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a resumed run computes with that it did not begin with."""
    return [f"{key}: {old[key]} → {new[key]}" for key in SURROUNDINGS if key in old and old[key] != new[key]]


def training_mix(record: Mapping[str, Any]) -> str:
    """The training examples per class as CSV, which an audit reads as its reference."""
    rows = zip(record["classes"], record["train_counts"], strict=True)
    return "class,count\n" + "".join(f"{_quoted(name)},{count}\n" for name, count in rows)


def peak_memory(device: torch.device) -> int:
    """The most bytes that were in use: the device's, or the process's own."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:  # what Linux says of a process's resources counts what its parent held before it began
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') else name
