"""The demo runs end to end on real data, and a user can repeat its audit by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from advshift.cli.app import app
from advshift.data import load_data
from advshift.experiments.demo import MODELS
from advshift.sets import KLBall
from advshift.training import load_recipe


def test_digits_have_a_long_tail_for_training_only() -> None:
    recipes = [load_recipe(name) for name in MODELS.values()]
    assert recipes[0].data == recipes[1].data
    digits = load_data(recipes[0].data)
    assert digits.test is not None
    train, test = (np.bincount(split.labels.numpy()) for split in (digits.train, digits.test))
    assert (np.diff(train) <= 2).all()
    assert train[0] / train[9] == pytest.approx(recipes[0].data.imbalance_ratio, rel=0.2)
    assert test.max() / test.min() < 1.1
    assert not set(digits.train.ids.tolist()) & set(digits.test.ids.tolist())


def test_demo(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = CliRunner().invoke(app, ["demo", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    record = json.loads((folder / "audit.json").read_text())
    assert [model["name"] for model in record["models"]] == list(MODELS)
    for picture in ("picture-light.png", "picture-dark.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    reference = np.array(record["reference"]["distribution"])
    for model in record["models"]:
        risks = np.array([one["risk"] for one in model["classes"]])
        for point in model["curve"]:
            if isinstance(point["radius"], float):
                assert point["plug_in"] == pytest.approx(
                    float(KLBall(point["radius"]).value(risks, reference)), abs=1e-9
                )
    assert json.loads((folder / "runs" / "advshift" / "run.json").read_text())["status"] == "finished"
    again = CliRunner().invoke(
        app,
        ["audit", *[str(folder / f"{name}.csv") for name in MODELS], "--reference", str(folder / "training-mix.csv")],
    )
    assert again.exit_code == 0, again.output


def test_demo_opens_its_report_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path), "--open"])
    assert result.exit_code == 0, result.output
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_demo_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "taken")])
    assert result.exit_code != 0
