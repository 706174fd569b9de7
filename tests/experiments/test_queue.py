from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.experiments import building, queue
from advshift.experiments.protocol import Planned, adversary, loss, protocol
from advshift.experiments.queue import Store, status, work
from advshift.experiments.records import read_record, record_path

SMALL = {"model.depth": 8, "model.width": 4, "training.max_steps": 2, "training.batch_size": 64}


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-100 in its own layout, of noise: 10 training and 2 test images a class."""
    folder = tmp_path_factory.mktemp("data") / "cifar-100-python"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, each in (("train", 10), ("test", 2)):
        images = rng.integers(0, 256, (100 * each, 3072), dtype=np.uint8)
        record = {b"fine_labels": [index % 100 for index in range(100 * each)], b"data": images}
        (folder / split).write_bytes(pickle.dumps(record, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"c%d" % i for i in range(100)]}, protocol=2))
    return folder.parent


def small_protocol() -> list[Planned]:
    """Tuning, what waits for it, held-out adversaries, and a run that begins with another's weights."""
    tuning = [
        Planned(f"tune/erm/{i}", "tune", "tune", "erm", 9, 1, SMALL | {"optimizer.lr": lr}, chosen=())
        for i, lr in enumerate((0.1, 0.2))
    ]
    held = SMALL | {"data.held_out": 0.2, "evaluate.splits": ["validation", "test", "held_out"]}
    erm = Planned("main/erm/seed-0", "A", "main", "erm", 0, 2, held, keep=True)
    fixed = Planned("main/fixed-1/seed-0", "A", "main", "fixed-1", 0, 1, held, fixed=(erm.key, 1.0))
    shift = Planned("main/advshift/seed-0", "A", "main", "advshift", 0, 1, SMALL | adversary("advshift", radius=0.1))
    tail = {"data.imbalance": "exponential", "data.imbalance_ratio": 5.0}
    ldam = SMALL | tail | loss("ldam-drw") | {"model.head": "cosine"}
    prior = Planned("tail/ldam/seed-0", "B", "tail", "ldam", 0, 1, ldam)
    fine = Planned("main/fine/seed-0", "B", "main", "fine", 0, 1, SMALL, start_from=erm.key)
    return [*tuning, shift, fixed, erm, prior, fine]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (queue, building):
        monkeypatch.setattr(module, "protocol", small_protocol)


def test_the_queue_takes_what_can_be_taken_and_goes_on_where_it_was_stopped(
    tmp_path: Path, cifar: Path, small: None
) -> None:
    store, told = Store(tmp_path / "store"), []
    assert {state for _, state in status(store)} == {"missing", "waiting"}
    assert work(store, tiers=["tune"], data=str(cifar), tell=told.append) == 2
    again = Store(tmp_path / "store")
    states = {run.key: state for run, state in status(again)}
    assert states["tune/erm/0"] == "done"
    assert states["main/advshift/seed-0"] == "missing"
    assert states["main/fixed-1/seed-0"] == "waiting"
    assert work(again, data=str(cifar), tell=told.append) == 5
    assert {state for _, state in status(again)} == {"done"}
    assert work(again, data=str(cifar)) == 0
    assert len(told) == 7


def test_a_record_holds_what_figures_need(tmp_path: Path, cifar: Path, small: None) -> None:
    store = Store(tmp_path / "store")
    work(store, tiers=["tune", "A"], data=str(cifar))
    record = read_record(record_path(store.records, "main/fixed-1/seed-0"))
    assert record.finished
    assert record.counts("train_full").sum() == 720
    assert record.counts("validation").sum() == 100
    assert record.counts("test").sum() == 200
    assert record.about["recipe"]["optimizer"]["lr"] in (0.1, 0.2)
    assert "path" not in record.about["recipe"]["data"]
    source = read_record(record_path(store.records, "main/erm/seed-0"))
    np.testing.assert_allclose(
        record.arrays["distribution"][-1], building.held_out_adversary(source, 1.0), rtol=1e-5, atol=1e-7
    )
    assert (store.folder("main/erm/seed-0") / "predictions" / "test.npz").exists()
    assert not store.folder("main/fixed-1/seed-0").exists()


def test_only_the_runs_that_are_asked_for_are_taken(tmp_path: Path, cifar: Path, small: None) -> None:
    store, told = Store(tmp_path / "store"), []
    assert work(store, only=["tune/*/1", "tail/*"], data=str(cifar), tell=told.append) == 1
    assert read_record(record_path(store.records, "tune/erm/1")).finished
    assert "waits for runs that are not asked for" in told[-1]  # the tail's needs both settings
    with pytest.raises(InputError, match=r"no planned run .* matches mian/\*"):
        work(store, only=["mian/*"])


def test_a_run_that_another_process_has_is_left_to_it(tmp_path: Path, cifar: Path, small: None) -> None:
    store = Store(tmp_path / "store")
    store.create()
    with store.claim("tune/erm/0").locked():
        states = {run.key: state for run, state in status(store)}
        assert states["tune/erm/0"] == "running"


@pytest.mark.slow
def test_the_command_goes_on_to_the_same_record_after_a_kill_and_a_signal(tmp_path: Path, cifar: Path) -> None:
    key, records = "tune/erm/0", {}
    calm = os.environ | {"OMP_NUM_THREADS": "1"}  # threads that wait for each other crawl beside other work
    for name, ends in (("whole", ()), ("killed", (signal.SIGKILL, signal.SIGTERM))):
        command = [sys.executable, "-m", "advshift", "reproduce", "--run", "--only", key, "--store", tmp_path / name]
        command += ["--data", cifar]
        for end in ends:
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=calm
            ) as process:
                wait_for_an_epoch_more(tmp_path / name / "runs" / "tune--erm--0" / "metrics.jsonl", process)
                process.send_signal(end)
                _, said = process.communicate(timeout=60)
            assert process.returncode == (130 if end == signal.SIGTERM else -end)
            assert ("the same command goes on" in said) == (end == signal.SIGTERM)
            assert "Traceback" not in said
        subprocess.run(command, check=True, capture_output=True, env=calm)
        records[name] = read_record(record_path(tmp_path / name / "records", key))
    for name, array in records["whole"].arrays.items():
        np.testing.assert_array_equal(records["killed"].arrays[name], array)


def wait_for_an_epoch_more(metrics: Path, process: subprocess.Popen[str]) -> None:
    """Until the run has recorded an epoch that it had not when this began."""
    before = metrics.read_text().count("\n") if metrics.exists() else 0
    while not (metrics.exists() and metrics.read_text().count("\n") > before):
        assert process.poll() is None, "the run ended before it could be stopped"
        time.sleep(0.05)


def test_every_planned_run_has_a_name_of_its_own_and_needs_runs_that_are_planned() -> None:
    keys = [run.key for run in protocol()]
    assert len(set(keys)) == len(keys)
    for run in protocol():
        assert set(building.needs(run)) <= set(keys)


@pytest.mark.parametrize("run", [run for run in protocol() if run.seed in (0, 1000)], ids=lambda run: run.key)
def test_every_planned_run_makes_a_valid_objective(run: Planned) -> None:
    from advshift.experiments.records import Record
    from advshift.training.objective import build_objective

    rng = np.random.default_rng(0)
    arrays = {"reference": np.full(100, 0.01, np.float32)}
    for split, count in (("validation", 50), ("held_out", 45)):
        arrays[f"{split}_counts"] = np.full(100, count)
        arrays[f"{split}_errors"] = rng.integers(0, count, (1, 100))
    recipe = building.build_recipe(run, lambda key: Record({"key": key, "status": "finished"}, arrays), data=None)
    build_objective(recipe.objective, np.full(100, 450), 1000)
    assert recipe.training.epochs == run.epochs
