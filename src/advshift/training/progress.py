"""What a person sees while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

__all__ = ["Lines", "Reporter", "Screen", "Silent", "reporter_for"]

PLAIN_SECONDS = 30.0  # between two plain lines within an epoch
SCREEN_SECONDS = 0.25


@runtime_checkable
class Reporter(Protocol):
    """Is told of every step and epoch; what costs time it does seldom."""

    def __enter__(self) -> Reporter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, message: str) -> None:
        """Print a sentence."""

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        """Note an optimiser step, the `step`-th of `steps` in all, on so many examples."""

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """Show the numbers of an epoch."""


class Silent:
    """Says nothing."""

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, message: str) -> None:
        """See `Reporter`."""

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        """See `Reporter`."""

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""


class _Paced(Silent):
    """Works out speed and time left, and shows them every so often."""

    seconds = PLAIN_SECONDS

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = self._shown = time.monotonic()
        self._first: int | None = None
        self._examples = 0

    def say(self, message: str) -> None:
        """See `Reporter`."""
        self.console.print(Text(message, style="dim"))

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        """See `Reporter`."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = step - 1, now
        self._examples += examples
        if now - self._shown < self.seconds:
            return
        self._shown = now
        passed = max(now - self._began, 1e-9)
        left = passed / max(step - self._first, 1) * (steps - step)
        self._show(
            f"epoch {epoch}/{epochs}   step {step:,}/{steps:,}   {self._examples / passed:,.0f} examples/s   "
            f"{_duration(left)} left"
        )

    def _show(self, line: str) -> None:
        raise NotImplementedError


class Lines(_Paced):
    """A plain line every half a minute, and one for each epoch."""

    def _show(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""
        self.console.print(epoch_line(row, epochs, split), highlight=False, soft_wrap=True)


class Screen(_Paced):
    """A line that changes in place, below the table of the epochs."""

    seconds = SCREEN_SECONDS

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(Text(""), console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Reporter:
        self._live.__enter__()
        return self

    def __exit__(self, *rest: Any) -> None:
        self._live.__exit__(*rest)

    def _show(self, line: str) -> None:
        self._live.update(Text(line, style="cyan"), refresh=True)

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""
        table = Table.grid(padding=(0, 2))
        table.add_row(*epoch_cells(row, epochs, split))
        self.console.print(table)


def epoch_cells(row: dict[str, Any], epochs: int, split: str) -> list[str]:
    """The numbers of an epoch, in words."""
    cells = [f"epoch {row['epoch']:>{len(str(epochs))}}/{epochs}", f"train loss {row['train']['loss']:.3f}"]
    measured = row.get(split)
    if measured:
        cells.append(f"{split} error {measured['error']:.1%}")
        if "worst_class_error" in measured:
            cells.append(f"worst class {measured['worst_class_error']:.1%}")
        cells += [f"worst case at {radius} {value:.1%}" for radius, value in measured.get("worst_case", {}).items()]
    cells.append(f"{row['images_per_second']:,.0f} examples/s")
    return cells


def epoch_line(row: dict[str, Any], epochs: int, split: str) -> str:
    """The numbers of an epoch in one plain line."""
    return "   ".join(epoch_cells(row, epochs, split))


def reporter_for(console: Console) -> Reporter:
    """A live line on a terminal, plain lines elsewhere."""
    return Screen(console) if console.is_terminal else Lines(console)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
