"""Several processes train as one would with the same batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import advshift
from advshift.training import Recipe, train
from advshift.training.checkpoints import read_checkpoint

SCRIPT = Path(__file__).parent / "scripts" / "train_together.py"
WITHOUT_NORMS: dict[str, Any] = {
    "model": {"name": "cifar-resnet", "depth": 8, "width": 4, "norm": "group"},
    "augmentation": {"crop": 1, "flip": True},
    "training": {"precision": "float32", "threads": 1, "epochs": 2, "batch_size": 61, "clip_norm": 1.0, "average": 0.9}
    | {"checkpoint_seconds": 600.0},
}

MIXED = {"mixup": 0.5, "cutmix": 1.0, "cutout": 3}


def launch(world: int, *arguments: object, limit: float = 300.0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment, timeout=limit
    )


def train_together(recipe: Recipe, world: int, folder: Path) -> list[dict[str, Any]]:
    file = folder.with_suffix(".toml")
    file.write_text(recipe.to_toml())
    done = launch(world, SCRIPT, file, folder)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(world)]


def last(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = read_checkpoint(folder / "checkpoints" / "last.pt")["session"]
    return state


def compare(full: Any, tmp_path: Path, world: int, tables: dict[str, Any]) -> None:
    recipe = full(**{name: WITHOUT_NORMS.get(name, {}) | tables.get(name, {}) for name in {*WITHOUT_NORMS, *tables}})
    ranks = train_together(recipe, world, tmp_path / "together")
    for other in ranks[1:]:
        for part in ("objective", "model"):
            assert all(torch.equal(value, other[part][name]) for name, value in ranks[0][part].items())
    train(recipe, tmp_path / "alone")
    together, alone = last(tmp_path / "together"), last(tmp_path / "alone")
    for name, value in alone["model"].items():
        scale = float(value.abs().max())
        torch.testing.assert_close(together["model"][name], value, rtol=1e-5, atol=1e-5 * scale)
    for name, value in alone["objective"].items():
        torch.testing.assert_close(together["objective"][name], value, rtol=1e-5, atol=1e-6)
    with np.load(tmp_path / "together" / "classes.npz") as found, np.load(tmp_path / "alone" / "classes.npz") as wanted:
        for name in wanted.files:
            if name.endswith("_counts"):
                np.testing.assert_array_equal(found[name], wanted[name])
    for split in ("test", "validation"):
        files = [tmp_path / run / "predictions" / f"{split}.npz" for run in ("together", "alone")]
        with np.load(files[0]) as found, np.load(files[1]) as wanted:
            np.testing.assert_array_equal(found["ids"], wanted["ids"])
            np.testing.assert_array_equal(found["labels"], wanted["labels"])
            np.testing.assert_allclose(found["logits"], wanted["logits"], rtol=1e-3, atol=1e-3)


def test_two_processes_are_one(full: Any, tmp_path: Path) -> None:
    sgd = {"name": "SGD", "lr": 0.05, "momentum": 0.9}
    compare(full, tmp_path, 2, {"optimizer": sgd, "augmentation": {"cutmix": None, "mixup": None}})


@pytest.mark.slow
def test_two_processes_mix_images_as_one(full: Any, tmp_path: Path) -> None:
    sgd = {"name": "SGD", "lr": 0.05, "momentum": 0.9}
    compare(
        full, tmp_path, 2, {"optimizer": sgd, "training": {"batch_size": 64, "max_steps": 4}, "augmentation": MIXED}
    )


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    "objective",
    [
        {},
        {"adversary_data": "refresh"},
        {"adversary_data": "held-out"},
        {"adversary": "exact"},
        {"reference": "estimated"},
        {"adversary": "tilted", "radius": None, "rate": 1.0},
    ],
    ids=["batch", "refresh", "held-out", "exact", "estimated", "tilted"],
)
def test_every_regime_over_several_processes(full: Any, tmp_path: Path, world: int, objective: dict[str, Any]) -> None:
    sgd = {"name": "SGD", "lr": 0.05, "momentum": 0.9}
    mixing = {"cutmix": None, "mixup": None}
    # A batch that is weighed by its own class losses is not the sum of its parts, which differ with the processes.
    whole = {"accumulate": 1} if objective.get("adversary") == "tilted" else {}
    tables = {"optimizer": sgd, "augmentation": mixing, "objective": objective, "training": whole}
    compare(full, tmp_path, world, tables)


@pytest.mark.slow
def test_norms_of_each_process_still_agree_on_what_is_evaluated(full: Any, tmp_path: Path) -> None:
    ranks = train_together(full(), 2, tmp_path / "together")
    for name, value in ranks[0]["objective"].items():
        assert torch.equal(value, ranks[1]["objective"][name])
    rows = [json.loads(line) for line in (tmp_path / "together" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["train"]["loss"] < rows[0]["train"]["loss"]


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """A folder of 1,000 classes with two images of 64 pixels each, and one to judge by."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for part, images in (("train", 2), ("val", 1)):
        for kind in range(1000):
            folder = tmp_path / "imagenet" / part / f"n{kind:08}"
            folder.mkdir(parents=True)
            for number in range(images):
                pixels = draw.integers(0, 256, (64, 64, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.JPEG")
    return tmp_path / "imagenet"


@pytest.mark.slow
def test_the_imagenet_recipe_runs_end_to_end_on_two_processes(imagenet: Path, tmp_path: Path) -> None:
    words = ["train", "imagenet-advshift", "--data", imagenet, "--output", tmp_path / "run", "--max-steps", 20]
    changed = ["data.image_size=64", "data.workers=1"]
    done = launch(2, "-m", "advshift", *words, *changed, limit=1800.0)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "2,000 training examples of 1,000 classes; 20 steps of 256 on cpu" in done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["status"], record["world"], record["steps"], record["epochs"]) == ("finished", 2, 20, 90)
    with np.load(tmp_path / "run" / "predictions" / "validation.npz") as found:
        assert sorted(found["labels"].tolist()) == list(range(1000))
        assert found["logits"].shape == (1000, 1000)
        assert np.isfinite(found["logits"]).all()
    with np.load(tmp_path / "run" / "classes.npz") as found:
        np.testing.assert_allclose(found["distribution"].sum(axis=1), 1.0, rtol=1e-5)


def test_a_last_batch_smaller_than_the_processes_is_refused_at_once(small: Any, tmp_path: Path) -> None:
    from advshift.data import load_data
    from advshift.errors import InputError
    from advshift.training.session import Session
    from advshift.training.workers import Workers

    recipe = small()
    data = load_data(recipe.data)
    workers = Workers(0, 3, torch.device("cpu"))
    recipe = small(training={"batch_size": len(data.train) - 2})
    with pytest.raises(InputError, match=r"the last batch of an epoch has 2 of the .* fewer than the 3 processes"):
        Session(recipe, data, workers)


def test_a_launcher_that_sets_half_of_the_variables(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from advshift.errors import InputError

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="MASTER_ADDR, MASTER_PORT is not set; start with torchrun"):
        train(small(), tmp_path / "run")
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(InputError, match="WORLD_SIZE must be a whole number; got 'two'"):
        train(small(), tmp_path / "run")
