"""The estimate and correct commands, and the audit around an estimate: what they find, write, and refuse."""

from __future__ import annotations

import csv
import functools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from advshift.audit.record import AuditRecord
from advshift.cli import main
from advshift.estimation import EstimateRecord
from advshift.posthoc import confidence_ball, correct_probabilities, expected_performance
from advshift.priors import BBSE, Auto, shift_test
from advshift.sets import KLBall

NAMES = ("cat", "dog", "owl")
SOURCE = np.array([0.5, 0.3, 0.2])
TARGET = np.array([0.2, 0.2, 0.6])


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return None


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The test of label shift by its chi-square limit, unless a test is about it: the bootstrap takes seconds."""
    if "slow_test" not in request.fixturenames:
        quick = functools.partial(shift_test, method="chi-square")
        monkeypatch.setattr("advshift.estimation.assembly.shift_test", lambda *sides, seed: quick(*sides))


@pytest.fixture
def slow_test() -> None:
    """Leave the test of label shift as users have it."""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["advshift", *arguments])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence on standard error; nothing is written, nothing printed."""
    before = sorted(Path.cwd().rglob("*"))
    assert run(monkeypatch, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert sorted(Path.cwd().rglob("*")) == before
    return shown.err


def draw(seed: int, prior: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact posteriors under the source's mix, and the labels."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, size, p=prior)
    odds = np.exp(2.0 * (generator.normal(size=(size, 3)) + 1.5 * np.eye(3)[labels])) * SOURCE
    return odds / odds.sum(axis=1, keepdims=True), labels


def table(path: str, rows: np.ndarray, labels: np.ndarray | None = None, **columns: list) -> None:
    header = [*(["label"] if labels is not None else []), *columns, *[f"p_{name}" for name in NAMES]]
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for number, row in enumerate(rows):
            label = [] if labels is None else [NAMES[labels[number]]]
            writer.writerow([*label, *[column[number] for column in columns.values()], *map(repr, row.tolist())])


@pytest.fixture
def files() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    source, labels = draw(1, SOURCE, 800)
    target, truth = draw(2, TARGET, 500)
    table("source.csv", source, labels)
    table("target.csv", target, site=[f"s{k % 3}" for k in range(500)])
    return source, labels, target, truth


def test_the_record_is_what_the_library_finds(monkeypatch: pytest.MonkeyPatch, files: tuple, slow_test: None) -> None:
    source, labels, target, _ = files
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    record = EstimateRecord.read("e.json")
    estimate = Auto().fit(source, labels).estimate(target)
    ball = confidence_ball(estimate)
    expected = expected_performance(estimate, source.argmax(axis=1) == labels, labels)
    assert record.labels == NAMES
    assert record.prior == pytest.approx(estimate.prior, abs=1e-9)
    assert np.array(record.covariance) == pytest.approx(estimate.covariance, rel=1e-6)
    assert record.ball.radii["kl"] == pytest.approx(ball.radius, rel=1e-6)
    assert record.ball.centre == pytest.approx(ball.centre.tolist(), rel=1e-6)
    assert record.performance.target.value == pytest.approx(expected.value, abs=1e-9)
    assert record.performance.target.lower == pytest.approx(expected.low, abs=1e-9)
    assert record.shift_test.p_value == shift_test(source, labels, target).p_value
    shares = np.bincount(labels) / 800
    assert record.divergence.kl == pytest.approx(float(np.sum(estimate.prior * np.log(estimate.prior / shares))))
    assert record.divergence.favoured == "owl"
    assert not record.divergence.chance
    assert record.command == "advshift estimate source.csv target.csv --json e.json"


def test_the_truth_is_found(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    _, _, target, truth = files
    assert run(monkeypatch, "correct", "source.csv", "target.csv", "-o", "c.csv", "--json", "e.json") == 0
    record = EstimateRecord.read("e.json")
    assert all(entry.lower <= share <= entry.upper for entry, share in zip(record.classes, TARGET, strict=True))
    with Path("c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["site", "prediction", "probability_cat", "probability_dog", "probability_owl"]
    assert [row["site"] for row in rows[:4]] == ["s0", "s1", "s2", "s0"]
    right = np.mean([row["prediction"] == NAMES[label] for row, label in zip(rows, truth, strict=True)])
    assert right > np.mean(target.argmax(axis=1) == truth) + 0.05
    assert record.performance.corrected.lower <= right <= record.performance.corrected.upper


def test_corrected_probabilities_by_hand(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    _, _, target, _ = files
    arguments = ("--calibration", "none", "--json", "e.json")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", *arguments) == 0
    record = EstimateRecord.read("e.json")
    assert record.method.calibration is None
    moved = (500 * record.prior + record.model_prior) / 501
    wanted = correct_probabilities(target, record.model_prior, moved)
    for name in ("c.tsv", "c.jsonl", "c.parquet", "c.npz"):
        assert run(monkeypatch, "correct", "e.json", "target.csv", "-o", name) == 0
    lines = [json.loads(line) for line in Path("c.jsonl").read_text().splitlines()]
    assert np.array([[line[f"probability_{name}"] for name in NAMES] for line in lines]) == pytest.approx(wanted)
    assert lines[1]["site"] == "s1"
    with np.load("c.npz") as arrays:
        assert arrays["probabilities"] == pytest.approx(wanted)
        assert arrays["predictions"].tolist() == [line["prediction"] for line in lines]
    for name in ("c.tsv", "c.parquet"):  # read back by our own readers, as any file of predictions
        assert run(monkeypatch, "estimate", "source.csv", name, "--json", "again.json") == 0
        again = EstimateRecord.read("again.json")
        predicted = [entry.predicted for entry in again.classes]
        assert predicted == pytest.approx(np.bincount(wanted.argmax(axis=1)) / 500)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "npz", "npy"])
def test_every_kind_of_file(monkeypatch: pytest.MonkeyPatch, files: tuple, kind: str) -> None:
    source, labels, target, _ = files
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    if kind == "jsonl":
        for name, rows, own in (("s", source, labels), ("t", target, None)):
            lines = [
                {"probs": row.tolist()} | ({} if own is None else {"y": int(own[k])}) for k, row in enumerate(rows)
            ]
            Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif kind == "parquet":
        import duckdb

        for name in ("source", "target"):
            duckdb.sql(f"COPY (SELECT * FROM '{name}.csv') TO '{name[0]}.parquet' (FORMAT parquet)")
    else:
        np.savez("s.npz", labels=labels, probabilities=source)
        np.savez("t.npz", probabilities=target)
        np.save("t.npy", target)
    first = "s.npz" if kind == "npy" else f"s.{kind}"
    assert run(monkeypatch, "estimate", first, f"t.{kind}", "--json", "f.json") == 0
    assert EstimateRecord.read("f.json").prior == pytest.approx(EstimateRecord.read("e.json").prior, abs=1e-6)


def test_columns_in_another_order(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    _, _, target, _ = files
    lines = ["p_owl,p_cat,p_dog", *[f"{c!r},{a!r},{b!r}" for a, b, c in target.tolist()]]
    Path("other.csv").write_text("\n".join(lines) + "\n")
    for name in ("target", "other"):
        assert run(monkeypatch, "estimate", "source.csv", f"{name}.csv", "--json", f"{name}.json") == 0
    found = [EstimateRecord.read(f"{name}.json").prior for name in ("target", "other")]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def test_the_terminal_says_everything(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    shown = capsys.readouterr()
    text = " ".join(shown.out.split())
    assert re.search(r"owl +\d+\.\d% +\d+\.\d% +\d+\.\d–\d+\.\d% +×", shown.out)
    assert "class “owl” is" in text
    assert "times as frequent in the target as in the source" in text
    assert re.search(r"at radius 0\.\d+ \(Kullback–Leibler\)", text)
    assert re.search(r"nothing in the predictions speaks against it \(p = ", text)
    assert re.search(r"Expect an accuracy of \d+\.\d% \(95% interval", text)
    assert re.search(r"condition \d[\d.]*, rank 3 of 3", text)
    assert "effective sample size" in text
    assert "advshift correct e.json target.csv -o corrected.csv" in shown.out
    assert "advshift audit source.csv --around e.json" in shown.out
    assert "source.csv: label = label" in shown.err


def test_the_next_commands_work_as_they_stand(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv") == 0
    commands = re.findall(r"^ {4}advshift (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) == 3
    assert [run(monkeypatch, *command.split()) for command in commands] == [0, 0, 0]


def test_users_hear_when_the_assumption_fails(
    monkeypatch: pytest.MonkeyPatch, files: tuple, slow_test: None, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, target, _ = files
    broken = target.copy()
    broken[:200] = [0.3, 0.4, 0.3]  # a third of the target is something that the source never showed
    table("target.csv", broken)
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json", "--html", "e.html") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Label shift does not hold (p = 0.002)" in text
    assert "“dog”" in text
    assert "can be trusted" in text
    assert "Label some of the target" in text
    assert "advshift correct" not in text
    record = EstimateRecord.read("e.json")
    assert record.shift_test.deviating[0] == "dog"
    assert record.warnings[0].code == "not-label-shift"
    assert "Label shift does not hold" in Path("e.html").read_text()


def test_no_shift_is_said_to_be_none(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    table("target.csv", draw(5, SOURCE, 300)[0])
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    assert "The mix may not have moved" in capsys.readouterr().out
    assert EstimateRecord.read("e.json").divergence.chance


def test_predicted_classes_alone(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    source, labels, target, _ = files
    guesses = [[NAMES[k] for k in rows.argmax(axis=1)] for rows in (source, target)]
    pairs = [f"{NAMES[label]},{guess}\n" for label, guess in zip(labels, guesses[0], strict=True)]
    Path("s.csv").write_text("label,prediction\n" + "".join(pairs))
    Path("t.csv").write_text("prediction\n" + "".join(f"{guess}\n" for guess in guesses[1]))
    assert run(monkeypatch, "estimate", "s.csv", "t.csv", "--json", "e.json") == 0
    assert "could not be tested" in capsys.readouterr().out
    wanted = BBSE(predictions="hard").fit(source, labels).estimate(target)
    assert EstimateRecord.read("e.json").prior == pytest.approx(wanted.prior, abs=1e-9)
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--hard", "--json", "h.json") == 0
    assert EstimateRecord.read("h.json").prior == pytest.approx(wanted.prior, abs=1e-9)
    capsys.readouterr()
    assert "suffice for bbse and rlls" in refused(monkeypatch, capsys, "estimate", "s.csv", "t.csv", "--method", "em")
    assert "a correction weighs probabilities" in refused(
        monkeypatch, capsys, "correct", "e.json", "t.csv", "-o", "c.csv"
    )


@pytest.mark.parametrize("method", ["auto", "em", "bbse", "rlls", "mapls", "kmm", "kl-matching", "gls"])
def test_every_method(monkeypatch: pytest.MonkeyPatch, files: tuple, method: str) -> None:
    arguments = ("--method", method, "--bootstrap", "20", "--json", "e.json")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", *arguments) == 0
    record = EstimateRecord.read("e.json")
    assert record.method.name == method
    assert record.method.covariance == "bootstrap"
    assert np.abs(record.prior - TARGET).sum() < 0.25


def test_around_an_estimate(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    source, labels, _, _ = files
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    capsys.readouterr()
    assert run(monkeypatch, "audit", "source.csv", "--around", "e.json", "--json", "a.json", "--html", "a.html") == 0
    said = " ".join(capsys.readouterr().out.split())
    estimate, audit = EstimateRecord.read("e.json"), AuditRecord.read("a.json")
    wrong = source.argmax(axis=1) != labels
    risks = np.array([wrong[labels == k].mean() for k in range(3)])
    centre, radius = np.array(estimate.ball.centre), estimate.ball.radii["kl"]
    points = audit.models[0].curve
    assert points[0].plug_in == pytest.approx(float(centre @ risks))
    assert points[-1].radius == pytest.approx(radius)
    assert points[-1].plug_in == pytest.approx(float(KLBall(radius).worst_case(risks, centre).value))
    assert audit.around.rows == 500
    assert audit.around.radius == radius
    assert "On the mix estimated from 500 unlabelled examples the error is" in said
    assert "With 95% confidence the true mix is within radius" in said
    assert "given what the target sample says?" in Path("a.html").read_text()


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi2", "tv"])
def test_around_with_another_set(monkeypatch: pytest.MonkeyPatch, files: tuple, name: str) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    arguments = ("--around", "e.json", "--set", name, "--json", "a.json")
    assert run(monkeypatch, "audit", "source.csv", *arguments) == 0
    audit, estimate = AuditRecord.read("a.json"), EstimateRecord.read("e.json")
    assert audit.models[0].curve[-1].radius == pytest.approx(estimate.ball.radii[name])


def test_around_and_mixes_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    for more in (("--max-ratio", "1.5,2"), ("--radii", "0,0.2"), ("--set", "simplex"), ("--set", "top-k")):
        assert run(monkeypatch, "audit", "source.csv", "--around", "e.json", *more) == 0
    capsys.readouterr()
    both = ("audit", "source.csv", "--around", "e.json", "--reference", "uniform")
    assert "either --around or --reference" in refused(monkeypatch, capsys, *both)
    assert "is not an estimate" in refused(monkeypatch, capsys, "audit", "source.csv", "--around", "source.csv")
    assert "cannot read 'no.json'" in refused(monkeypatch, capsys, "audit", "source.csv", "--around", "no.json")


def test_outputs_are_whole_files(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    outputs = ("--json", "o.json", "--csv", "o.csv", "--html", "o.html")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", *outputs) == 0
    json.loads(Path("o.json").read_text(), parse_constant=pytest.fail)
    with Path("o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == list(NAMES)
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1.0)
    page = Path("o.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") == 3
    assert sorted(path.suffix for path in Path.cwd().glob("o.*")) == [".csv", ".html", ".json"]
    assert run(monkeypatch, "audit", "source.csv", "--reference", "o.csv") == 0  # the shares are a reference


def _replaced(path: str, old: str, new: str) -> None:
    Path(path).write_text(Path(path).read_text().replace(old, new, 1))


def _first_row(path: str, row: str) -> None:
    lines = Path(path).read_text().splitlines()
    Path(path).write_text("\n".join([lines[0], row, *lines[2:]]) + "\n")


def test_probabilities_that_do_not_sum_to_one(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    _first_row("target.csv", "s0,0.5,0.5,0.25")
    said = refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", "--json", "e.json")
    assert "1 of 500 do not" in said
    assert "row 1 of target.csv sum to 1.25, off by 0.25" in said
    assert "--renormalise" in said
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--renormalise") == 0
    assert "advshift correct estimate.json target.csv --renormalise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: _replaced("target.csv", "p_owl", "p_emu"), "it lacks 'owl' and has 'emu' besides"),
        (lambda: _replaced("target.csv", "p_owl", "owl"), "it lacks 'owl'"),
        (
            lambda: _first_row("target.csv", "s0,nan,0.5,0.5"),
            "row 1 of target.csv has a probability that is not a finite",
        ),
        (
            lambda: _first_row("target.csv", "s0,,0.5,0.5"),
            "row 1 of target.csv has no probability in the column 'p_cat'",
        ),
        (lambda: _first_row("target.csv", "s0,-0.5,1,0.5"), "row 1 of target.csv has a negative probability"),
        (lambda: _first_row("target.csv", "s0,x,1,0.5"), "'x', which is not a number"),
        (lambda: _first_row("source.csv", "emu,0.5,0.5,0"), "row 1 of source.csv has the label 'emu'"),
        (lambda: _first_row("source.csv", ",0.5,0.5,0"), "row 1 of source.csv has no label"),
        (lambda: Path("target.csv").write_text(""), "'target.csv' is empty"),
        (lambda: Path("source.csv").write_text(""), "'source.csv' is empty"),
        (lambda: Path("target.csv").write_text("p_cat,p_dog,p_owl\n"), "target.csv has a header but no rows"),
        (lambda: Path("target.csv").write_text("p_cat,p_dog,p_owl\n0.2,0.3,0.5\n"), "target.csv has one row"),
        (lambda: Path("target.csv").write_text("site\na\nb\n"), "neither predictions, probabilities nor losses"),
        (lambda: Path("target.csv").unlink(), "there is no file 'target.csv'"),
    ],
)
def test_bad_input(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str], change: object, said: str
) -> None:
    change()  # type: ignore[operator]
    assert said in refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", "--json", "e.json")


def test_arrays_without_an_example(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("target.npz", probabilities=np.zeros((0, 3)))
    said = refused(monkeypatch, capsys, "estimate", "source.csv", "target.npz")
    assert "target.npz has arrays but no examples in them" in said


def test_a_source_without_some_class(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    source, labels, *_ = files
    table("source.csv", source[labels < 2], labels[labels < 2])
    said = refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv")
    assert "source.csv has no example of class 'owl'" in said


def test_swapped_files(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(monkeypatch, capsys, "estimate", "target.csv", "source.csv")
    assert "target.csv has no labels, but source.csv has" in said
    assert "advshift estimate source.csv target.csv" in said


def test_no_labels_at_all(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    assert "target.csv has no column of labels" in refused(monkeypatch, capsys, "estimate", "target.csv", "target.csv")


def test_a_class_never_predicted(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    source, labels, target, _ = files
    for name, rows, own in (("source", source, labels), ("target", target, None)):
        shy = np.stack([rows[:, 0] + 0.45 * rows[:, 2], rows[:, 1] + 0.45 * rows[:, 2], 0.1 * rows[:, 2]], axis=1)
        table(f"{name}.csv", shy, own)
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    assert "never predicts class 'owl'" in capsys.readouterr().out
    assert EstimateRecord.read("e.json").diagnostics.never_predicted == ["owl"]
    said = refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", "--hard")
    assert "the model never predicts class 'owl' on source.csv, and the confusion matrix is singular" in said
    assert "--method rlls" in said


def test_a_singular_confusion_matrix(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    _, labels, *_ = files
    table("source.csv", np.tile([0.5, 0.3, 0.2], (800, 1)), labels)
    said = refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", "--method", "bbse")
    assert "never predicts classes 'dog', 'owl' on source.csv" in said
    assert "singular (rank 1 for 3 classes)" in said
    assert "--method em or rlls" in said
    assert said == refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", "--method", "gls")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--method", "rlls", "--json", "e.json") == 0
    record = EstimateRecord.read("e.json")
    assert record.diagnostics.rank == 1
    assert all(entry.upper - entry.lower > 0.5 for entry in record.classes)  # the predictions say nothing
    assert "singular" in [warning.code for warning in record.warnings]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--json", "no/e.json"), "its folder does not exist"),
        (("--html", "."), "it is a folder"),
        (("--json", "e.out", "--csv", "e.out"), "two outputs would be written to 'e.out'"),
        (("--method", "emm"), "did you mean 'em'?"),
        (("--calibration", "bct"), "did you mean 'bcts'?"),
        (("--confidence", "95"), "the confidence must be between 0 and 1"),
        (("--bootstrap", "1"), "2 replicates or more"),
        (("--label", "lable"), "no column 'lable'"),
    ],
)
def test_options_that_make_no_sense(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str], arguments: tuple, said: str
) -> None:
    assert said in refused(monkeypatch, capsys, "estimate", "source.csv", "target.csv", *arguments)


def test_correct_refuses(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    capsys.readouterr()
    assert "cannot tell the format" in refused(monkeypatch, capsys, "correct", "e.json", "target.csv", "-o", "c.txt")
    assert "its folder does not exist" in refused(
        monkeypatch, capsys, "correct", "e.json", "target.csv", "-o", "x/c.csv"
    )
    once = ("correct", "e.json", "target.csv", "-o", "c.csv", "--method", "em")
    assert "the estimate is saved already" in refused(monkeypatch, capsys, *once)
    Path("cut.json").write_text(Path("e.json").read_text()[:100])
    assert "not an estimate in strict JSON" in refused(
        monkeypatch, capsys, "correct", "cut.json", "target.csv", "-o", "c.csv"
    )
    future = Path("e.json").read_text().replace("advshift.estimate/1", "advshift.estimate/2")
    Path("new.json").write_text(future)
    assert "this version of advshift reads" in refused(
        monkeypatch, capsys, "correct", "new.json", "target.csv", "-o", "c.csv"
    )


def test_an_old_file_survives_a_failure(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    Path("e.json").write_text("old")
    _first_row("target.csv", "s0,0.5,0.5,0.25")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 2
    assert Path("e.json").read_text() == "old"


def test_wrong_guesses(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    capsys.readouterr()
    audited = refused(monkeypatch, capsys, "audit", "target.csv", "--around", "e.json")
    assert "target.csv has no labels; around an estimate, audit the labelled source" in audited
    twice = refused(monkeypatch, capsys, "estimate", "e.json", "target.csv")
    assert "e.json is an estimate already; to use it, type advshift correct e.json" in twice
    over = refused(monkeypatch, capsys, "correct", "e.json", "target.csv", "-o", "target.csv")
    assert "'target.csv' is an input" in over


def test_columns_that_are_named_like_the_classes(monkeypatch: pytest.MonkeyPatch, files: tuple) -> None:
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    for name in ("source", "target"):
        Path(f"{name}.csv").write_text(Path(f"{name}.csv").read_text().replace("p_", ""))
    arguments = ("--probabilities", "cat,dog,owl", "--json", "f.json")
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", *arguments) == 0
    assert EstimateRecord.read("f.json").prior.tolist() == EstimateRecord.read("e.json").prior.tolist()


def test_doubts_go_on_to_the_audit(
    monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, target, _ = files
    table("target.csv", np.concatenate([target, np.tile([0.3, 0.4, 0.3], (200, 1))]))
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    capsys.readouterr()
    assert run(monkeypatch, "audit", "source.csv", "--around", "e.json", "--json", "a.json") == 0
    assert AuditRecord.read("a.json").warnings[0].code == "not-label-shift"
    assert "fit no mix of the source's classes" in " ".join(capsys.readouterr().out.split())
    assert run(monkeypatch, "correct", "e.json", "target.csv", "-o", "c.csv") == 0
    assert "Label shift does not hold" in capsys.readouterr().out


def test_too_few_rows(monkeypatch: pytest.MonkeyPatch, files: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer than five rows a class nothing is promised, neither here nor in the audit around the estimate."""
    table("target.csv", np.array([[0.02, 0.01, 0.97], [0.01, 0.01, 0.98], [0.03, 0.01, 0.96]]))
    assert run(monkeypatch, "estimate", "source.csv", "target.csv", "--json", "e.json") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "confidence the true mix" not in said
    assert "The mix has moved" not in said
    assert "too small to be relied on with so few rows" in said
    assert "3 rows for 3 classes, fewer than 5 a class" in said
    assert run(monkeypatch, "audit", "source.csv", "--around", "e.json", "--json", "a.json") == 0
    assert "few-rows" in [warning.code for warning in AuditRecord.read("a.json").warnings]
