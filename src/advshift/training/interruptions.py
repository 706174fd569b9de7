"""Ctrl-C and SIGTERM ask a run to save and stop; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interruption", "interruptions"]


class Interruption:
    """Whether the run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def reason(self) -> str:
        """What asked."""
        return "stopped" if self.signal is None else f"stopped by {self.signal.name}"


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Note the signals while the block runs; outside the main thread there is nothing to note."""
    found = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return

    def note(number: int, frame: FrameType | None) -> None:
        if found and number == signal.SIGINT:
            raise KeyboardInterrupt
        found.signal = signal.Signals(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
