"""The record of a training run: what figures and tables need of it, in some kilobytes.

A record is one NPZ file: a JSON text that says what the run was, and arrays by epoch and class of what it did.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.errors import InputError
from advshift.files import write_atomically

__all__ = ["SPLITS", "Record", "load_records", "read_record", "record_path"]

SCHEMA = "advshift.experiment/1"
SPLITS = ("train", "train_full", "validation", "test", "held_out")


@dataclass(frozen=True)
class Record:
    """One run of the protocol.

    Attributes
    ----------
    about
        Key, tier, group, method, setting, seed, epochs, status, device, commit, seconds and the like.
    arrays
        `{split}_counts` per class, `{split}_errors` per epoch and class, `{split}_losses` per class at the end,
        `distribution` per epoch and class, `reference` per class.
    """

    about: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @property
    def key(self) -> str:
        """The run's name, unique in the protocol."""
        return str(self.about["key"])

    @property
    def finished(self) -> bool:
        """Whether it came to its end; a run that diverged did not."""
        return bool(self.about.get("status") == "finished")

    @property
    def reference(self) -> Float[np.ndarray, " classes"]:
        """The label distribution of the training part."""
        centre: Float[np.ndarray, " classes"] = self.arrays["reference"].astype(np.float64)
        return np.asarray(centre / centre.sum())

    def counts(self, split: str) -> Int[np.ndarray, " classes"]:
        """How many examples of each class the split holds."""
        return np.asarray(self.arrays[f"{split}_counts"], np.int64)

    def errors(self, split: str, epoch: int = -1) -> Int[np.ndarray, " classes"]:
        """How many of them were mistaken after an epoch, the last by default."""
        return np.asarray(self.arrays[f"{split}_errors"][epoch], np.int64)

    def risks(self, split: str, epoch: int = -1) -> Float[np.ndarray, " classes"]:
        """The share of mistakes of each class."""
        counts = self.counts(split)
        return np.asarray(self.errors(split, epoch) / np.maximum(counts, 1))

    def has(self, split: str) -> bool:
        """Whether the split was measured."""
        return f"{split}_errors" in self.arrays

    def write(self, folder: Path) -> None:
        """Save it under its key."""
        buffer = io.BytesIO()
        text = json.dumps({"schema": SCHEMA, **self.about})
        np.savez_compressed(buffer, allow_pickle=False, about=np.array(text), **dict(self.arrays))
        write_atomically(record_path(folder, self.key), buffer.getvalue())


def record_path(folder: Path, key: str) -> Path:
    """Where the record of a key lies."""
    return folder / f"{key.replace('/', '--')}.npz"


def read_record(path: Path) -> Record:
    """Read one record; nothing in it is executed."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"cannot read the record {str(path)!r} ({error}); delete it to run it again") from None
    if about.get("schema") != SCHEMA:
        raise InputError(f"{str(path)!r} is no record of schema {SCHEMA!r}; delete it to run it again")
    return Record(about, arrays)


def load_records(folder: Path) -> dict[str, Record]:
    """Read all records of a folder, by key."""
    if not folder.is_dir():
        raise InputError(f"there is no folder of records {str(folder)!r}; name one with --records")
    found = [read_record(path) for path in sorted(folder.glob("*.npz"))]
    return {record.key: record for record in found}
