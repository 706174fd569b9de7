"""Recipes and data for the engine's tests: real, small, and loaded once."""

from __future__ import annotations

from typing import Any

import pytest

from advshift.data import DataOptions, DataSet, load_data
from advshift.training import Recipe, make_recipe

SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"name": "digits", "test": 0.4, "validation": 0.1, "held_out": 0.1, "imbalance": "exponential"}
    | {"imbalance_ratio": 10.0},
    "model": {"name": "linear"},
    "objective": {"adversary": "advshift", "radius": 0.3},
    "optimizer": {"name": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3},
    "training": {"epochs": 3, "batch_size": 64},
}


# Norms, an average, accumulation, clipping, mixing, two kinds of draws: all that a resumed run could forget.
FULL: dict[str, Any] = {
    "model": {"name": "cifar-resnet", "depth": 8, "width": 4},
    "augmentation": {"crop": 1, "flip": True, "cutmix": 1.0, "mixup": 0.5},
    "optimizer": {"name": "AdamW", "lr": 0.003, "weight_decay": 0.01, "momentum": None},
    "schedule": {"name": "one-cycle"},
    "training": {"average": 0.99, "accumulate": 2, "clip_norm": 1.0, "threads": 1, "checkpoint_seconds": 1e-9},
}


def make(*layers: dict[str, Any]) -> Recipe:
    """A recipe of layers of tables; a value of None takes a key away."""
    tree: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            tree[name] = tree.get(name, {}) | value if isinstance(value, dict) else value
    return make_recipe({name: _present(value) for name, value in tree.items()})


def _present(value: Any) -> Any:
    return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value


@pytest.fixture(scope="session")
def digits() -> DataSet:
    """The small recipe's data."""
    return load_data(DataOptions(**SMALL["data"]))


@pytest.fixture
def small() -> Any:
    """The maker of small recipes: `small(training={"epochs": 1})`."""
    return lambda **tables: make(SMALL, tables)


@pytest.fixture
def full() -> Any:
    """The maker of recipes with everything that a checkpoint has to hold."""
    return lambda **tables: make(SMALL, FULL, tables)
