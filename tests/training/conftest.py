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


def small_recipe(**tables: Any) -> Recipe:
    """The small recipe with other values in some of its tables."""
    tree = {key: dict(value) if isinstance(value, dict) else value for key, value in SMALL.items()}
    for name, table in tables.items():
        tree[name] = tree.get(name, {}) | table if isinstance(table, dict) else table
    return make_recipe(tree)


@pytest.fixture(scope="session")
def digits() -> DataSet:
    """The small recipe's data."""
    return load_data(DataOptions(**SMALL["data"]))


@pytest.fixture
def small() -> Any:
    """The maker of small recipes."""
    return small_recipe
