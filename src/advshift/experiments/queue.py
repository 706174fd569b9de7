"""The queue of the protocol's runs: takes the next missing one, survives being stopped, shares with other processes.

A store is a folder: `runs/` holds the run folders of what is not done, `records/` a record of each run that is,
`claims/` the locks by which several processes share the work; a lock goes when its process does.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advshift.data import DataOptions, DataSet, load_data
from advshift.errors import InputError, Interrupted
from advshift.experiments.building import build_recipe, needs
from advshift.experiments.commit import commit
from advshift.experiments.protocol import TIERS, Planned, protocol
from advshift.experiments.records import SPLITS, Record, read_record, record_path
from advshift.training import train
from advshift.training.folder import RunFolder
from advshift.training.recipe import Recipe

__all__ = ["Standing", "Store", "status", "work"]

PAUSE = 1.0  # seconds between two looks for a run whose needs are met
MOVING = 1e-6  # a distribution that changes less is kept once


class Store:
    """The files of the protocol's runs.

    Parameters
    ----------
    path
        Its folder.
    records
        Where the records go; `records` in it by default.
    """

    def __init__(self, path: Path, records: Path | None = None) -> None:
        self.path, self.records = path, path / "records" if records is None else records
        self._cache: dict[str, Record] = {}

    def create(self) -> None:
        """Make its folders."""
        for folder in (self.path / "runs", self.path / "claims", self.records):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot make the folder {str(folder)!r}: {error.strerror}; name another") from None

    def look(self, key: str) -> Record | None:
        """The record of a run, or None."""
        if key not in self._cache:
            path = record_path(self.records, key)
            if not path.exists():
                return None
            self._cache[key] = read_record(path)
        return self._cache[key]

    def folder(self, key: str) -> Path:
        """Where a run goes."""
        return self.path / "runs" / key.replace("/", "--")

    def claim(self, key: str) -> RunFolder:
        """A lock that says who works on a run."""
        folder = RunFolder(self.path / "claims" / key.replace("/", "--"))
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder


class Standing(NamedTuple):
    """How a run stands: done, diverged, running, waiting (for another run) or missing."""

    run: Planned
    state: str


def status(store: Store, tiers: Sequence[str] = TIERS, only: Sequence[str] = ("*",)) -> list[Standing]:
    """How every run of the protocol stands, of those in the tiers whose keys match a pattern."""
    runs = [run for run in protocol() if run.tier in tiers and any(fnmatch.fnmatch(run.key, name) for name in only)]
    if not runs:
        raise InputError(f"no planned run of these tiers matches {', '.join(only)}; a key is group/method/seed-0")
    return [Standing(run, _state(store, run)) for run in sorted(runs, key=lambda run: tiers.index(run.tier))]


def _state(store: Store, run: Planned) -> str:
    record = store.look(run.key)
    if record is not None:
        return "done" if record.finished else "diverged"
    if (store.path / "claims").is_dir() and store.claim(run.key).in_use():
        return "running"
    return "missing" if all(store.look(key) for key in needs(run)) else "waiting"


def work(
    store: Store,
    *,
    tiers: Sequence[str] = TIERS,
    only: Sequence[str] = ("*",),
    data: str | None = None,
    until: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> int:
    """Take one missing run after another until none is left; return how many were done here.

    Parameters
    ----------
    store
        Where they are recorded.
    tiers
        Which tiers, in the order in which they are taken.
    only
        Patterns, of which the key of a run has to match one.
    data
        Where the data lie.
    until
        A time of `time.monotonic` after which no run is begun.
    tell
        Is told a line for each run.
    """
    store.create()
    done = 0
    while until is None or time.monotonic() < until:
        standings = status(store, tiers, only)
        open_runs = [run for run, state in standings if state == "missing"]
        if not any(_take(store, run, data, tell) for run in open_runs):
            if not any(state in ("running", "waiting", "missing") for _, state in standings):
                break
            if not any(state == "running" for _, state in status(store, tiers, only)) and not open_runs:
                tell("what is left waits for runs that are not asked for")
                break
            time.sleep(PAUSE)
            continue
        done += 1
    return done


def _take(store: Store, run: Planned, data: str | None, tell: Callable[[str], None]) -> bool:
    """Do a run, unless another process has it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(store.claim(run.key).locked())
        except InputError:
            return False
        if record_path(store.records, run.key).exists():
            return False
        began = time.monotonic()
        record = _record_of(store, run, data)
        record.write(store.records)
        tell(f"{run.key}: {record.about['status']} in {time.monotonic() - began:,.0f} s")
    return True


def _record_of(store: Store, run: Planned, data: str | None) -> Record:
    recipe = build_recipe(run, store.look, data=data)
    if run.start_from is not None:
        start = recipe.training.model_copy(update={"initial_weights": str(store.folder(run.start_from))})
        recipe = recipe.model_copy(update={"training": start})
    folder = store.folder(run.key)
    try:
        about = train(recipe, folder, resume=(folder / "run.json").exists(), data=_data(recipe.data))
        arrays = _arrays(RunFolder(folder))
    except Interrupted:
        raise Interrupted(f"stopped within {run.key}, and saved; the same command goes on from there") from None
    except InputError as error:
        if "diverged" not in str(error):
            raise
        about, arrays = {"status": "diverged", "reason": str(error)}, {}
    if not run.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return Record(_about(run, recipe, about), arrays)


@functools.lru_cache(maxsize=4)
def _data(options: DataOptions) -> DataSet:
    return load_data(options)


def _about(run: Planned, recipe: Recipe, record: dict[str, Any]) -> dict[str, Any]:
    tree = recipe.to_dict()
    tree["data"].pop("path", None)
    tree["training"].pop("initial_weights", None)
    kept = ("status", "reason", "device", "precision", "seconds", "steps", "fingerprint", "versions", "parameters")
    return {
        "key": run.key,
        "tier": run.tier,
        "group": run.group,
        "method": run.method,
        "seed": run.seed,
        "epochs": run.epochs,
        "recipe": tree,
        "fixed": run.fixed,
        "start_from": run.start_from,
        "commit": commit(),
        "machine": platform.machine(),
    } | {name: record.get(name) for name in kept}


def _arrays(folder: RunFolder) -> dict[str, np.ndarray]:
    """Small arrays from a run's large ones: errors per epoch, losses of the last, the distribution if it moved."""
    with np.load(folder.classes) as file:
        full = {name: file[name] for name in file.files}
    found = {"reference": full["reference"][-1].astype(np.float32), "epochs": full["epochs"].astype(np.int16)}
    for split in _measured(full):
        found[f"{split}_counts"] = full[f"{split}_counts"][-1].astype(np.int32)
        found[f"{split}_errors"] = full[f"{split}_errors"].astype(np.uint16)
        found[f"{split}_losses"] = full[f"{split}_losses"][-1].astype(np.float16)
    moved = np.abs(full["distribution"] - full["reference"][-1]).max() > MOVING
    found["distribution"] = full["distribution"][:: 1 if moved else len(full["distribution"])].astype(np.float32)
    return found


def _measured(arrays: dict[str, np.ndarray]) -> Iterator[str]:
    return (split for split in SPLITS if f"{split}_errors" in arrays)
