"""The loop: epochs of steps, measured, recorded and saved, so that nothing is lost when it is stopped."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import resource
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

import advshift
from advshift.data import DataSet, load_data
from advshift.errors import AdvshiftError, InputError
from advshift.files import write_atomically
from advshift.training.checkpoints import Checkpoints
from advshift.training.folder import RunFolder
from advshift.training.history import History, summary
from advshift.training.interruptions import Interruption, interruptions
from advshift.training.measuring import measure, outputs
from advshift.training.progress import Reporter, Silent
from advshift.training.recipe import Recipe, differences, make_recipe
from advshift.training.session import Session
from advshift.training.tally import ClassResults, Tally
from advshift.training.workers import Workers, join_workers

__all__ = ["Interrupted", "train"]

T = TypeVar("T")

# Keys that say where and how, but not what: a run may be resumed with others.
FREE = ("data.path", "data.workers", "data.storage", "training.checkpoint_seconds", "training.checkpoint_every")
LISTEN = 8  # steps between two questions to the other processes whether one of them was interrupted


class Interrupted(AdvshiftError):
    """The run was asked to stop, saved, and stopped."""


def train(
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    reporter: Reporter | None = None,
    data: DataSet | None = None,
) -> dict[str, Any]:
    """Train by a recipe, and return the run's record.

    Under torchrun, or a launcher that sets its variables, every process calls this; the first one writes.

    Parameters
    ----------
    recipe
        What to train.
    folder
        Where the run goes. A folder that holds a run already is refused, unless it is to be resumed.
    resume
        Go on with an unfinished run from its last checkpoint; a finished one is left as it is.
    reporter
        Who is told of the progress; nobody by default.
    data
        The data, if it is loaded already.
    """
    with join_workers() as workers, contextlib.ExitStack() as stack:
        run = _Run(recipe, RunFolder(folder), workers, reporter if reporter is not None and workers.leads else Silent())
        with torch.random.fork_rng():
            started = _together(workers, lambda: run.open(stack, resume=resume))
            if started == "finished":
                return run.folder.read_record() if workers.leads else {}
            return run.go(data, resume=resume)


def _together(workers: Workers, action: Callable[[], T]) -> T:
    """Let the first process do something; its error is everybody's, so that none waits for one that has gone."""
    outcome: tuple[Any, str | None] = (None, None)
    if workers.leads:
        try:
            outcome = (action(), None)
        except AdvshiftError as error:
            outcome = (None, str(error))
    result, fault = workers.share(outcome)
    if fault is not None:
        raise InputError(fault)
    return result  # type: ignore[no-any-return]


class _Run:
    """A run from its opening to its end."""

    def __init__(self, recipe: Recipe, folder: RunFolder, workers: Workers, reporter: Reporter) -> None:
        self.recipe, self.folder, self.workers, self.reporter = recipe, folder, workers, reporter
        self.checkpoints = Checkpoints(folder.checkpoints)
        self.history = History()
        self.record: dict[str, Any] = {}
        self.best = math.inf
        self.seconds = 0.0  # spent in training before this process went on
        self.saved = self.began = time.monotonic()

    def open(self, stack: contextlib.ExitStack, *, resume: bool) -> str:
        """Take the folder, and see what is in it."""
        self.folder.create()
        stack.enter_context(self.folder.locked())
        if not self.folder.record.exists():
            write_atomically(self.folder.recipe, self.recipe.to_toml())
            return "new"
        record = self.folder.read_record()
        if not resume:
            raise InputError(
                f"the folder {str(self.folder.path)!r} holds a run already ({record.get('status')}); resume it, or "
                "name another folder"
            )
        self._compare()
        return "finished" if record.get("status") == "finished" else "resumed"

    def _compare(self) -> None:
        """Refuse to go on by another recipe."""
        try:
            old = make_recipe(tomllib.loads(self.folder.recipe.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {str(self.folder.recipe)!r}: {error}") from None
        changed = [line for line in differences(old, self.recipe) if line.split(":")[0] not in FREE]
        if changed:
            raise InputError(
                f"the recipe is not the one that the run in {str(self.folder.path)!r} began with ({'; '.join(changed)}); "
                "resume with its own recipe.toml, or name another folder"
            )

    def go(self, data: DataSet | None, *, resume: bool) -> dict[str, Any]:
        """Train to the end, or until something stops it; the record says which."""
        try:
            data = load_data(self.recipe.data) if data is None else data
            self.session = Session(self.recipe, data, self.workers)
            self._describe(data)
            if resume:
                self._restore()
            for notice in data.notices:
                self.reporter.say(notice)
            with interruptions() as interruption, self.reporter:
                self.began = self.saved = time.monotonic()
                self._write_record("running")
                self._train(interruption)
                self._finish()
        except BaseException as error:
            self._write_record("interrupted" if _is_stop(error) else "failed", _reason(error))
            raise
        return self.record

    def _describe(self, data: DataSet) -> None:
        session = self.session
        self.record = {
            "name": self.recipe.name,
            "status": "new",
            "reason": None,
            "fingerprint": data.fingerprint,
            "versions": {
                "advshift": advshift.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "device": _device_name(self.workers.device),
            "precision": session.formats.precision,
            "world": self.workers.world,
            "threads": torch.get_num_threads(),
            "epochs": self.recipe.training.epochs,
            "steps": session.total_steps,
            "classes": list(data.class_names),
            "train_counts": session.feed.train_counts.tolist(),
            "parameters": sum(parameter.numel() for parameter in session.model.parameters()),
            "seed": self.recipe.seed,
        }

    def _restore(self) -> None:
        """Go on from the last checkpoint that can be read; every process reads it for itself."""
        found = self.checkpoints.load()
        if found is None:
            self.reporter.say("the run holds no checkpoint yet; it begins anew")
            return
        state = found.state
        if state["fingerprint"] != self.record["fingerprint"]:
            raise InputError(
                "the data are not those that the run began with: their fingerprint has changed; restore them, or "
                "begin a new run"
            )
        if found.notice:
            self.reporter.say(found.notice)
        self.session.restore(state["session"])
        self.history = History.from_state(state["history"])
        self.best, self.seconds = float(state["best"]), float(state["seconds"])
        if self.workers.leads and self.history.rows:
            self.history.write(self.folder)
        self.reporter.say(f"resumed after step {self.session.step:,} of {self.session.total_steps:,}")

    def _train(self, interruption: Interruption) -> None:
        session = self.session
        while session.step < session.total_steps:
            epoch, position = divmod(session.step, session.steps_per_epoch)
            began, examples = time.monotonic(), 0
            for batch, size in session.feed.epoch(epoch, position):
                self._pause(interruption)
                session.advance(batch, size)
                examples += size
                self.reporter.step(epoch + 1, self.recipe.training.epochs, session.step, session.total_steps, size)
                if session.step >= session.total_steps:
                    break
            self._end_epoch(epoch + 1, began, examples)

    def _pause(self, interruption: Interruption) -> None:
        """Between two steps: stop if asked to, and save when it is time."""
        alone = self.workers.world == 1
        if (alone or self.session.step % LISTEN == 0) and self.workers.any(bool(interruption)):
            self._save()
            raise Interrupted(
                f"{interruption.reason} after step {self.session.step:,}; saved in {str(self.folder.path)!r}"
            )
        if alone or self.session.step % LISTEN == 0:
            late = time.monotonic() - self.saved > self.recipe.training.checkpoint_seconds
            if self.workers.any(late):
                self._save()

    def _end_epoch(self, epoch: int, began: float, examples: int) -> None:
        """Measure, record, save."""
        session, options = self.session, self.recipe.evaluate
        session.workers.add_up(session.tally.table)
        train = session.tally.results()
        speed = examples / max(time.monotonic() - began, 1e-9)
        if not math.isfinite(train.loss):
            raise InputError(
                f"the training loss of epoch {epoch} is not finite: training has diverged; lower optimizer.lr, or set "
                "training.clip_norm"
            )
        last = session.step >= session.total_steps
        splits = {"train": train}
        if last or epoch % options.every == 0:
            splits |= {split: measure(session, split) for split in options.splits if session.feed.has(split)}
            if options.train == "full" or (last and options.train_final):
                splits["train_full"] = measure(session, "train")
        session.tally = Tally(session.classes, self.workers.device)
        self._note(epoch, speed, splits)
        self._save()
        self._keep(epoch, splits)
        self.reporter.epoch(self.history.rows[-1], self.recipe.training.epochs, next(iter(options.splits), ""))

    def _note(self, epoch: int, speed: float, splits: dict[str, ClassResults]) -> None:
        session = self.session
        centre = session.objective.reference.cpu().numpy().astype("float64")
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": session.step,
            "seconds": round(self._spent(), 3),
            "images_per_second": round(speed, 1),
            "learning_rate": session.learning_rate,
            "objective": session.objective.metrics(),
        }
        radii = self.recipe.evaluate.radii
        row |= {split: summary(results, centre, radii) for split, results in splits.items()}
        distribution = session.objective.distribution.cpu().numpy()
        self.history.add(row, splits, distribution=distribution, reference=centre.astype("float32"))
        if self.workers.leads:
            self.history.write(self.folder)

    def _keep(self, epoch: int, splits: dict[str, ClassResults]) -> None:
        """Keep the best checkpoint and those of every n-th epoch."""
        options = self.recipe.evaluate
        row = self.history.rows[-1]
        measured = row.get(options.splits[0]) if options.splits else None
        value = _score(measured, options.best)
        if value < self.best:
            self.best = value
            self.record |= {"best_epoch": epoch, "best": value}
            if self.workers.leads:
                self.checkpoints.copy_last("best.pt")
        every = self.recipe.training.checkpoint_every
        if every and epoch % every == 0 and self.workers.leads:
            self.checkpoints.copy_last(f"epoch-{epoch:04}.pt")

    def _save(self) -> None:
        self.workers.agree_on_buffers(self.session.model)
        tally = self.session.tally.table.clone()
        self.workers.add_up(tally)
        if self.workers.leads:
            state = self.session.state() | {"tally": tally}
            self.checkpoints.save(
                {
                    "fingerprint": self.record["fingerprint"],
                    "session": state,
                    "history": self.history.state(),
                    "best": self.best,
                    "seconds": self._spent(),
                }
            )
        self.saved = time.monotonic()

    def _finish(self) -> None:
        seconds = self._spent()
        for split in self.recipe.evaluate.predictions:
            if self.session.feed.has(split):
                found = outputs(self.session, split)
                if self.workers.leads:
                    path = self.folder.predictions(split)
                    self.folder.write_arrays(path, found.arrays(self.session.data.class_names))
        self.record |= {"seconds": seconds, "peak_memory_bytes": _peak_memory(self.workers.device)}
        if self.workers.leads:
            rows = zip(self.record["classes"], self.record["train_counts"], strict=True)
            text = "class,count\n" + "".join(f"{_quoted(name)},{count}\n" for name, count in rows)
            write_atomically(self.folder.path / "training-mix.csv", text)
        self._write_record("finished")

    def _spent(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _write_record(self, status: str, reason: str | None = None) -> None:
        if not self.workers.leads or not self.record:
            return
        self.record |= {"status": status, "reason": reason}
        with contextlib.suppress(OSError) if status == "failed" else contextlib.nullcontext():
            self.folder.write_record(self.record)


def _score(measured: dict[str, Any] | None, name: str) -> float:
    """The number by which checkpoints compete; of the worst cases that at the largest radius up to 1."""
    if measured is None:
        return math.inf
    if name != "worst_case":
        return float(measured[name])
    values = {float(radius): value for radius, value in measured.get("worst_case", {}).items()}
    if not values:
        return float(measured["error"])
    within = [radius for radius in values if radius <= 1.0]
    return float(values[max(within)] if within else values[min(values)])


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, (Interrupted, KeyboardInterrupt, SystemExit))


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n') else name
