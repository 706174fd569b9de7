"""`advshift train` and `advshift runs` as a person types them, wrong guesses included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import advshift
from advshift.cli.app import app
from advshift.errors import AdvshiftError

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1]), "COLUMNS": "120"}
SHORT = ["training.epochs=2"]


def run(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advshift", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=folder)


def test_a_run_from_the_first_command_to_the_audit(tmp_path: Path) -> None:
    first = run("train", "digits-advshift", *SHORT, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines() == [
        "Run    runs/digits-advshift (finished, best epoch 2)",
        "Audit  advshift audit runs/digits-advshift/predictions/test.npz --reference "
        "runs/digits-advshift/training-mix.csv",
    ]
    said = first.stderr.splitlines()
    assert said[0] == (
        "digits-advshift: linear, 650 parameters; 315 training examples of 10 classes; 10 steps of 64 on cpu, float32"
    )
    assert said[1].startswith("epoch 1/2   train loss ")
    for words in ("validation error ", "worst class ", "worst case at 1 ", "examples/s "):
        assert words in said[2]
    audited = run(*first.stdout.splitlines()[1].split()[2:], folder=tmp_path)
    assert audited.returncode == 0, audited.stderr
    listed = run("runs", folder=tmp_path)
    assert listed.stdout.splitlines()[1].split()[:4] == ["digits-advshift", "finished", "2/2", "test"]
    again = run("train", "digits-advshift", folder=tmp_path)
    assert again.returncode == 2
    assert again.stderr == (
        "advshift: the folder 'runs/digits-advshift' holds a run already (finished); resume it, or name another "
        "folder\n"
    )


def test_a_failed_start_leaves_the_folder_free(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    bad = CliRunner().invoke(app, ["train", "digits-erm", *SHORT, "-o", str(folder), "model.name=liner"])
    assert isinstance(bad.exception, AdvshiftError)
    good = CliRunner().invoke(app, ["train", "digits-erm", *SHORT, "-o", str(folder), "--quiet"])
    assert good.exit_code == 0, good.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a recipe: a TOML file, or one of cifar100-advshift"),
        (["digits-er"], "did you mean 'digits-erm'"),
        (["digits-erm", "epochs=3"], "did you mean 'training.epochs'"),
        (["digits-erm", "training.epochs"], "an override must read key=value"),
        (["nothing.toml"], "cannot read the recipe 'nothing.toml': No such file"),
        (["--output", "nothing", "--resume"], "there is no run in 'nothing' to go on with; name a recipe"),
        (["cifar100-erm", "--data", "nothing"], "there is no CIFAR-100 at 'nothing': expected"),
        (["imagenet-erm", "--data", "nothing"], "there is no folder 'nothing'; set data.path"),
        (["imagenet-erm", "--data", "empty"], "there is no class folder in 'empty'"),
    ],
)
def test_wrong_guesses_are_answered(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, ["train", *words])
    assert isinstance(done.exception, AdvshiftError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


WRONG_KINDS = {
    "model.name=mlp model.dropout=some": "dropout must be a share from 0 up to below 1; got 'some'",
    "model.name=mlp model.hidden=1.5": "each width in hidden must be a whole number from 1 up; got 1.5",
    "objective.adversary=exact objective.uncertainty=1": "must be named by a word; got 1",
    "objective.adversary=class-cvar objective.level=half": "or one per class; got 'half'",
    "objective.adversary=fixed objective.distribution=uniform": "must be one number per class; got 'uniform'",
    "schedule.final=low": "gives no learning rate with final = 'low'",
    "optimizer.nesterov=1": "optimizer SGD: nesterov must be true or false; got 1",
}
TRY_ALL = """
import sys, tempfile
from advshift.errors import InputError
from advshift.training import load_recipe, train
for words in sys.argv[1:]:
    try:
        with tempfile.TemporaryDirectory() as folder:
            train(load_recipe("digits-erm", words.split()), folder)
    except InputError as error:
        print(error)
"""


def test_values_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    """In a process of its own: this one checks the kinds of all arguments, and would answer first."""
    command = [sys.executable, "-c", TRY_ALL, *WRONG_KINDS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(WRONG_KINDS)
    for line, message in zip(lines, WRONG_KINDS.values(), strict=True):
        assert message in line


def test_runs_are_listed_with_how_they_stand(tmp_path: Path) -> None:
    for name, status in (("a", "running"), ("b", "failed")):
        (tmp_path / name).mkdir()
        record = {"schema": "advshift.run/1", "name": name, "status": status, "reason": "no room", "epochs": 9}
        (tmp_path / name / "run.json").write_text(json.dumps(record))
    shown = CliRunner().invoke(app, ["runs", str(tmp_path)])
    assert shown.exit_code == 0
    assert "crashed" in shown.output
    assert f"go on with  advshift train --output {tmp_path / 'a'} --resume" in shown.output
    assert f"{tmp_path / 'b'}: no room" in shown.output
    rows = [json.loads(line) for line in CliRunner().invoke(app, ["runs", str(tmp_path), "--json"]).output.splitlines()]
    assert [(row["name"], row["status"]) for row in rows] == [("a", "crashed"), ("b", "failed")]


def test_what_can_be_asked_without_training() -> None:
    assert "imagenet-advshift" in CliRunner().invoke(app, ["train", "--list"]).output.splitlines()
    shown = CliRunner().invoke(app, ["train", "digits-erm", "seed=7", "--max-steps", "3", "--show"]).output
    assert "seed = 7" in shown
    assert "max_steps = 3" in shown


def test_an_interruption_that_python_would_lose_ends_the_command() -> None:
    """Within an import, Python raises in a callback of its own, prints a traceback, and goes on."""
    code = """
import signal, sys, weakref
from advshift.cli import app

def import_something():
    thing = type("Thing", (), {})()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    sys.stdout.write("went on")

app.app = import_something
app.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "advshift: interrupted"
