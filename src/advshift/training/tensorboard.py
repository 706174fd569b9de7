"""Event files for TensorBoard, beside what a reporter shows. An extra."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from advshift.errors import require
from advshift.training.progress import Reporter

__all__ = ["TensorBoard", "with_tensorboard"]


class TensorBoard:
    """Passes everything on to another reporter, and writes the numbers of each epoch.

    Parameters
    ----------
    inner
        Who shows the progress.
    folder
        The run's folder; the event files go into `tensorboard` in it.
    """

    def __init__(self, inner: Reporter, folder: Path) -> None:
        require("tensorboard", "--tensorboard", "tensorboard")
        self.inner, self.folder = inner, folder / "tensorboard"
        self._writer: Any = None

    def __enter__(self) -> Reporter:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.folder))
        self.inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self.inner.__exit__(kind, error, trace)

    def say(self, message: str) -> None:
        """See `Reporter`."""
        self.inner.say(message)

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        """See `Reporter`."""
        self.inner.step(epoch, epochs, step, steps, examples)

    def epoch(self, row: dict[str, Any], epochs: int, split: str) -> None:
        """See `Reporter`."""
        for name, value in scalars(row).items():
            self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()
        self.inner.epoch(row, epochs, split)


def with_tensorboard(reporter: Reporter, folder: Path) -> Reporter:
    """Let a reporter's run be seen in TensorBoard, too."""
    return TensorBoard(reporter, folder)


def scalars(row: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a row by path, such as `test/worst_case/1`."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found |= scalars(value, f"{prefix}{name}/")
        elif name not in ("epoch", "step"):
            found[prefix + name] = float(value)
    return found
