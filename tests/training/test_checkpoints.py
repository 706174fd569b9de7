from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from advshift.errors import InputError
from advshift.training.checkpoints import Checkpoints, read_checkpoint


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def test_the_last_is_read_and_the_one_before_is_kept(checkpoints: Checkpoints) -> None:
    assert checkpoints.load() is None
    for step in (1, 2, 3):
        checkpoints.save({"step": step, "weights": torch.full((3,), float(step))})
    found = checkpoints.load()
    assert found is not None
    assert (found.state["step"], found.notice) == (3, None)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["last.previous.pt", "last.pt"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_last_falls_back_and_says_so(checkpoints: Checkpoints, share: float) -> None:
    for step in (1, 2):
        checkpoints.save({"step": step})
    last = checkpoints.folder / "last.pt"
    last.write_bytes(last.read_bytes()[: int(share * last.stat().st_size)])
    found = checkpoints.load()
    assert found is not None
    assert found.state["step"] == 1
    assert "is damaged or not one of ours" in str(found.notice)
    assert "going on from the one before it" in str(found.notice)
    (checkpoints.folder / "last.previous.pt").write_bytes(b"")
    with pytest.raises(InputError, match="no checkpoint of the run can be read"):
        checkpoints.load()


class _Hostile:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("how", ["archive", "pickle"])
def test_a_hostile_checkpoint_executes_nothing(tmp_path: Path, how: str) -> None:
    marker, path = tmp_path / "executed", tmp_path / "last.pt"
    content = {"schema": "advshift.checkpoint/1", "bad": _Hostile(marker)}
    if how == "archive":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match="is damaged or not one of ours") as caught:
        read_checkpoint(path)
    assert "weights_only" not in str(caught.value)  # which torch advises to switch off
    assert not marker.exists()


def test_what_is_no_checkpoint_of_ours(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="does not hold a state of schema"):
        read_checkpoint(tmp_path / "other.pt")
    with pytest.raises(InputError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / "missing.pt")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_leaves_the_last_in_place(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save({"step": 1})
    (checkpoints.folder / ".last.pt.tmp").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"cannot write a checkpoint .* the last one is still there"):
        checkpoints.save({"step": 2, "weights": torch.zeros(100_000)})
    found = checkpoints.load()
    assert found is not None
    assert found.state["step"] == 1


def test_a_copy_of_the_last_does_not_change_with_it(checkpoints: Checkpoints) -> None:
    checkpoints.save({"step": 1})
    checkpoints.copy_last("best.pt")
    checkpoints.save({"step": 2})
    assert read_checkpoint(checkpoints.folder / "best.pt")["step"] == 1
