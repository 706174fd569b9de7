"""The record says what the inference found, and says in words what must be known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import advshift
from advshift.audit import read_files
from advshift.audit.intervals import class_sample, cross_fitted_value, worst_case_intervals
from advshift.audit.statistics import ClassStatistics
from advshift.results import audit_statistics
from advshift.sets import KLBall

CLASSES, EACH = 300, 12


def _many_small_classes(scale: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), EACH)
    risks = np.random.default_rng(9).beta(1.5, 4.0, CLASSES) * scale
    wrong = generator.random(len(labels)) < risks[labels]
    return labels, np.where(wrong, (labels + 1) % CLASSES, labels)


def _codes(result: object) -> set[str]:
    return {warning.code for warning in result.record.warnings}


def test_intervals_are_those_of_the_inference() -> None:
    labels, guesses = _many_small_classes()
    result = advshift.audit(labels, guesses, radii=[0.0, 0.1, 0.5], confidence=0.9)
    errors = np.bincount(labels, labels != guesses)
    sample = class_sample(np.bincount(labels), errors, binary=True)
    shares = np.full(CLASSES, 1 / CLASSES)
    expected = worst_case_intervals(sample, shares, KLBall(np.array([0.0, 0.1, 0.5])), confidence=0.9)
    for point, own in zip(result.record.models[0].curve, expected, strict=True):
        for name in ("plug_in", "debiased", "lower", "upper", "interval", "guaranteed_upper"):
            assert getattr(point, name) == pytest.approx(getattr(own, name)), name
    assert result.record.confidence == 0.9


def test_a_badly_biased_plug_in_is_said_in_words() -> None:
    result = advshift.audit(*_many_small_classes(), radii=[0.0, 0.5])
    assert "plug-in-biased" in _codes(result)
    point = result.record.models[0].curve[1]
    assert point.interval == "debiased"
    assert point.plug_in > point.upper
    assert point.cross_fitted < point.debiased
    labels = np.repeat([0, 1], 5000)
    few = advshift.audit(labels, np.where(np.arange(10_000) % 4 == 0, 1 - labels, labels), radii=[0.05])
    assert "plug-in-biased" not in _codes(few)


def test_cross_fitting_uses_the_hashed_folds_and_the_seed() -> None:
    labels, guesses = _many_small_classes()
    statistics = ClassStatistics(["model"])
    statistics.update(labels, {"model": labels != guesses}, source="arrays")
    expected = cross_fitted_value(
        statistics.counts.astype(float),
        statistics.sums[..., 0],
        np.full(CLASSES, 1 / CLASSES),
        KLBall(np.array([0.2])),
        generator=np.random.default_rng([0, 0]),
    )
    first, again = (advshift.audit(labels, guesses, radii=0.2).record.models[0].curve[0] for _ in range(2))
    assert first.cross_fitted == again.cross_fitted == pytest.approx(float(expected[0]))
    other = advshift.audit(labels, guesses, radii=0.2, seed=1).record.models[0].curve[0]
    assert other.cross_fitted != first.cross_fitted


def test_counts_of_errors_are_dealt_to_folds(tmp_path: Path) -> None:
    labels, guesses = _many_small_classes()
    counts, errors = np.bincount(labels), np.bincount(labels, labels != guesses).astype(int)
    path = tmp_path / "summed.csv"
    rows = (f"{k},{n},{e}\n" for k, (n, e) in enumerate(zip(counts, errors, strict=True)))
    path.write_text("class,count,errors\n" + "".join(rows))
    (summed,) = read_files([str(path)]).statistics
    result = audit_statistics(summed, radii=0.2)
    single = advshift.audit(labels, guesses, radii=0.2).record.models[0].curve[0]
    point = result.record.models[0].curve[0]
    assert point.plug_in == pytest.approx(single.plug_in)
    assert point.cross_fitted == pytest.approx(single.cross_fitted, abs=0.02)


def test_sums_of_other_values_have_no_cross_fitted_value() -> None:
    statistics = ClassStatistics(["model"], folds=1)
    generator = np.random.default_rng(0)
    statistics.update(np.repeat([0, 1, 2], 50), {"model": generator.exponential(size=150)})
    result = audit_statistics(statistics, metric="loss", radii=[0.05, 0.1])
    assert all(point.cross_fitted is None for point in result.record.models[0].curve)
    (warning,) = [one for one in result.record.warnings if one.code == "no-cross-fitting"]
    assert "needs single examples" in warning.message


def test_models_on_the_same_examples_are_compared() -> None:
    labels, first = _many_small_classes()
    _, second = _many_small_classes(scale=0.5, seed=1)
    result = advshift.audit(labels, {"old": first, "new": second}, radii=[0.1, 0.2], common=True)
    assert [(one.first, one.second, one.radius) for one in result.record.comparisons] == [
        ("old", "new", 0.1),
        ("old", "new", 0.2),
    ]
    assert all(one.lower < one.difference < one.upper < 0 for one in result.record.comparisons)
    assert all(point.common <= point.plug_in for point in result.record.models[1].curve)


def test_an_infinite_radius_is_the_worst_class_with_a_guaranteed_interval() -> None:
    labels, guesses = _many_small_classes()
    point = advshift.audit(labels, guesses, radii=[0.1, float("inf")]).record.models[0].curve[1]
    assert point.plug_in == np.max(np.bincount(labels, labels != guesses)) / EACH
    assert point.interval == "guaranteed"
    assert point.lower < point.plug_in <= point.upper


def test_a_set_without_a_smooth_dual_says_why_its_interval_is_wide() -> None:
    labels, guesses = _many_small_classes()
    result = advshift.audit(labels, guesses, max_ratio=2)
    assert "interval-no-smooth-dual" in _codes(result)
    assert result.record.models[0].curve[0].interval == "guaranteed"


def test_class_intervals_hold_the_risks() -> None:
    labels, guesses = _many_small_classes()
    for result in (
        advshift.audit(labels, guesses, radii=0.1),
        advshift.audit(labels, losses=np.random.default_rng(0).exponential(size=len(labels)), radii=0.1),
    ):
        assert all(entry.lower <= entry.risk <= entry.upper for entry in result.record.models[0].classes)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hardly_any_examples(count: int) -> None:
    result = advshift.audit(np.arange(count), np.zeros(count, dtype=int))
    assert len(result.record.models[0].curve) == 9
    result.to_json()
