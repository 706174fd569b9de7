from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from advshift.data import DataSet
from advshift.errors import MissingDependencyError
from advshift.training import train, with_tensorboard
from advshift.training.progress import Silent
from advshift.training.tensorboard import scalars

INSTALLED = importlib.util.find_spec("tensorboard") is not None


def test_numbers_are_named_by_their_path() -> None:
    row = {"epoch": 2, "step": 8, "seconds": 1.5, "test": {"error": 0.25, "worst_case": {"1": 0.5}}}
    assert scalars(row) == {"seconds": 1.5, "test/error": 0.25, "test/worst_case/1": 0.5}


@pytest.mark.skipif(INSTALLED, reason="tensorboard is installed")
def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'advshift\[tensorboard\]'"):
        with_tensorboard(Silent(), tmp_path)


@pytest.mark.skipif(not INSTALLED, reason="tensorboard is not installed")
def test_every_epoch_is_written(small: Any, digits: DataSet, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(small(), tmp_path / "run", reporter=with_tensorboard(Silent(), tmp_path / "run"), data=digits)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert len(events.Scalars("test/error")) == 3
    assert "objective/divergence" in events.Tags()["scalars"]
