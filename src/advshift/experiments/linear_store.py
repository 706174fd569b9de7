"""One JSON file that holds every run of the linear models: written anew after each, so that it can be stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from advshift.errors import InputError
from advshift.experiments.building import PSEUDO_COUNT
from advshift.experiments.records import Record
from advshift.experiments.worst_case import worst_case
from advshift.files import check_writable, write_atomically

__all__ = ["Ledger", "linear_path", "linear_records", "read_linear", "score", "smoothed", "to_hex", "to_mistakes"]

SCHEMA = "advshift.linear/1"
RADIUS = 1.0  # of the ball in which settings are compared


class Ledger:
    """The runs of one data set, by key.

    Parameters
    ----------
    path
        The JSON file; what it holds already is kept.
    about
        What all runs share: the set, its fingerprint, the examples per class of each part.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        check_writable(path)
        self.content: dict[str, Any] = {"schema": SCHEMA, "about": dict(about), "runs": {}}
        if path.exists():
            self.content = read_linear(path)
            self._compare(about)

    def _compare(self, about: Mapping[str, Any]) -> None:
        old = self.content["about"]
        for key in ("name", "fingerprint"):
            if old.get(key) != about.get(key):
                raise InputError(
                    f"the runs in {str(self.path)!r} are of other data ({key}: {old.get(key)}, now {about.get(key)}); "
                    "name another file, or delete it to begin anew"
                )

    @property
    def runs(self) -> dict[str, Any]:
        """What was recorded of each run."""
        found: dict[str, Any] = self.content["runs"]
        return found

    def add(self, key: str, run: Mapping[str, Any]) -> None:
        """Keep a run."""
        self.runs[key] = dict(run)
        self._write()

    def note(self, key: str, value: Any) -> None:
        """Keep something beside the runs."""
        self.content[key] = value
        self._write()

    def _write(self) -> None:
        lines = (f"{json.dumps(key)}: {json.dumps(run, allow_nan=False)}" for key, run in self.runs.items())
        rest = {key: value for key, value in self.content.items() if key != "runs"}
        head = json.dumps(rest, allow_nan=False, indent=1)[:-2]
        write_atomically(self.path, f'{head},\n "runs": {{\n  ' + ",\n  ".join(lines) + "\n }\n}\n")


def linear_path(folder: Path, name: str) -> Path:
    """Where the runs of a data set lie."""
    return folder / f"linear-{name}.json"


def read_linear(path: Path) -> dict[str, Any]:
    """Read such a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r} ({error}); name a file of linear runs") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{str(path)!r} holds no linear runs of schema {SCHEMA!r}; name another file")
    return content


def smoothed(sums: Float[np.ndarray, " classes"], counts: Int[np.ndarray, " classes"]) -> Float[np.ndarray, " classes"]:
    """Class means drawn towards the common mean by one example: few examples, or none, do not decide by chance.

    >>> smoothed(np.array([1.0, 0.0, 0.0]), np.array([1, 3, 0])).tolist()
    [0.625, 0.0625, 0.25]
    """
    mean = sums.sum() / counts.sum()
    return np.asarray((sums + PSEUDO_COUNT * mean) / (counts + PSEUDO_COUNT))


def score(
    run: Mapping[str, Any],
    counts: Int[np.ndarray, " classes"],
    reference: Float[np.ndarray, " classes"],
    *,
    robust: bool,
) -> tuple[float, float]:
    """What a setting is chosen by, on the tuning part: the error, and the loss where errors tie; less is better.

    Parameters
    ----------
    run
        Mistakes and mean losses per class of the tuning part.
    counts
        Its examples per class.
    reference
        The label distribution of the training part.
    robust
        Whether it is the worst case over the KL ball of radius 1, of smoothed class means, or the plain mean.
    """
    errors = np.asarray(run["errors"]["validation"], float)
    losses = np.asarray([loss or 0.0 for loss in run["losses"]["validation"]], float) * counts
    if not robust:
        return float(errors.sum() / counts.sum()), float(losses.sum() / counts.sum())
    found = [float(worst_case(smoothed(sums, counts), reference, [RADIUS])[0]) for sums in (errors, losses)]
    return found[0], found[1]


def linear_records(folder: Path) -> dict[str, Record]:
    """The last runs of every linear file of a folder, as the records that tables and figures read.

    Beside a record's usual arrays they hold the labels of the test examples, and which were mistaken. The min-max
    problems of a set are a record too, whose `about` holds the rows.
    """
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("linear-*.json")):
        content = read_linear(path)
        about, name = content["about"], f"linear-{content['about']['name']}"
        if "saddle" in content:
            key = f"{name}/saddle"
            found[key] = Record({"key": key, "group": "saddle", "method": name, "rows": content["saddle"]}, {})
        for key, run in content["runs"].items():
            kind, method, seed = key.split("/")
            if kind == "final":
                key = f"{name}/{method}/seed-{seed}"
                found[key] = Record({**run, "key": key, "group": name, "start_from": None}, _arrays(run, about))
    return found


def _arrays(run: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, np.ndarray]:
    arrays = {"reference": np.asarray(about["counts"]["train"], float)}
    for split, errors in run.get("errors", {}).items():
        arrays[f"{split}_counts"] = np.asarray(about["counts"]["train" if split == "train_full" else split])
        arrays[f"{split}_errors"] = np.asarray([errors])
    if "mistakes" in run:
        arrays["test_labels"] = np.asarray(about["test_labels"])
        arrays["test_mistakes"] = to_mistakes(run["mistakes"], len(about["test_labels"]))
    return arrays


def to_hex(mistakes: Bool[np.ndarray, " examples"]) -> str:
    """Which examples were mistaken, eight to a byte.

    >>> to_hex(np.array([True, False, True]))
    'a0'
    """
    return np.packbits(mistakes).tobytes().hex()


def to_mistakes(text: str, examples: int) -> Bool[np.ndarray, " examples"]:
    """The way back.

    >>> to_mistakes("a0", 3).tolist()
    [True, False, True]
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=examples).astype(bool)
