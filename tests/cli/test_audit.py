"""The audit and radius commands: one call each, exit codes, whole files, and one sentence for what is wrong."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import advshift
from advshift.audit.record import AuditRecord
from advshift.cli import main
from advshift.sets import KLBall

CLASSES, ROWS = 5, 1500


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return None


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["advshift", *arguments])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def _predictions(path: Path, rate: float = 0.1, seed: int = 0, classes: int = CLASSES) -> np.ndarray:
    generator = np.random.default_rng(seed)
    labels = np.random.default_rng(1).choice(classes, ROWS, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2))
    wrong = generator.random(ROWS) < rate * (1 + labels % 3)
    guesses = np.where(wrong, (labels + 1) % classes, labels)
    path.write_text("label,prediction\n" + "".join(f"{a},{b}\n" for a, b in zip(labels, guesses, strict=True)))
    return np.array([wrong[labels == k].mean() for k in range(classes)]), np.bincount(labels) / ROWS


def test_without_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _predictions(tmp_path / "model.csv")
    assert run(monkeypatch, "audit", "model.csv") == 0
    shown = capsys.readouterr()
    assert "label = label, prediction = prediction" in shown.err
    assert "--reference" in shown.err
    assert "times as frequent" in shown.out
    assert "Fix these first" in shown.out


def test_record_holds_the_exact_worst_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    risks, shares = _predictions(tmp_path / "model.csv")
    assert (
        run(monkeypatch, "audit", "model.csv", "--radii", "0,0.1,inf", "--json", "a.json", "--target", "0.2,0.9") == 0
    )
    record = AuditRecord.read("a.json")
    (model,) = record.models
    assert model.average == pytest.approx(shares @ risks)
    assert [point.radius for point in model.curve] == [0.0, 0.1, math.inf]
    assert model.curve[1].plug_in == pytest.approx(float(KLBall(0.1).worst_case(risks, shares).value))
    assert model.curve[2].plug_in == pytest.approx(risks.max())
    assert model.curve[2].slack
    assert [entry.risk for entry in model.classes] == pytest.approx(risks.tolist())
    assert model.breaking_points[0].radius == pytest.approx(float(KLBall(0.1).breaking_point(risks, shares, 0.2)))
    assert model.breaking_points[1].radius == math.inf
    assert record.inputs[0].rows == ROWS
    assert record.command == "advshift audit model.csv --radii 0,0.1,inf --json a.json --target 0.2,0.9"


def test_outputs_are_whole_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _predictions(tmp_path / "a.csv")
    _predictions(tmp_path / "b.csv", rate=0.05, seed=3)
    arguments = ("audit", "a.csv", "new=b.csv", "--common", "--csv", "o.csv", "--json", "o.json", "--html", "o.html")
    assert run(monkeypatch, *arguments) == 0
    json.loads((tmp_path / "o.json").read_text(), parse_constant=pytest.fail)
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows} == {"a", "new"}
    assert all(float(row["common"]) <= float(row["plug_in"]) + 1e-12 for row in rows)
    assert "</html>" in (tmp_path / "o.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "o.csv", "o.html", "o.json"]


@pytest.mark.parametrize(("rate", "target"), [(0.2, 0.4), (0.8, 0.9)])
def test_the_target_that_nobody_named_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rate: float, target: float
) -> None:
    wrong = round(100 * rate)
    rows = ["a,b"] * wrong + ["a,a"] * (100 - wrong) + ["b,a"] * wrong + ["b,b"] * (100 - wrong)
    (tmp_path / "a.csv").write_text("\n".join(["label,prediction", *rows]) + "\n")
    assert run(monkeypatch, "audit", "a.csv", "--json", "o.json") == 0
    assert AuditRecord.read("o.json").models[0].breaking_points[0].target == pytest.approx(target)


def test_one_file_is_not_written_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _predictions(tmp_path / "a.csv")
    assert run(monkeypatch, "audit", "a.csv", "--json", "o.json", "--csv", "o.json") == 2
    assert "two outputs would be written to 'o.json'" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi2", "tv", "frequency-cap", "top-k", "simplex", "box"])
def test_every_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    _predictions(tmp_path / "model.csv")
    (tmp_path / "ranges.csv").write_text("class,lower,upper\n0,0.1,0.5\n4,0,0.3\n")
    ranges = ("--ranges", "ranges.csv") if name == "box" else ()
    assert run(monkeypatch, "audit", "model.csv", "--set", name, "--json", "a.json", *ranges) == 0
    record = AuditRecord.read("a.json")
    values = [point.plug_in for point in record.models[0].curve]
    assert record.uncertainty_set.name == name
    assert values == sorted(values, reverse=name == "top-k")
    if name == "box":
        share = record.models[0].curve[0].distribution
        assert 0.1 <= share[0] <= 0.5
        assert share[4] <= 0.3


def test_max_ratio_is_the_frequency_cap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _predictions(tmp_path / "model.csv")
    assert run(monkeypatch, "audit", "model.csv", "--max-ratio", "2", "--json", "a.json") == 0
    record = AuditRecord.read("a.json")
    (point,) = record.models[0].curve
    share, reference = np.array(point.distribution), np.array(record.reference.distribution)
    assert record.uncertainty_set.name == "frequency-cap"
    assert (share <= 2 * reference + 1e-12).all()
    assert point.max_ratio == pytest.approx(2.0)


@pytest.mark.parametrize(("limit", "code"), [("0.05", 3), ("0.9", 0)])
def test_fail_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str, code: int
) -> None:
    _predictions(tmp_path / "model.csv")
    arguments = ("audit", "model.csv", "--fail-above", limit, "--at-radius", "0.07", "--json", "a.json")
    assert run(monkeypatch, *arguments) == code
    assert 0.07 in [point.radius for point in AuditRecord.read("a.json").models[0].curve]
    assert ("worst case at radius 0.07" in capsys.readouterr().err) == (code == 3)


def test_references(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    risks, _ = _predictions(tmp_path / "model.csv")
    (tmp_path / "train.csv").write_text("class,count\n" + "".join(f"{k},{k + 1}\n" for k in range(CLASSES)))
    (tmp_path / "labels.csv").write_text("label\n" + "".join(f"{k}\n" * (k + 1) for k in range(CLASSES)))
    expected = np.arange(1, CLASSES + 1) / 15
    for name, shares in (("uniform", np.full(CLASSES, 0.2)), ("train.csv", expected), ("labels.csv", expected)):
        assert run(monkeypatch, "audit", "model.csv", "--reference", name, "--json", "a.json") == 0
        record = AuditRecord.read("a.json")
        assert record.reference.distribution == pytest.approx(shares.tolist())
        assert record.reference.source == name
        assert record.models[0].average == pytest.approx(float(shares @ risks))


@pytest.mark.parametrize(("choice", "risk"), [("worst", 1.0), ("average", None), ("exclude", None)])
def test_a_class_of_the_reference_that_never_occurs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choice: str, risk: float | None
) -> None:
    risks, _ = _predictions(tmp_path / "model.csv")
    (tmp_path / "train.csv").write_text("class,share\n" + "".join(f"{k},1\n" for k in range(CLASSES + 1)))
    arguments = ("audit", "model.csv", "--reference", "train.csv", "--empty-class", choice, "--json", "a.json")
    assert run(monkeypatch, *arguments) == 0
    record = AuditRecord.read("a.json")
    (warning,) = [one for one in record.warnings if one.code == "empty-class"]
    assert f"class {CLASSES}" in warning.message
    known = risks.mean()
    expected = (risks.sum() + risk) / (CLASSES + 1) if risk is not None else known
    assert record.models[0].average == pytest.approx(expected)
    assert record.models[0].classes[CLASSES].risk is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv"], "there is no file 'nothing.csv'"),
        (["model.csv", "--label", "lable"], "did you mean 'label'"),
        (["model.csv", "--radii", "-0.1"], "a radius must be a number from 0 up; got -0.1"),
        (["model.csv", "--radii", "nan"], "a radius must be a number from 0 up"),
        (["model.csv", "--radii", "small"], "numbers separated by commas"),
        (["model.csv", "--radii", ""], "at least one radius"),
        (["model.csv", "--max-ratio", "0.5"], "a ratio must be a number from 1 up"),
        (["model.csv", "--max-ratio", "2", "--set", "kl"], "a largest ratio is a set of its own"),
        (["model.csv", "--set", "kll"], "did you mean 'kl'? (known: kl, reverse-kl, chi2"),
        (["model.csv", "--set", "box"], "needs the range"),
        (["model.csv", "--set", "top-k", "--radii", "6"], "k must be at most the number of classes, 5"),
        (["model.csv", "--set", "simplex", "--radii", "1"], "has no radius"),
        (["model.csv", "--confidence", "95"], "the confidence must be between 0 and 1"),
        (["model.csv", "--metric", "eror"], "did you mean 'error'"),
        (["model.csv", "--metric", "top-5"], "needs probabilities"),
        (["model.csv", "--metric", "cost"], "give --costs"),
        (["model.csv", "--bounds", "1,0"], "--bounds must be two numbers"),
        (["model.csv", "--json", "no/such/folder.json"], "its folder does not exist"),
        (["model.csv", "--html", "."], "it is a folder"),
        (["model.csv", "--reference", "short.csv"], "which is not among the classes 0, 1"),
        (["model.csv", "--reference", "twice.csv"], "names a class more than once: 0"),
        (["model.csv", "--reference", "text.csv"], "is not among the classes"),
        (["model.csv", "--reference", "negative.csv"], "from 0 up"),
        (["model.csv", "--seed", "-1"], "the seed must be"),
        (["model.csv", "--memory", "lots"], "memory"),
        (["model.csv", "model.csv"], "two models would be called 'model'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    _predictions(tmp_path / "model.csv")
    (tmp_path / "short.csv").write_text("class,share\n0,0.5\n1,0.5\n")
    (tmp_path / "twice.csv").write_text("class,share\n0,0.5\n0,0.5\n")
    (tmp_path / "text.csv").write_text("class,share\ncat,0.5\ndog,0.5\n")
    (tmp_path / "negative.csv").write_text("class,share\n" + "".join(f"{k},-1\n" for k in range(CLASSES)))
    before = sorted(tmp_path.iterdir())
    assert run(monkeypatch, "audit", *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    assert not shown.out
    assert sorted(tmp_path.iterdir()) == before


def test_outputs_are_checked_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "audit", "nothing.csv", "--json", "no/such.json") == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_json_to_standard_output_in_a_pipe(tmp_path: Path) -> None:
    if not Path("/dev/stdout").exists():
        pytest.skip("this system has no /dev/stdout")
    _predictions(tmp_path / "model.csv")
    code = "import sys; from advshift.cli import main; main()"
    command = [sys.executable, "-c", code, "audit", "model.csv", "--max-ratio", "2", "--json", "/dev/stdout"]
    environment = {**os.environ, "PYTHONPATH": str(Path(advshift.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert AuditRecord.from_json(done.stdout.partition("\n")[0]).models[0].name == "model"


def test_aggregated_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "agg.csv").write_text("class,count,errors\na,100,10\nb,50,20\n")
    assert run(monkeypatch, "audit", "agg.csv", "--json", "a.json") == 0
    (model,) = AuditRecord.read("a.json").models
    assert [entry.risk for entry in model.classes] == [0.1, 0.4]
    assert model.average == pytest.approx(0.2)


def _history(path: Path, mixes: int = 12) -> None:
    generator = np.random.default_rng(0)
    rows = [generator.multinomial(400, generator.dirichlet([20, 30, 50])) for _ in range(mixes)]
    path.write_text(
        "month,class,count\n" + "".join(f"m{k},{c},{n}\n" for k, row in enumerate(rows) for c, n in enumerate(row))
    )


def test_radius_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _history(tmp_path / "history.csv")
    assert run(monkeypatch, "radius", "history.csv", "--json", "r.json") == 0
    found = json.loads((tmp_path / "r.json").read_text())
    shown = capsys.readouterr().out
    assert found["lower"] <= found["radius"] <= found["upper"]
    assert f"Suggested radius: {found['radius']:.4g}" in shown
    assert re.search(r"advshift audit FILE --set kl --radii [\d.]+", shown)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("month,class,count\n", [], "no rows"),
        ("a\n1\n", [], "one column"),
        ("month,class,count\nx,0,0.5\n", [], "whole numbers from 0 up"),
        ("month,class,count\nx,0,0\n", [], "has no examples"),
        ("month,class,count\nx,0,-3\n", [], "whole numbers from 0 up"),
        ("month,class,count\nx,0,3\n", ["--quantile", "2"], "the quantile must be between 0 and 1"),
        ("month,class,count\nx,0,3\n", ["--set", "simplex"], "a radius can be suggested for"),
        ("month,cat,dog\nx,1,2\nx,3,4\n", [], "more than once"),
        ("month,cat,dog\nx,1,many\n", [], "must hold numbers"),
    ],
)
def test_bad_history(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "h.csv").write_text(content)
    assert run(monkeypatch, "radius", "h.csv", *arguments) == 2
    assert message in capsys.readouterr().err
