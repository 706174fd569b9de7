"""`advshift.audit(...)`: any kind of array, the same answer; and the ways to show it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import advshift
from advshift.audit import ClassStatistics
from advshift.audit.feared import GRIDS, feared_mixes
from advshift.errors import InputError
from advshift.sets import KLBall

GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
GUESSES = np.where(GENERATOR.random(400) < 0.05 + 0.1 * LABELS, (LABELS + 1) % 4, LABELS)
RISKS = np.array([(GUESSES != LABELS)[k == LABELS].mean() for k in range(4)])
SHARES = np.bincount(LABELS) / 400


def _curve(result: Any) -> list[float]:
    return [point.plug_in for point in result.record.models[0].curve]


def _expected(radii: Any = GRIDS["kl"], shares: Any = SHARES) -> list[float]:
    return np.atleast_1d(KLBall(np.asarray(radii, dtype=float)).worst_case(RISKS, shares).value).tolist()


def test_package_and_function_share_a_name() -> None:
    assert advshift.audit.ClassStatistics is ClassStatistics
    assert _curve(advshift.audit(LABELS, GUESSES)) == pytest.approx(_expected())
    for first in ("import advshift.audit.statistics", "from advshift.audit import ClassStatistics", "import advshift"):
        code = f"{first}; import advshift; print(advshift.audit([0, 1], [0, 0]).record.models[0].average)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment()
        )
        assert done.stdout == "0.5\n"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(advshift.__file__).parents[1])}


def test_every_kind_of_array() -> None:
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    names = np.array(["a", "b", "c", "d"])
    for labels, guesses in (
        (LABELS.tolist(), GUESSES.tolist()),
        (pandas.Series(LABELS), pandas.Series(GUESSES, index=range(400, 0, -1))),
        (torch.tensor(LABELS), torch.tensor(GUESSES)),
        (LABELS.astype(np.float32), GUESSES.astype(np.int8)),
        (names[LABELS], pandas.Series(names[GUESSES], dtype="category")),
        (pandas.Series(names[LABELS]), names[GUESSES].tolist()),
    ):
        assert _curve(advshift.audit(labels, guesses)) == pytest.approx(_expected())


def test_probabilities_and_losses() -> None:
    probabilities = np.full((400, 4), 0.1)
    probabilities[np.arange(400), GUESSES] = 0.7
    assert _curve(advshift.audit(LABELS, probabilities)) == pytest.approx(_expected())
    assert _curve(advshift.audit(LABELS, probabilities=probabilities)) == pytest.approx(_expected())
    losses = -np.log(probabilities[np.arange(400), LABELS])
    from_losses = advshift.audit(LABELS, losses=losses)
    assert from_losses.record.metric.name == "loss"
    assert _curve(from_losses) == pytest.approx(_curve(advshift.audit(LABELS, probabilities, metric="log-loss")))


def test_costs_as_an_array() -> None:
    costs = 1.0 - np.eye(4)
    result = advshift.audit(LABELS, GUESSES, metric="cost", costs=costs)
    assert _curve(result) == pytest.approx(_expected())


@pytest.mark.parametrize(
    ("reference", "shares"),
    [
        ("uniform", np.full(4, 0.25)),
        ({0: 1, 1: 1, 2: 1, 3: 5}, np.array([1, 1, 1, 5]) / 8),
        ([0.1, 0.2, 0.3, 0.4], np.array([0.1, 0.2, 0.3, 0.4])),
    ],
)
def test_references(reference: Any, shares: Any) -> None:
    assert _curve(advshift.audit(LABELS, GUESSES, reference)) != []
    assert _curve(advshift.audit(LABELS, GUESSES, reference=reference)) == pytest.approx(_expected(shares=shares))


def test_reference_is_the_third_argument() -> None:
    assert _curve(advshift.audit(LABELS, GUESSES, "uniform")) == pytest.approx(_expected(shares=np.full(4, 0.25)))


def test_ways_to_show_a_result(tmp_path: Any) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    result = advshift.audit(LABELS, {"a": GUESSES, "b": LABELS}, radii=[0, 0.1])
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["model"].tolist() == ["a", "a", "b", "b"]
    assert frame["plug_in"].tolist() == pytest.approx([*_expected([0, 0.1]), 0.0, 0.0])
    assert json.loads(result.to_json(tmp_path / "a.json")) == json.loads((tmp_path / "a.json").read_text())
    assert "<html" in result.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == result.to_html()
    assert result._repr_html_().startswith("<iframe srcdoc=")
    assert "<script" not in result._repr_html_().partition("srcdoc=")[0]
    assert len(result.plot().axes) >= 1
    assert repr(result) == "AuditResult(error of a, b; set kl)"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0, 1],), {}, "give predictions, probabilities or losses"),
        (([0, 1], [0]), {}, "1 predictions for 2 labels"),
        (([], []), {}, "has no examples"),
        (([0, 1],), {"losses": [0.5, float("nan")]}, "must be finite"),
        (([0, 1],), {"losses": [0.5]}, "one number for each of the 2 labels"),
        (([0, 1], [[0.5, 0.6], [0.5, 0.5]]), {}, "sum to 1.1, off by 0.1"),
        (([0, 1], [[0.5], [0.5]]), {"renormalise": True}, "example 1"),
        (([0, 5], [[0.5, 0.5], [0.5, 0.5]]), {}, "the label 5, which is not among the classes 0, 1"),
        ((["a", "b"], [[0.5, 0.5], [0.5, 0.5]]), {}, "give the classes in the order"),
        (([0, 1], [0, 1]), {"reference": "mine"}, "'empirical', 'uniform' or a distribution"),
        (([0, 1], [0, 1]), {"reference": {0: 1}}, "does not name"),
        (([0, 1], [0, 1]), {"reference": {0: -1, 1: 2}}, "from 0 up"),
        (([0, 1], [0, 1]), {"reference": {"cat": 1}}, "write classes differently"),
        (([0, 1], [0, 1]), {"radii": -1}, "a radius must be a number from 0 up; got -1"),
        (([0, 1], [0, 1]), {"radii": "far"}, "expected a number"),
        (([0, 1], [0, 1]), {"set": "ball"}, "unknown uncertainty set 'ball'"),
        (([0, 1], [0, 1]), {"ids": ["a", "a"]}, "duplicate ids"),
        (([0, 1], [0, 1]), {"confidence": 1.0}, "between 0 and 1"),
    ],
)
def test_bad_input(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        advshift.audit(*arguments, **options)


@given(st.floats(1, 50), st.sampled_from(["kl", "chi2", "tv", "reverse-kl"]))
def test_ratio_and_another_set_contradict(ratio: float, name: str) -> None:
    with pytest.raises(InputError, match="a set of its own"):
        feared_mixes(name, None, [ratio], classes=3)
