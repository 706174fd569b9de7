"""Several processes hold the same bits, equal to one process that sees the concatenated batch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import advshift

SCRIPT = Path(__file__).parent / "scripts" / "train_in_parallel.py"


def script() -> Any:
    specification = importlib.util.spec_from_file_location("train_in_parallel", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def check(name: str, commits: str, world: int, folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    done = subprocess.run(
        [*command, SCRIPT, name, commits, folder], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    ranks = [torch.load(folder / f"{name}-{commits}-{rank}.pt") for rank in range(world)]
    for other in ranks[1:]:
        assert all(torch.equal(ranks[0][key], other[key]) for key in ranks[0])
    alone = script().train(name, "forward" if commits == "compiled" else commits, 0, 1)
    torch.testing.assert_close(ranks[0], alone, rtol=1e-6, atol=1e-6)


def test_two_processes(tmp_path: Path) -> None:
    check("advshift", "forward", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["advshift", "exact"])
def test_one_graph_in_two_processes(name: str, tmp_path: Path) -> None:
    check(name, "compiled", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["advshift", "tilted"])
def test_several_labels_an_example(name: str, tmp_path: Path) -> None:
    check(name, "labels", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("commits", ["forward", "attached", "manual"])
@pytest.mark.parametrize("name", ["advshift", "exact", "tilted", "group-dro"])
def test_every_regime(name: str, commits: str, world: int, tmp_path: Path) -> None:
    check(name, commits, world, tmp_path)
