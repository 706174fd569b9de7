"""A recipe that asks for compilation trains the same model, and its checkpoint knows nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from advshift.training import load_recipe, train
from advshift.training.checkpoints import read_checkpoint


@pytest.mark.slow
def test_a_compiled_network_trains_as_it_is(tmp_path: Path) -> None:
    states = []
    for how in ("false", "true"):
        recipe = load_recipe("digits-advshift", ["model.name=mlp", "training.epochs=2", f"training.compile={how}"])
        train(recipe, tmp_path / how)
        states.append(read_checkpoint(tmp_path / how / "checkpoints" / "last.pt")["session"])
    plain, compiled = states
    assert plain["model"].keys() == compiled["model"].keys()
    for part in ("model", "objective"):
        for name, value in plain[part].items():
            torch.testing.assert_close(compiled[part][name], value, rtol=1e-3, atol=1e-4)
