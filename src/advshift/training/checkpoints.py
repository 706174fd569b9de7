"""Checkpoints: written whole or not at all, read without executing anything, with the one before to fall back on."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from advshift.errors import AdvshiftError, InputError

__all__ = ["Checkpoints", "Found", "read_checkpoint"]

SCHEMA = "advshift.checkpoint/1"
LAST, PREVIOUS, BEST = "last.pt", "last.previous.pt", "best.pt"


class Found(NamedTuple):
    """A checkpoint that was read, where it lies, and what had to be said on the way."""

    state: dict[str, Any]
    path: Path
    notice: str | None = None

    @contextlib.contextmanager
    def taken_over(self) -> Iterator[None]:
        """While its content is taken over: what is missing or does not fit is one sentence."""
        try:
            yield
        except AdvshiftError:
            raise
        except Exception as error:
            # A whole file with another content: a key is missing, a tensor has another shape, a number is text, ...
            reason = (str(error).splitlines() or [""])[-1].strip()
            raise InputError(
                f"the checkpoint {str(self.path)!r} does not fit this run ({type(error).__name__}: {reason}); take it "
                "away to go on from the one before it, or begin a new run"
            ) from error


class Checkpoints:
    """The checkpoints of a run.

    Parameters
    ----------
    folder
        Where they lie; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, state: dict[str, Any]) -> None:
        """Make a state the last one; the last becomes the one before."""
        temporary = self._write(state)
        last = self.folder / LAST
        if last.exists():
            last.replace(self.folder / PREVIOUS)
        temporary.replace(last)
        _flush(self.folder)

    def copy_last(self, name: str) -> None:
        """Keep the last checkpoint under another name, too; it costs no room where the file system has hard links."""
        target, temporary = self.folder / name, self.folder / f".{name}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            os.link(self.folder / LAST, temporary)
        except OSError:
            temporary.write_bytes((self.folder / LAST).read_bytes())
        temporary.replace(target)

    def load(self) -> Found | None:
        """Read the last checkpoint, or the one before if the last is damaged; None where there is none."""
        faults = []
        for name in (LAST, PREVIOUS):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                state = read_checkpoint(path)
            except InputError as error:
                faults.append(str(error))
                continue
            return Found(state, path, f"{faults[0]}; going on from the one before it" if faults else None)
        if faults:
            raise InputError(f"no checkpoint of the run can be read: {'; '.join(faults)}")
        return None

    def _write(self, state: dict[str, Any]) -> Path:
        temporary = self.folder / f".{LAST}.tmp"
        try:
            with temporary.open("wb") as file:
                torch.save({"schema": SCHEMA, **state}, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:
            temporary.unlink(missing_ok=True)
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise InputError(
                f"cannot write a checkpoint in {str(self.folder)!r}: {reason}; the last one is still there, make room "
                "and resume"
            ) from None
        return temporary


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read one checkpoint; only tensors and plain values are built, whatever the file asks for."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"there is no checkpoint {str(path)!r}") from None
    except pickle.UnpicklingError:  # torch's own words advise to read it all the same
        raise InputError(
            f"the checkpoint {str(path)!r} is damaged or not one of ours (it asks for more than tensors and plain "
            "values)"
        ) from None
    except Exception as error:
        # A damaged archive raises what it likes.
        reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0]
        raise InputError(f"the checkpoint {str(path)!r} is damaged or not one of ours ({reason})") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise InputError(f"the checkpoint {str(path)!r} does not hold a state of schema {SCHEMA!r}")
    return state


def _flush(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
