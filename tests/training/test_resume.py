"""A run that was stopped anywhere, by anything, ends as one that never was, to the last bit."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import advshift
from advshift.data import DataSet
from advshift.errors import InputError, Interrupted
from advshift.training import list_runs, train
from advshift.training.checkpoints import read_checkpoint
from advshift.training.progress import Silent

TIMES = ("seconds", "images_per_second")
COMMAND = [sys.executable, "-m", "advshift", "train"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


class Killed(BaseException):
    """What no code of the engine expects."""


class Watcher(Silent):
    """Does something at a step, and keeps what was said."""

    def __init__(self, at: int = -1, action: Any = None) -> None:
        self.at, self.action, self.said = at, action, []

    def say(self, message: str) -> None:
        self.said.append(message)

    def step(self, epoch: int, epochs: int, step: int, steps: int, examples: int) -> None:
        if step == self.at:
            self.action()


def kill() -> None:
    raise Killed


def assert_same(one: Path, other: Path) -> None:
    """Everything that two runs leave behind is the same, but for the time they took."""
    states = [read_checkpoint(path / "checkpoints" / "last.pt") for path in (one, other)]
    assert_equal(states[0]["session"], states[1]["session"])
    assert states[0]["best"] == states[1]["best"]
    rows = [[json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()] for path in (one, other)]
    for row in [*rows[0], *rows[1]]:
        for name in TIMES:
            row.pop(name)
    assert rows[0] == rows[1]
    bests = [read_checkpoint(path / "checkpoints" / "best.pt")["session"] for path in (one, other)]
    assert_equal(*bests)
    for file in ("classes.npz", "predictions/test.npz", "predictions/validation.npz"):
        with np.load(one / file) as first, np.load(other / file) as second:
            assert first.files == second.files
            for name in first.files:
                np.testing.assert_array_equal(first[name], second[name])


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


VARIANTS: dict[str, dict[str, Any]] = {
    "batch": {},
    "refresh": {"objective": {"adversary_data": "refresh"}},
    "held-out": {"objective": {"adversary_data": "held-out", "reference": "estimated"}},
    "deferred": {
        "objective": {"adversary": "erm", "radius": None, "loss": "ldam-drw"},
        "model": {"head": "cosine"},
        "augmentation": {"cutmix": None, "mixup": None},
    },
    "dropout": {
        "model": {"name": "mlp", "depth": None, "width": None, "dropout": 0.3},
        "augmentation": {"crop": 0, "flip": False},
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_that_was_killed_at_any_step_ends_the_same(
    full: Any, digits: DataSet, tmp_path: Path, variant: str
) -> None:
    recipe = full(**VARIANTS[variant])
    whole = train(recipe, tmp_path / "whole", data=digits)
    draw = random.Random(variant)
    for at in sorted(draw.sample(range(1, whole["steps"]), 3)):
        with pytest.raises(Killed):
            train(recipe, tmp_path / "killed", resume=True, reporter=Watcher(at, kill), data=digits)
    record = train(recipe, tmp_path / "killed", resume=True, data=digits)
    assert record["status"] == "finished"
    assert record["best_epoch"] == whole["best_epoch"]
    assert_same(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(full: Any, digits: DataSet, tmp_path: Path, number: int) -> None:
    recipe = full(training={"checkpoint_seconds": 1e9})
    train(recipe, tmp_path / "whole", data=digits)
    folder = tmp_path / "stopped"
    before = signal.getsignal(number)
    with pytest.raises(
        Interrupted, match=rf"stopped by {signal.Signals(number).name} after step 9, and saved.*--resume"
    ):
        train(recipe, folder, reporter=Watcher(9, lambda: os.kill(os.getpid(), number)), data=digits)
    assert signal.getsignal(number) is before
    assert read_checkpoint(folder / "checkpoints" / "last.pt")["session"]["step"] == 9
    assert list_runs(tmp_path)[0].status == "interrupted"
    train(recipe, folder, resume=True, data=digits)
    assert_same(tmp_path / "whole", folder)


def test_a_truncated_last_checkpoint_falls_back(full: Any, digits: DataSet, tmp_path: Path) -> None:
    recipe, watcher = full(), Watcher()
    train(recipe, tmp_path / "whole", data=digits)
    with pytest.raises(Killed):
        train(recipe, tmp_path / "cut", reporter=Watcher(9, kill), data=digits)
    last = tmp_path / "cut" / "checkpoints" / "last.pt"
    last.write_bytes(last.read_bytes()[:-100])
    train(recipe, tmp_path / "cut", resume=True, reporter=watcher, data=digits)
    assert "is damaged" in watcher.said[1]
    assert "going on from the one before it" in watcher.said[1]
    assert watcher.said[2] == "resumed after step 7 of 18"
    assert_same(tmp_path / "whole", tmp_path / "cut")


def _without(*path: str) -> Any:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return change


def _with(value: Any, *path: str) -> Any:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_without("fingerprint"), "KeyError: 'fingerprint'"),
        (_without("session", "model"), "KeyError: 'model'"),
        (_without("best"), "KeyError: 'best'"),
        (_with("x", "session", "optimizer"), "AttributeError"),
        (_with(torch.zeros(3, 3), "session", "model", "head.weight"), "size mismatch for head.weight"),
        (_with([], "session", "optimizer", "param_groups"), "different number of parameter groups"),
        (_with(-5, "session", "step"), "step -5 of 18"),
        (_with(10**9, "session", "step"), "step 1,000,000,000 of 18"),
        (_with("{", "history", "rows"), "JSONDecodeError"),
        (_with("soon", "seconds"), "could not convert"),
    ],
)
def test_a_whole_checkpoint_with_another_content_is_one_sentence(
    small: Any, digits: DataSet, tmp_path: Path, change: Any, match: str
) -> None:
    recipe = small(training={"checkpoint_seconds": 1e-9})
    with pytest.raises(Killed):
        train(recipe, tmp_path / "run", reporter=Watcher(9, kill), data=digits)
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    state = read_checkpoint(last)
    change(state)
    torch.save(state, last)
    with pytest.raises(InputError, match=match) as caught:
        train(recipe, tmp_path / "run", resume=True, data=digits)
    assert "does not fit this run" in str(caught.value)
    assert "\n" not in str(caught.value)
    last.unlink()  # as the sentence says
    assert train(recipe, tmp_path / "run", resume=True, data=digits)["status"] == "finished"


def test_files_that_cannot_grow_lose_nothing(full: Any, digits: DataSet, tmp_path: Path) -> None:
    recipe = full()
    train(recipe, tmp_path / "whole", data=digits)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        limit = Watcher(10, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard)))
        with pytest.raises(InputError, match="the last one is still there, make room and resume") as caught:
            train(recipe, tmp_path / "full", reporter=limit, data=digits)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert "File too large" in str(caught.value)
    assert list_runs(tmp_path)[0].status == "failed"
    assert not list((tmp_path / "full" / "checkpoints").glob(".*"))
    train(recipe, tmp_path / "full", resume=True, data=digits)
    assert_same(tmp_path / "whole", tmp_path / "full")


def test_resuming_by_another_recipe_says_what_differs(small: Any, digits: DataSet, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(small(), tmp_path / "run", reporter=Watcher(9, kill), data=digits)
    other = small(optimizer={"lr": 0.2}, training={"epochs": 4})
    with pytest.raises(InputError, match=r"began with \(optimizer.lr: 0.1 → 0.2; training.epochs: 3 → 4\)"):
        train(other, tmp_path / "run", resume=True, data=digits)
    record = train(
        small(training={"checkpoint_seconds": 5.0, "threads": 1}), tmp_path / "run", resume=True, data=digits
    )
    assert record["status"] == "finished"


def test_other_data_are_refused(small: Any, digits: DataSet, tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(Killed):
        train(small(), tmp_path / "run", reporter=Watcher(9, kill), data=digits)
    before = (tmp_path / "run" / "run.json").read_text()
    with pytest.raises(InputError, match="their fingerprint has changed"):
        train(small(), tmp_path / "run", resume=True, data=replace(digits, fingerprint="another"))
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_a_finished_run_is_left_as_it_is(small: Any, digits: DataSet, tmp_path: Path) -> None:
    record = train(small(), tmp_path / "run", data=digits)
    stamp = (tmp_path / "run" / "checkpoints" / "last.pt").stat().st_mtime_ns
    with pytest.raises(InputError, match=r"holds a run already \(finished\); resume it, or name another folder"):
        train(small(), tmp_path / "run", data=digits)
    again = train(small(), tmp_path / "run", resume=True, data=digits)
    assert again["best_epoch"] == record["best_epoch"]
    assert (tmp_path / "run" / "checkpoints" / "last.pt").stat().st_mtime_ns == stamp


def test_a_resumed_run_says_with_what_else_it_computes(small: Any, digits: DataSet, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(small(training={"threads": 1}), tmp_path / "run", reporter=Watcher(9, kill), data=digits)
    watcher, file = Watcher(), tmp_path / "run" / "run.json"
    record = json.loads(file.read_text())
    assert set(record["versions"]) == {"advshift", "torch", "numpy", "python"}
    file.write_text(json.dumps(record | {"instructions": "another"}))
    train(small(training={"threads": 2}), tmp_path / "run", resume=True, reporter=watcher, data=digits)
    assert any("instructions: another → " in line and "threads: 1 → 2" in line for line in watcher.said)


def start(recipe: Path, folder: Path) -> subprocess.Popen[str]:
    command = [*COMMAND, str(recipe), "--output", str(folder), "--resume", "--quiet"]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until_it_trains(folder: Path, process: subprocess.Popen[str]) -> None:
    lock, checkpoint = folder / "lock", folder / "checkpoints" / "last.pt"
    while process.poll() is None:
        if checkpoint.exists() and lock.read_text() == f"process {process.pid}\n":
            return
        time.sleep(0.01)


def stop_at_random_moments(full: Any, tmp_path: Path, number: int, times: int) -> None:
    recipe = full(training={"epochs": 8 * times, "checkpoint_seconds": 0.1}, evaluate={"every": 8})
    file = tmp_path / "recipe.toml"
    file.write_text(recipe.to_toml())
    draw, codes = random.Random(number), []
    for _ in range(times):
        process = start(file, tmp_path / "stopped")
        wait_until_it_trains(tmp_path / "stopped", process)
        time.sleep(draw.uniform(0.0, 1.0))
        process.send_signal(number)
        _, error = process.communicate()
        codes.append(process.returncode)
        assert "Traceback" not in error
    assert codes[0] in (130, -number)
    process = start(file, tmp_path / "stopped")
    _, error = process.communicate()
    assert process.returncode == 0, error
    with torch.random.fork_rng():
        train(recipe, tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "stopped")


def test_a_process_that_is_killed_once(full: Any, tmp_path: Path) -> None:
    stop_at_random_moments(full, tmp_path, signal.SIGKILL, 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_stopped_at_random_moments(full: Any, tmp_path: Path, number: int) -> None:
    stop_at_random_moments(full, tmp_path, number, 8)
