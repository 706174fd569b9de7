"""What a person sees while a run goes on: a table that grows over a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from advshift.training.history import chosen_radius

__all__ = ["Lines", "Reporter", "Screen", "Silent", "duration", "reporter_for"]

PLAIN_SECONDS = 30.0  # between two plain lines within an epoch
SCREEN_SECONDS = 0.25
BAR_WIDTH = 16  # characters


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
        self.console.print(Text(message, style="dim"), soft_wrap=True)

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        """See `Reporter`."""
        now = time.monotonic()
        if self._first is None:  # the clock starts at its end
            self._first, self._began = step, now
            return
        self._examples += examples
        if now - self._shown < self.seconds:
            return
        self._shown = now
        passed = max(now - self._began, 1e-9)
        left = passed / (step - self._first) * (steps - step)
        line = (
            f"epoch {epoch}/{epochs}   step {step:,}/{steps:,}   {self._examples / passed:,.0f} examples/s   "
            f"{duration(left)} left"
        )
        self._show(line, step / steps)

    def _show(self, line: str, share: float) -> None:
        raise NotImplementedError


class Lines(_Paced):
    """A plain line every half a minute, and one for each epoch."""

    def _show(self, line: str, share: float) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""
        words = [f"{name} {value}" for name, value in epoch_cells(row, epochs, split).items() if value]
        self.console.print("   ".join(words), highlight=False, soft_wrap=True)


class Screen(_Paced):
    """A bar that moves in place, below the table of the epochs."""

    seconds = SCREEN_SECONDS

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(Text(""), console=console, transient=True, auto_refresh=False)
        self._names: list[str] = []  # of the columns

    def __enter__(self) -> Reporter:
        self._live.__enter__()
        return self

    def __exit__(self, *rest: Any) -> None:
        self._live.__exit__(*rest)

    def _show(self, line: str, share: float) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_row(ProgressBar(total=1.0, completed=share, width=BAR_WIDTH), Text(line, style="cyan"))
        self._live.update(grid, refresh=True)

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""
        cells = epoch_cells(row, epochs, split)
        if not set(cells) <= set(self._names):  # an epoch without a measurement leaves its cells empty
            self._names = list(cells)
            self._line({name: name for name in cells}, epochs, style="bold")
        self._line(cells, epochs)

    def _line(self, cells: dict[str, str], epochs: int, style: str = "") -> None:
        least = len(f"{epochs}/{epochs}")
        line = "  ".join(cells.get(name, "").rjust(max(len(name), least)) for name in self._names)
        self.console.print(Text(line, style=style), soft_wrap=True)


def epoch_cells(row: dict[str, Any], epochs: int, split: str) -> dict[str, str]:
    """The numbers of an epoch by what they are; of the worst cases the one by which the best checkpoint is chosen."""
    cells = {"epoch": f"{row['epoch']}/{epochs}", "train loss": f"{row['train']['loss']:.3f}"}
    measured = row.get(split)
    if measured:
        cells[f"{split} error"] = f"{measured['error']:.1%}"
        cells["worst class"] = f"{measured['worst_class_error']:.1%}" if "worst_class_error" in measured else ""
        worst = measured.get("worst_case", {})
        chosen = chosen_radius(worst)
        if chosen is not None:
            cells[f"worst case at {chosen}"] = f"{worst[chosen]:.1%}"
    return cells | {"examples/s": f"{row['images_per_second']:,.0f}"}


def reporter_for(console: Console) -> Reporter:
    """A table over a live bar on a terminal, plain lines elsewhere."""
    return Screen(console) if console.is_terminal else Lines(console)


def duration(seconds: float | int) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
