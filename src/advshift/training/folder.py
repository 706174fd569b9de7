"""A run is a folder: its files, its lock, and how they are written so that nothing is ever half there."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from advshift.errors import InputError
from advshift.files import write_atomically

__all__ = ["RunFolder"]

SCHEMA = "advshift.run/1"


class RunFolder:
    """The files of one run.

    Parameters
    ----------
    path
        The folder; `create` makes it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def record(self) -> Path:
        """What the run is and how it stands."""
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        """A line of JSON per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def classes(self) -> Path:
        """The arrays per epoch and class."""
        return self.path / "classes.npz"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    def predictions(self, split: str) -> Path:
        """The final model's predictions on a split."""
        return self.path / "predictions" / f"{split}.npz"

    def create(self) -> None:
        """Make the folder and those in it."""
        for folder in (self.path, self.checkpoints, self.path / "predictions"):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"cannot make the run folder {str(folder)!r}: {error.strerror}; name another"
                ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; the lock goes when the process does, however it ends."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _take(descriptor):
                holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "another process"
                raise InputError(
                    f"the run folder {str(self.path)!r} is in use by {holder}; wait for it, or name another folder"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def in_use(self) -> bool:
        """Whether a process holds the folder."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _take(descriptor)
        finally:
            os.close(descriptor)

    def read_record(self) -> dict[str, Any]:
        """Read `run.json`."""
        try:
            tree = json.loads(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{str(self.path)!r} is no run folder: it holds no run.json") from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {str(self.record)!r}: {error}") from None
        if not isinstance(tree, dict) or tree.get("schema") != SCHEMA:
            raise InputError(f"{str(self.record)!r} does not hold a record of schema {SCHEMA!r}")
        return cast(dict[str, Any], tree)

    def write(self, path: Path, content: str | bytes) -> None:
        """Replace a file of the run; what goes wrong is one sentence, and the old file stays."""
        try:
            write_atomically(path, content)
        except OSError as error:
            raise InputError(
                f"cannot write {str(path)!r}: {error.strerror or error}; the last checkpoint is still there, make room "
                "and resume"
            ) from None

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace `run.json`."""
        self.write(self.record, json.dumps({"schema": SCHEMA, **record}, indent=1) + "\n")

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Replace the lines of all epochs."""
        self.write(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read the lines of all epochs."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines() if line.strip()]

    def write_arrays(self, path: Path, arrays: Mapping[str, Any]) -> None:
        """Replace an NPZ file."""
        buffer = io.BytesIO()
        named: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
        np.savez_compressed(buffer, **named)
        self.write(path, buffer.getvalue())


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
