"""All methods on data that linear models are trained on in seconds: chosen on the tuning part, ten paired seeds."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from advshift.data import DataSet, load_data
from advshift.data.randomness import generator
from advshift.errors import InputError
from advshift.experiments.building import held_out_adversary
from advshift.experiments.commit import commit
from advshift.experiments.linear_methods import (
    BASES,
    FIXED_RADII,
    METHODS,
    SEEDS,
    TUNING_SEED,
    Candidate,
    candidates,
    tree_of,
)
from advshift.experiments.linear_saddle import RADII, make_problem, study
from advshift.experiments.linear_store import Ledger, linear_path, score, to_hex
from advshift.experiments.records import Record
from advshift.registry import nearest
from advshift.training import make_recipe, train
from advshift.training.folder import RunFolder

__all__ = ["choose", "planned_runs", "run_linear"]

FOLDS = 5
# Of the min-max problems: the ridge, and whether a convex solver can hold them (306,000 exponential cones it cannot).
SADDLE = {"digits": (1e-3, True), "reuters52": (1e-4, False)}
Tell = Callable[[str], None]


def run_linear(name: str, folder: Path, data: str | None, tell: Tell) -> Path:
    """Train what is missing of a data set's runs, and return the file that holds them.

    Parameters
    ----------
    name
        `"digits"` or `"reuters52"`.
    folder
        Where the file `linear-{name}.json` is, or goes.
    data
        Where the data lie; else what `ADVSHIFT_DATA` says.
    tell
        Is told a line for each run.
    """
    if name not in BASES:
        raise InputError(f"unknown data set {name!r}{nearest(name, BASES)} (known: {', '.join(BASES)})")
    folder.mkdir(parents=True, exist_ok=True)
    path = linear_path(folder, name)
    runner = Runner(name, path, data, tell)
    total = planned_runs(name)
    for number, (key, plan) in enumerate(runner.plans(), start=1):
        if key not in runner.ledger.runs:
            seconds = runner.record(key, plan)
            tell(f"{number}/{total} {key}: {runner.ledger.runs[key]['status']} in {seconds:.1f} s")
    runner.saddle()
    tell(f"all {total} runs are in {path}")
    return path


def planned_runs(name: str) -> int:
    """How many runs a data set has."""
    return sum(len(candidates(name, method)) + SEEDS for method in METHODS) + FOLDS


@dataclasses.dataclass(frozen=True)
class Plan:
    """One run: settings on top of the base, a factor on the learning rate, a seed, and what is looked at.

    `fold` leaves out a fold of the training part and judges it.
    """

    method: str
    settings: list[Mapping[str, Any]]
    rate: float
    seed: int
    splits: tuple[str, ...]
    fold: int | None = None


class Runner:
    """What the runs of a data set share.

    Parameters
    ----------
    name, path, data, tell
        As in `run_linear`; the path is the file's.
    """

    def __init__(self, name: str, path: Path, data: str | None, tell: Tell) -> None:
        self.name, self.tell = name, tell
        self.place = {} if data is None else {"data.path": data}
        self.data = load_data(make_recipe(tree_of(name, [self.place])).data)
        self.parts = {"train": self.data.train, "validation": self.data.validation, "test": self.data.test}
        classes = len(self.data.class_names)
        counts = {split: np.bincount(part.labels, minlength=classes) for split, part in self.parts.items() if part}
        self.counts: dict[str, Int[np.ndarray, " classes"]] = counts
        self.reference: Float[np.ndarray, " classes"] = counts["train"] / counts["train"].sum()
        self.ledger = Ledger(path, self._about())

    def _about(self) -> dict[str, Any]:
        test = self.data.test
        assert test is not None  # both sets have one
        return {
            "name": self.name,
            "command": f"advshift reproduce --run --linear {self.name}",
            "base": BASES[self.name],
            "fingerprint": self.data.fingerprint,
            "classes": list(self.data.class_names),
            "counts": {split: found.tolist() for split, found in self.counts.items()},
            "test_labels": test.labels[torch.argsort(test.ids)].tolist(),
        }

    def plans(self) -> Iterator[tuple[str, Plan]]:
        """Every run in order; a method's last ones wait for its first."""
        for method in METHODS:
            if method == "fixed":
                yield from self._folds()
            options = candidates(self.name, method)
            for number, option in enumerate(options):
                yield f"tune/{method}/{number}", self._plan(method, option, TUNING_SEED, ("validation",))
            best = self.best(method)
            for seed in range(SEEDS):
                yield f"final/{method}/{seed}", self._plan(method, options[best], seed, ("validation", "test"))

    def best(self, method: str) -> int:
        """The number of the setting that is best on the tuning part."""
        runs = [self.ledger.runs[f"tune/{method}/{number}"] for number in range(len(candidates(self.name, method)))]
        best = choose(runs, self.counts["validation"], self.reference, robust=method != "erm")
        if self.ledger.content.setdefault("chosen", {}).get(method) != best:
            self.ledger.note("chosen", self.ledger.content["chosen"] | {method: best})
        return best

    def _plan(self, method: str, option: Candidate, seed: int, splits: tuple[str, ...]) -> Plan:
        settings: list[Mapping[str, Any]] = [self.place]
        if method != "erm":
            settings.append(candidates(self.name, "erm")[self.best("erm")].setting)
        settings.append(option.setting)
        if option.fixed_radius is not None:
            target = held_out_adversary(self.out_of_fold(), option.fixed_radius)
            settings.append({"objective.adversary": "fixed", "objective.distribution": target.tolist()})
        return Plan(method, settings, option.rate, seed, splits)

    def _folds(self) -> Iterator[tuple[str, Plan]]:
        """ERM without one fold after another of its training part."""
        options = candidates(self.name, "erm")
        plan = self._plan("erm", options[self.best("erm")], TUNING_SEED, ("held_out",))
        for fold in range(FOLDS):
            yield f"fold/erm/{fold}", dataclasses.replace(plan, fold=fold)
        mixes = {f"{radius:g}": held_out_adversary(self.out_of_fold(), radius).tolist() for radius in FIXED_RADII}
        if self.ledger.content.get("fixed") != mixes:
            self.ledger.note("fixed", mixes)

    def out_of_fold(self) -> Record:
        """ERM's mistakes on training examples that it had not seen."""
        runs = [self.ledger.runs[f"fold/erm/{fold}"] for fold in range(FOLDS)]
        errors = np.sum([run["errors"]["held_out"] for run in runs], axis=0)
        counts = np.sum([run["held_out"] for run in runs], axis=0)
        arrays = {"reference": self.counts["train"], "held_out_errors": errors[None], "held_out_counts": counts}
        return Record({"key": "fold/erm"}, arrays)

    def saddle(self) -> None:
        """Beside the runs: the exact min-max solution of the training part, and how near the adversaries come."""
        ridge, by_solver = SADDLE[self.name]
        rows = list(self.ledger.content.get("saddle", []))
        for radius in RADII[len({row["radius"] for row in rows}) :]:
            self.tell(f"the min-max problem of radius {radius:g}")
            rows += study(make_problem(self.data, radius, ridge), by_solver=by_solver)
            self.ledger.note("saddle", rows)

    def record(self, key: str, plan: Plan) -> float:
        """Train, and keep what came out; return the seconds that it took."""
        began = time.monotonic()
        run = self._train(key, plan)
        seconds = time.monotonic() - began
        self.ledger.add(key, run | {"seconds": round(seconds, 2), "commit": commit()})
        return seconds

    def _train(self, key: str, plan: Plan) -> dict[str, Any]:
        tree = tree_of(self.name, plan.settings, plan.rate) | {"name": key, "seed": plan.seed}
        kept = ["test"] if "test" in plan.splits else []
        tree["evaluate"] = {
            "every": tree["training"]["epochs"],
            "splits": list(plan.splits),
            "predictions": kept,
            "train_final": bool(kept),
        }
        changed = {option: tree[option] for option in ("model", "objective", "optimizer")}
        about = {"method": plan.method, "seed": plan.seed, "setting": changed}
        with tempfile.TemporaryDirectory() as place:
            folder = RunFolder(Path(place) / "run")
            try:
                found = train(make_recipe(tree, key), folder.path, data=self._without(plan.fold))
            except InputError as error:
                if "diverged" not in str(error):
                    raise
                return about | {"status": "diverged", "reason": str(error)}
            return about | {name: found[name] for name in ("status", "versions", "steps")} | _results(folder, plan)

    def _without(self, fold: int | None) -> DataSet:
        if fold is None:
            return self.data
        folds = assign_folds(self.data.train.labels)
        stay, off = (torch.from_numpy(np.flatnonzero(mask)) for mask in (folds != fold, folds == fold))
        return dataclasses.replace(self.data, train=self.data.train.select(stay), held_out=self.data.train.select(off))


def assign_folds(labels: Int[torch.Tensor, " examples"]) -> Int[np.ndarray, " examples"]:
    """A fold for each example, even within the classes; one that is alone in its class is in no fold, -1.

    >>> assign_folds(torch.tensor([0, 1, 1, 1, 1, 1])).tolist().count(-1)
    1
    """
    folds = np.full(len(labels), -1)
    for index in np.unique(labels.numpy()).tolist():
        places = np.flatnonzero(labels.numpy() == index)
        order = torch.randperm(len(places), generator=generator(0, "folds", index)).numpy()
        if len(places) > 1:
            folds[places[order]] = (np.arange(len(places)) + index) % FOLDS
    return folds


def choose(
    runs: list[Mapping[str, Any]],
    counts: Int[np.ndarray, " classes"],
    reference: Float[np.ndarray, " classes"],
    *,
    robust: bool,
) -> int:
    """The number of the run with the best score; the first one where all is equal, never one that diverged."""
    scores = {
        number: score(run, counts, reference, robust=robust)
        for number, run in enumerate(runs)
        if run["status"] == "finished"
    }
    if not scores:
        raise InputError("every setting diverged: lower the learning rates")
    return min(scores, key=scores.__getitem__)


def _results(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """Mistakes and mean losses per class at the end; and which test examples were mistaken."""
    with np.load(folder.classes) as file:
        found = {
            name: file[name][-1] for name in file.files if name.rsplit("_", 1)[-1] in ("errors", "losses", "counts")
        }
    splits = [split for split in (*plan.splits, "train_full") if f"{split}_errors" in found]
    results: dict[str, Any] = {
        "errors": {split: found[f"{split}_errors"].astype(int).tolist() for split in splits},
        "losses": {split: _rounded(found[f"{split}_losses"]) for split in splits},
    }
    if "held_out" in splits:
        results["held_out"] = found["held_out_counts"].astype(int).tolist()
    if "test" in splits:
        with np.load(folder.predictions("test")) as file:
            results["mistakes"] = to_hex(file["predictions"] != file["labels"])
    return results


def _rounded(losses: Float[np.ndarray, " classes"]) -> list[float | None]:
    return [round(float(loss), 5) if np.isfinite(loss) else None for loss in losses]
