"""The study of wrong labels: its noise is what it says, a run gives what is recorded, and the page shows the record."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    specification = importlib.util.spec_from_file_location("label_noise", ROOT / "benchmarks" / "label_noise.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_noise_is_what_it_says(study: ModuleType) -> None:
    clean = study.split("none", 0.0, 3)
    assert not clean.wrong.any()
    for noise, rate in study.NOISES[1:]:
        data = study.split(noise, rate, 3)
        assert torch.equal(data.wrong, data.labels != clean.labels)
        assert data.wrong.float().mean().item() == pytest.approx(rate, abs=1e-3)
        assert torch.equal(data.truth, clean.truth)
        if noise == "onto 3 and 8":
            assert torch.isin(data.labels[data.wrong], torch.tensor([3, 8])).all()


def test_weights_and_errors_of_a_short_run(study: ModuleType) -> None:
    plain, greedy = (study.one((method, "even", 0.2, 0, 4)) for method in ("ERM", "CVaR"))
    assert plain["error"] < 0.6
    assert plain["error"] <= plain["robust"] <= plain["worst"] + 1e-9
    assert plain["share"] == pytest.approx(0.2, abs=0.05)
    assert greedy["share"] > plain["share"]


def test_the_page_shows_the_record(study: ModuleType) -> None:
    saved = json.loads(study.RECORD.read_text())
    page = (ROOT / "docs" / "label-noise.md").read_text()
    for part in study.tables(saved):
        assert part in page
