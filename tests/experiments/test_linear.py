"""Linear models: the queue in one file, the min-max problem against a convex solver, and their tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from typer.testing import CliRunner

from advshift.cli.app import app
from advshift.data import load_data
from advshift.errors import InputError
from advshift.experiments import linear
from advshift.experiments.linear import assign_folds, choose, run_linear
from advshift.experiments.linear_methods import BASES, METHODS, Candidate, candidates, tree_of
from advshift.experiments.linear_saddle import RADII as SADDLE_RADII
from advshift.experiments.linear_saddle import Problem, bounds, class_risks, descend, make_problem, robust_value, solve
from advshift.experiments.linear_store import linear_records, read_linear, to_hex, to_mistakes
from advshift.experiments.tables import made_tables
from advshift.sets import KLBall
from advshift.training import make_recipe

RECORDED = Path(__file__).parents[2] / "docs" / "results" / "reproduce" / "runs"


def overlapping(radius: float) -> Problem:
    """Three classes of unequal size that no linear model separates."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], [40, 20, 10])
    features = rng.standard_normal((70, 2)) + np.array([[0.0, 0.0], [1.5, 0.0], [0.5, 1.2]])[labels]
    return Problem(np.hstack([features, np.ones((70, 1))]), labels, radius, 1e-2)


def value_by_hand(problem: Problem, weights: np.ndarray) -> float:
    """The objective from its definition: losses one by one, and the inner maximum by a search over the dual."""
    logits = problem.features @ weights
    losses = np.array([logsumexp(row) - row[label] for row, label in zip(logits, problem.labels, strict=True)])
    risks = np.array([losses[problem.labels == label].mean() for label in range(3)])
    found = minimize(
        lambda s: np.exp(s[0]) * problem.radius + np.exp(s[0]) * logsumexp(risks / np.exp(s[0]), b=problem.reference),
        [0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-14},
    )
    return float(found.fun) + problem.ridge * float((weights**2).sum())


def test_the_objective_is_what_it_says() -> None:
    problem = overlapping(0.2)
    weights = np.random.default_rng(0).standard_normal((3, 3))
    assert robust_value(problem, weights) == pytest.approx(value_by_hand(problem, weights), rel=1e-7)


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_training_reaches_the_convex_solvers_value(radius: float) -> None:
    problem = overlapping(radius)
    solved = solve(problem)
    assert solved.status == "optimal"
    assert solved.value == pytest.approx(value_by_hand(problem, solved.weights), rel=1e-6)
    exact = {"adversary": "exact", "radius": radius, "momentum": 0.0, "clip": 1e9}
    weights = descend(problem, exact, steps=1500)
    lower, upper = bounds(problem, weights)
    assert lower - 1e-6 <= solved.value <= upper + 1e-6
    assert upper == pytest.approx(solved.value, rel=1e-3)
    erm_lower, erm_upper = bounds(problem, descend(problem, {"adversary": "erm"}, steps=1500))
    assert erm_upper > 1.005 * solved.value  # the problem tells the two apart
    assert erm_lower <= solved.value + 1e-6


def test_the_problem_holds_what_the_engine_trains_on() -> None:
    data = load_data(make_recipe(tree_of("digits", [])).data)
    problem = make_problem(data, 0.5, 1e-3)
    assert problem.features.shape == (len(data.train), 65)
    assert problem.features[:, :64].mean() == pytest.approx(0.0, abs=1e-5)
    assert problem.features[:, :64].std() == pytest.approx(1.0, abs=1e-4)
    assert problem.counts.sum() == len(data.train)
    assert class_risks(problem, np.zeros((65, 10))) == pytest.approx(np.log(10))


def test_every_method_has_the_same_budget_and_a_valid_recipe() -> None:
    for name in BASES:
        for method in METHODS:
            options = candidates(name, method)
            assert len(options) == 6
            for option in options:
                make_recipe(tree_of(name, [option.setting], option.rate))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """ERM, AdvShift and FIXED with a setting or two, and one seed: 14 runs of an epoch."""
    settings = {
        "erm": [Candidate({"optimizer.lr": 0.5}), Candidate({"optimizer.lr": 1e-4})],
        "advshift": METHODS["advshift"][:1],
        "fixed": METHODS["fixed"][:1],
    }
    monkeypatch.setattr(linear, "METHODS", settings)
    monkeypatch.setattr(linear, "SEEDS", 2)
    monkeypatch.setattr(linear, "candidates", lambda name, method: settings[method])
    monkeypatch.setattr(linear, "RADII", ())
    monkeypatch.setitem(BASES, "digits", {**BASES["digits"], "training": {"epochs": 2, "batch_size": 32}})


def comparable(path: Path) -> dict[str, Any]:
    content = read_linear(path)
    return {key: {**run, "seconds": 0} for key, run in content["runs"].items()} | {"chosen": content["chosen"]}


def test_a_queue_that_was_stopped_goes_on_to_the_same_results(tmp_path: Path, few: None) -> None:
    told: list[str] = []
    whole = comparable(run_linear("digits", tmp_path / "whole", None, told.append))
    assert told[-1].startswith("all 15 runs are in")

    def stop(line: str) -> None:
        if line.startswith("6/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_linear("digits", tmp_path / "parts", None, stop)
    assert 0 < len(read_linear(tmp_path / "parts" / "linear-digits.json")["runs"]) < 15
    assert comparable(run_linear("digits", tmp_path / "parts", None, lambda line: None)) == whole
    assert whole["chosen"]["erm"] == 0


def test_fixed_trains_on_the_worst_mix_for_held_out_folds(tmp_path: Path, few: None) -> None:
    path = run_linear("digits", tmp_path, None, lambda line: None)
    content = read_linear(path)
    folds = [run for key, run in content["runs"].items() if key.startswith("fold/")]
    counts = np.sum([run["held_out"] for run in folds], axis=0)
    assert counts.tolist() == content["about"]["counts"]["train"]  # every training example is judged once
    errors = np.sum([run["errors"]["held_out"] for run in folds], axis=0)
    mean = errors.sum() / counts.sum()
    target = KLBall(1.0).worst_case((errors + mean) / (counts + 1), counts / counts.sum()).distribution
    found = content["runs"]["final/fixed/0"]["setting"]["objective"]
    np.testing.assert_allclose(found["distribution"], target, atol=1e-9)


def test_records_and_tables_say_what_the_file_says(tmp_path: Path, few: None) -> None:
    path = run_linear("digits", tmp_path, None, lambda line: None)
    records = linear_records(tmp_path)
    run = records["linear-digits/advshift/seed-1"]
    wrong = np.bincount(run.arrays["test_labels"][run.arrays["test_mistakes"]], minlength=10)
    assert wrong.tolist() == run.errors("test").tolist()
    tables = made_tables(records)
    assert {"linear-digits", "linear-digits-paired", "linear-digits-sample"} <= set(tables)
    rates = [
        np.sum(read_linear(path)["runs"][f"final/erm/{seed}"]["errors"]["test"]) / len(run.arrays["test_labels"])
        for seed in range(2)
    ]
    row = next(line for line in tables["linear-digits"][1].splitlines() if line.startswith("| ERM"))
    worst = [
        float(KLBall(0.0).worst_case(records[f"linear-digits/erm/seed-{seed}"].risks("test"), run.reference).value)
        for seed in range(2)
    ]
    assert f"{100 * np.mean(worst):.1f}" in row
    assert max(rates) < 1


def test_runs_of_other_data_are_not_mixed(tmp_path: Path, few: None) -> None:
    path = run_linear("digits", tmp_path, None, lambda line: None)
    content = json.loads(path.read_text())
    content["about"]["fingerprint"] = "another"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"are of other data \(fingerprint: another, now .*delete it to begin anew"):
        run_linear("digits", tmp_path, None, lambda line: None)
    path.write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*linear-digits\.json"):
        run_linear("digits", tmp_path, None, lambda line: None)


def test_wrong_guesses_on_the_command_line(tmp_path: Path) -> None:
    for words, answer in (
        (["--linear", "digits"], "add --run"),
        (["--run", "--linear", "digit"], "did you mean 'digits'"),
    ):
        found = CliRunner().invoke(app, ["reproduce", "--store", str(tmp_path), *words])
        assert found.exit_code != 0
        assert answer in f"{found.output}{found.exception}"


def test_settings_that_diverged_are_not_chosen() -> None:
    good = {"status": "finished", "errors": {"validation": [1, 2]}, "losses": {"validation": [0.5, 0.5]}}
    better = {**good, "errors": {"validation": [1, 1]}}
    counts, reference = np.array([10, 10]), np.array([0.5, 0.5])
    assert choose([{"status": "diverged"}, good, better], counts, reference, robust=True) == 2
    with pytest.raises(InputError, match="every setting diverged"):
        choose([{"status": "diverged"}], counts, reference, robust=True)


def test_folds_are_even_within_classes() -> None:
    import torch

    labels = torch.tensor([0] * 50 + [1] * 7 + [2])
    folds = assign_folds(labels)
    assert np.bincount(folds[:50]).tolist() == [10] * 5
    assert set(folds[50:57].tolist()) == set(range(5))
    assert folds[57] == -1


def test_mistakes_survive_the_way_there_and_back() -> None:
    mistakes = np.random.default_rng(0).random(1001) < 0.3
    assert (to_mistakes(to_hex(mistakes), 1001) == mistakes).all()


@pytest.mark.skipif(not (RECORDED / "linear-digits.json").exists(), reason="the recorded runs are not at hand")
def test_the_recorded_runs_are_complete() -> None:
    records = linear_records(RECORDED)
    for name in BASES:
        for method in METHODS:
            for seed in range(10):
                assert records[f"linear-{name}/{method}/seed-{seed}"].finished
        rows = records[f"linear-{name}/saddle"].about["rows"]
        assert {row["radius"] for row in rows} == set(SADDLE_RADII)
        assert all(row["lower_bound"] <= row["objective"] for row in rows)
