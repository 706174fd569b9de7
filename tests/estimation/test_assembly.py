"""From outputs to the record: what stands in for a covariance that says nothing, and which classes are judged."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from advshift.audit.readers.outputs import Outputs
from advshift.errors import InputError
from advshift.estimation import EstimateRecord, Question, assemble
from advshift.priors import shift_test

CLASSES = 40


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of label shift by its chi-square limit: the bootstrap takes seconds."""
    quick = functools.partial(shift_test, method="chi-square")
    monkeypatch.setattr("advshift.estimation.assembly.shift_test", lambda *sides, seed: quick(*sides))


def _outputs(name: str, generator: np.random.Generator, prior: np.ndarray, rows: int, *, labelled: bool) -> Outputs:
    labels = generator.choice(CLASSES, rows, p=prior)
    if labelled:
        labels[:CLASSES] = np.arange(CLASSES)
    logits = generator.standard_normal((rows, CLASSES))
    logits[np.arange(rows), labels] += 4.5
    odds = np.exp(4.5 * (logits - logits.max(axis=1, keepdims=True)))
    found = odds / odds.sum(axis=1, keepdims=True)
    return Outputs(name, tuple(range(CLASSES)), found, labels if labelled else None)


def test_a_degenerate_covariance_is_replaced_by_the_bootstrap() -> None:
    generator = np.random.default_rng(0)
    prior = np.where(np.arange(CLASSES) < 20, 1 / 20, 0.0)
    source = _outputs("source", generator, np.full(CLASSES, 1 / CLASSES), 800, labelled=True)
    target = _outputs("target", generator, prior, 300, labelled=False)
    record = assemble(source, target, Question(calibration="none"))
    assert record.method.covariance == "bootstrap"
    assert max(entry.standard_error for entry in record.classes) < 0.1
    held = [entry.lower <= share <= entry.upper for entry, share in zip(record.classes[:20], prior[:20], strict=True)]
    assert np.mean(held) > 0.8
    assert record.performance.target.upper - record.performance.target.lower < 0.15
    assert EstimateRecord.from_json(record.to_json()) == record


def test_classes_are_named_only_where_all_together_do_not_fit() -> None:
    generator = np.random.default_rng(1)
    uniform = np.full(CLASSES, 1 / CLASSES)
    source = _outputs("source", generator, uniform, 800, labelled=True)
    record = assemble(source, _outputs("target", generator, uniform, 400, labelled=False), Question(calibration="none"))
    assert record.shift_test.p_value > 0.05
    assert record.shift_test.deviating == []


def test_python_is_told_the_same_as_the_command_line() -> None:
    generator = np.random.default_rng(2)
    uniform = np.full(CLASSES, 1 / CLASSES)
    source = _outputs("source", generator, uniform, 800, labelled=True)
    with pytest.raises(InputError, match="unlabelled has no labels"):
        assemble(_outputs("unlabelled", generator, uniform, 90, labelled=False), source, Question())
    with pytest.raises(InputError, match="has one row"):
        assemble(source, _outputs("target", generator, uniform, 1, labelled=False), Question())
