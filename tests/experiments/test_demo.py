"""The demo runs end to end on real data, and a user can repeat its audit by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from advshift.cli.app import app
from advshift.experiments.demo import IMBALANCE, MODELS, long_tailed_digits
from advshift.sets import KLBall


def test_digits_have_a_long_tail_for_training_only() -> None:
    digits = long_tailed_digits(0)
    train, test = np.bincount(digits.train_labels), np.bincount(digits.test_labels)
    assert (np.diff(train) <= 2).all()
    assert train[0] / train[9] == pytest.approx(IMBALANCE, rel=0.2)
    assert test.max() / test.min() < 1.1
    both = {image.tobytes() for image in digits.train_images} & {image.tobytes() for image in digits.test_images}
    assert not both


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
