from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.training.folder import RunFolder
from advshift.training.runs import list_runs

HOLD = """
import sys, time
from advshift.training.folder import RunFolder
with RunFolder(sys.argv[1]).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder


def test_another_process_cannot_take_a_held_folder_until_it_is_killed(folder: RunFolder) -> None:
    source = str(Path(__file__).parents[2] / "src")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert folder.in_use()
        with pytest.raises(InputError, match=f"is in use by process {holder.pid}; wait for it"), folder.locked():
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert not folder.in_use()
    with folder.locked():
        assert folder.in_use()


def test_a_crashed_run_says_so(folder: RunFolder) -> None:
    folder.write_record({"name": "a", "status": "running", "epochs": 3})
    folder.write_metrics([{"epoch": 2, "seconds": 1.0}])
    with folder.locked():
        assert list_runs(folder.path.parent)[0].status == "running"
    found = list_runs(folder.path.parent)[0]
    assert (found.status, found.epoch, found.epochs) == ("crashed", 2, 3)


def test_a_damaged_record_is_listed_as_unreadable(folder: RunFolder) -> None:
    folder.record.write_text("{")
    assert list_runs(folder.path.parent)[0].status == "unreadable"
    folder.write_record({"status": "running"})
    assert list_runs(folder.path.parent)[0].record["reason"].startswith("what the run's files say does not fit")
    folder.write_record({"name": "run", "epochs": 3})
    folder.metrics.write_text("[]\n")
    assert list_runs(folder.path.parent)[0].status == "unreadable"
    folder.record.write_text('{"schema": "other"}')
    with pytest.raises(InputError, match="does not hold a record of schema"):
        folder.read_record()
    with pytest.raises(InputError, match="is no run folder"):
        RunFolder(folder.path / "nowhere").read_record()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the run folder"):
        RunFolder(tmp_path / "file" / "run").create()
    with pytest.raises(InputError, match="there is no folder"):
        list_runs(tmp_path / "nothing")


def test_arrays_are_replaced_whole(folder: RunFolder) -> None:
    folder.write_arrays(folder.classes, {"a": np.arange(3)})
    before = time.time()
    folder.write_arrays(folder.classes, {"a": np.arange(4)})
    with np.load(folder.classes) as found:
        assert found["a"].tolist() == [0, 1, 2, 3]
    assert [path.name for path in folder.path.iterdir() if path.name.startswith(".")] == []
    assert before <= time.time()
