"""The loop: epochs of steps, measured, recorded and saved, so that nothing is lost when it is stopped."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import torch

from advshift.data import DataSet, load_data
from advshift.errors import InputError, Interrupted
from advshift.training.checkpoints import Checkpoints, Found
from advshift.training.devices import keep_memory, threads
from advshift.training.failures import in_a_sentence
from advshift.training.folder import RunFolder
from advshift.training.history import History, score, summary
from advshift.training.interruptions import Interruption, interruptions
from advshift.training.measuring import measure, outputs
from advshift.training.progress import Reporter, Silent
from advshift.training.recipe import Recipe
from advshift.training.record import changes, describe, introduction, peak_memory, training_mix
from advshift.training.resuming import refuse_another_recipe
from advshift.training.session import Session
from advshift.training.tally import ClassResults, Tally
from advshift.training.workers import Workers, join_workers

__all__ = ["Interrupted", "train"]

LISTEN = 8  # steps between two questions to the other processes whether one of them was interrupted


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
    with in_a_sentence(), join_workers() as workers, contextlib.ExitStack() as stack:
        run = _Run(recipe, RunFolder(folder), workers, reporter if reporter is not None and workers.leads else Silent())
        with torch.random.fork_rng():
            started = workers.together(lambda: run.open(stack, resume=resume))
            if started == "finished":
                return run.folder.read_record() if workers.leads else {}
            return run.go(data, resume=resume)


class _Run:
    """A run from its opening to its end."""

    def __init__(self, recipe: Recipe, folder: RunFolder, workers: Workers, reporter: Reporter) -> None:
        self.recipe, self.folder, self.workers, self.reporter = recipe, folder, workers, reporter
        self.checkpoints = Checkpoints(folder.checkpoints)
        self.history = History()
        self.record: dict[str, Any] = {}  # empty as long as there is nothing to keep
        self.before: Mapping[str, Any] = {}  # the record of a run that is resumed
        self.best: dict[str, Any] = {"best_epoch": None, "best": None}
        self.seconds = 0.0  # spent in training before this process went on
        self.saved = self.began = time.monotonic()

    def open(self, stack: contextlib.ExitStack, *, resume: bool) -> str:
        """Take the folder, and see what is in it."""
        self.folder.create()
        stack.enter_context(self.folder.locked())
        if not self.folder.record.exists():
            self.folder.write(self.folder.recipe, self.recipe.to_toml())
            return "new"
        self.before = self.folder.read_record()
        status = self.before.get("status")
        if not resume:
            raise InputError(
                f"the folder {str(self.folder.path)!r} holds a run already ({status}); resume it, or name another "
                "folder"
            )
        refuse_another_recipe(self.folder, self.recipe)
        return "finished" if status == "finished" else "resumed"

    def go(self, data: DataSet | None, *, resume: bool) -> dict[str, Any]:
        """Train to the end, or until something stops it; the record says which."""
        data = load_data(self.recipe.data) if data is None else data
        self.session = Session(self.recipe, data, self.workers)
        with threads(self.session.threads), keep_memory():
            record = describe(self.session)
            for sentence in (introduction(self.session), *data.notices):
                self.reporter.say(sentence)
            if resume:
                self._restore(record)
            self.record = record | self.best
            try:
                with interruptions() as interruption, self.reporter:
                    self.began = self.saved = time.monotonic()
                    self._write_record("running")
                    self._train(interruption)
                    self._finish()
            except BaseException as error:
                with contextlib.suppress(OSError, InputError):  # what stopped the run is what is to be told
                    self._write_record("interrupted" if _is_stop(error) else "failed", _reason(error))
                raise
        return self.record

    def _restore(self, record: Mapping[str, Any]) -> None:
        """Go on from the last checkpoint that can be read; every process reads it for itself."""
        found = self.checkpoints.load()
        if found is None:
            self.reporter.say("the run holds no checkpoint yet; it begins anew")
            return
        with found.taken_over():
            self._take_over(found, record)
        if len(set(self.workers.gather(self.session.step))) > 1:
            raise InputError("the processes found different checkpoints; let all of them see the same run folder")
        if self.workers.leads and self.history.rows:
            self.history.write(self.folder)
            self._keep()
        self.reporter.say(f"resumed after step {self.session.step:,} of {self.session.total_steps:,}")

    def _take_over(self, found: Found, record: Mapping[str, Any]) -> None:
        state = found.state
        if state["fingerprint"] != record["fingerprint"]:
            raise InputError(
                "the data are not those that the run began with: their fingerprint has changed; restore them, or "
                "begin a new run"
            )
        for notice in (found.notice, "; ".join(changes(self.before, record))):
            if notice:
                self.reporter.say(notice)
        self.session.restore(state["session"])
        self.history = History.from_state(state["history"])
        self.best = {name: state["best"][name] for name in self.best}
        self.seconds = float(state["seconds"])

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
            self._end_epoch(epoch + 1, examples / max(time.monotonic() - began, 1e-9))

    def _pause(self, interruption: Interruption) -> None:
        """Between two steps: stop if asked to, and save when it is time."""
        if self.workers.world > 1 and self.session.step % LISTEN:
            return
        if self.workers.any(bool(interruption)):
            self._save()
            raise Interrupted(
                f"{interruption.reason} after step {self.session.step:,}, and saved; {self._how_to_resume}"
            )
        if self.workers.any(time.monotonic() - self.saved > self.recipe.training.checkpoint_seconds):
            self._save()

    @property
    def _how_to_resume(self) -> str:
        return f"go on with  advshift train --output {self.folder.path} --resume"

    def _end_epoch(self, epoch: int, speed: float) -> None:
        """Measure, record, save."""
        session = self.session
        session.workers.add_up(session.tally.table)
        train = session.tally.results()
        if not math.isfinite(train.loss):
            raise InputError(
                f"the training loss of epoch {epoch} is not finite: training has diverged; lower optimizer.lr, or set "
                "training.clip_norm"
            )
        splits = {"train": train} | self._measured(epoch)
        session.tally = Tally(session.classes, self.workers.device)
        self._note(epoch, speed, splits)
        self._save()
        if self.workers.leads:
            self.history.write(self.folder)
            self._keep()
        shown = next((split for split in self.recipe.evaluate.splits if session.feed.has(split)), "")
        self.reporter.epoch(self.history.rows[-1], self.recipe.training.epochs, shown)

    def _measured(self, epoch: int) -> dict[str, ClassResults]:
        session, options = self.session, self.recipe.evaluate
        last = session.step >= session.total_steps
        found: dict[str, ClassResults] = {}
        if last or epoch % options.every == 0:
            found |= {split: measure(session, split) for split in options.splits if session.feed.has(split)}
            if options.train == "full" or (last and options.train_final):
                found["train_full"] = measure(session, "train")
        return found

    def _note(self, epoch: int, speed: float, splits: dict[str, ClassResults]) -> None:
        session, options = self.session, self.recipe.evaluate
        centre = session.objective.reference.cpu().numpy().astype("float64")
        row: dict[str, Any] = {
            "epoch": epoch,
            "step": session.step,
            "seconds": round(self._spent(), 3),
            "images_per_second": round(speed, 1),
            "learning_rate": session.learning_rate,
            "objective": session.objective.metrics(),
        }
        row |= {split: summary(results, centre, options.radii) for split, results in splits.items()}
        distribution = session.objective.distribution.cpu().numpy()
        self.history.add(row, splits, distribution=distribution, reference=centre.astype("float32"))
        value = score(row.get("validation"), options.best)
        before = math.inf if self.best["best"] is None else self.best["best"]
        if value < before:
            self.best = {"best_epoch": epoch, "best": value}
            self.record |= self.best

    def _keep(self) -> None:
        """Keep the last checkpoint for good where it is the best, or that of every n-th epoch."""
        epoch, position = divmod(self.session.step, self.session.steps_per_epoch)
        if position and self.session.step < self.session.total_steps:
            return
        epoch += bool(position)
        if epoch == self.best["best_epoch"]:
            self.checkpoints.copy_last("best.pt")
        every = self.recipe.training.checkpoint_every
        if every and epoch and epoch % every == 0:
            self.checkpoints.copy_last(f"epoch-{epoch:04}.pt")

    def _save(self) -> None:
        self.workers.agree_on_buffers(self.session.model)
        tally = self.session.tally.table.clone()
        self.workers.add_up(tally)
        if self.workers.leads:
            self.checkpoints.save(
                {
                    "fingerprint": self.record["fingerprint"],
                    "session": self.session.state() | {"tally": tally},
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
        self.record |= {"seconds": seconds, "peak_memory_bytes": peak_memory(self.workers.device)}
        if self.workers.leads:
            self.folder.write(self.folder.path / "training-mix.csv", training_mix(self.record))
        self._write_record("finished")

    def _spent(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _write_record(self, status: str, reason: str | None = None) -> None:
        self.record |= {"status": status, "reason": reason}
        if self.workers.leads:
            self.folder.write_record(self.record)


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, (Interrupted, KeyboardInterrupt, SystemExit))


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
