"""What goes wrong in torch and can be mended by the recipe, as a sentence that says how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from advshift.errors import InputError

__all__ = ["in_a_sentence"]

COMPILERS = ("torch._dynamo", "torch._inductor")


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Say what to change where memory does not suffice or the compiler fails; other errors stay what they are."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        advice = _advice(error)
        if advice is None:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{advice} ({reason[:300]})") from error


def _advice(error: Exception) -> str | None:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
        return (
            "the memory does not suffice; begin a new run with a smaller model, a smaller training.batch_size, a "
            "larger training.accumulate or, for images, data.storage=stream"
        )
    if type(error).__module__.startswith(COMPILERS):
        return "torch.compile failed; set training.compile=false"
    return None
