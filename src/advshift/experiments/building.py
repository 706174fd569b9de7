"""From a planned run to its recipe: the base, the settings that were chosen before, and the run's own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.errors import AdvshiftError
from advshift.experiments.protocol import Planned, protocol
from advshift.experiments.records import Record
from advshift.experiments.worst_case import curve
from advshift.sets import KLBall
from advshift.training import find_recipe, make_recipe
from advshift.training.recipe import Recipe

__all__ = ["NotYetError", "best_of", "build_recipe", "held_out_adversary", "needs"]

ALLOWED_LOSS = 0.01  # of error at radius 0 that a candidate may cost on the tuning part
PSEUDO_COUNT = 1.0  # of mistakes at the mean rate that are added to each class before an adversary is sought

Look = Callable[[str], Record | None]


class NotYetError(AdvshiftError):
    """A run has to wait for the record of another."""


def needs(run: Planned) -> list[str]:
    """The keys whose records have to be there first."""
    found = [other.key for group in run.chosen for other in _settings_of(group)]
    found += [run.fixed[0]] if run.fixed else []
    return found + ([run.start_from] if run.start_from else [])


def build_recipe(run: Planned, look: Look, *, data: str | None) -> Recipe:
    """Make the recipe of a run.

    Parameters
    ----------
    run
        What is planned.
    look
        Finds records of runs that are done.
    data
        Where the data lie; else what the environment says.
    """
    text, place = find_recipe(run.base)
    tree = tomllib.loads(text)
    tree["name"], tree["seed"] = run.key, run.seed
    _put(tree, "training.epochs", run.epochs)
    for group in run.chosen:
        _put_all(tree, best_of(group, look).setting)
    _put_all(tree, run.setting)
    if run.fixed is not None:
        source = _found(run.fixed[0], look)
        _put_all(tree, {"objective.adversary": "fixed"})
        _put(tree, "objective.distribution", held_out_adversary(source, run.fixed[1]).tolist())
    if not run.keep:
        _put_all(tree, {"evaluate.predictions": [], "evaluate.every": run.epochs})
    if data is not None:
        _put(tree, "data.path", data)
    _put(tree, "training.cuda_graph", True)
    return make_recipe(tree, f"{place} for {run.key}")


def best_of(group: str, look: Look) -> Planned:
    """The setting that is best on the tuning part.

    ERM's is that of the smallest error. A robust method's is that of the smallest worst case at radius 1. Of the
    candidates, that of the smallest worst case at radius 1 among those that cost at most a point at radius 0.
    """
    runs = _settings_of(group)
    records = {run.key: _found(run.key, look) for run in runs}
    done = [run for run in runs if records[run.key].finished]
    if not done:
        raise NotYetError(f"no setting of {group!r} came to its end")
    if group == "erm":
        return min(done, key=lambda run: _error(records[run.key], 0.0))
    if group == "candidates":
        limit = _error(records["candidates/erm/0"], 0.0) + ALLOWED_LOSS
        done = [run for run in done if run.start_from is None and _error(records[run.key], 0.0) <= limit]
    return min(done, key=lambda run: _error(records[run.key], 1.0))


def held_out_adversary(record: Record, radius: float) -> Float[np.ndarray, " classes"]:
    """The worst mix for a run, on the errors of its held-out images.

    A class's error is drawn towards the mean by one example, so that classes with few held-out images, or none, do not
    decide by chance.
    """
    errors, counts = record.errors("held_out"), record.counts("held_out")
    mean = errors.sum() / counts.sum()
    risks = (errors + PSEUDO_COUNT * mean) / (counts + PSEUDO_COUNT)
    centre = record.reference
    return np.asarray(KLBall(radius).worst_case(risks, centre).distribution)


def _settings_of(group: str) -> list[Planned]:
    if group == "candidates":
        return [run for run in protocol() if run.group == "candidates"]
    return [run for run in protocol() if run.group == "tune" and run.method == group]


def _error(record: Record, radius: float) -> float:
    return float(curve(record, "validation", [radius])[0])


def _found(key: str, look: Look) -> Record:
    record = look(key)
    if record is None:
        raise NotYetError(f"the record of {key!r} is not there yet")
    return record


def _put_all(tree: dict[str, Any], setting: Mapping[str, Any]) -> None:
    """Merge a setting; another adversary takes the options of the old one along."""
    if "objective.adversary" in setting:
        kept = {key: value for key, value in tree.get("objective", {}).items() if key in ("label_smoothing",)}
        tree["objective"] = kept
    for key, value in setting.items():
        _put(tree, key, value)


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
    tree[last] = value
