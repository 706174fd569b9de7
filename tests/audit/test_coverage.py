"""What is promised of intervals, by simulation: they hold the worst case of the true class risks."""

from __future__ import annotations

import numpy as np
import pytest

from advshift.audit.intervals import (
    REASONS,
    bootstrap_interval,
    breaking_interval,
    class_sample,
    compare_worst_cases,
    debiased_chi_square,
    debiased_kl,
    delta_interval,
    dual_upper,
    guaranteed_upper,
    union_upper,
    worst_case_intervals,
)
from advshift.errors import InputError
from advshift.sets import Box, ChiSquareBall, FrequencyCap, KLBall, Simplex, TopK, TotalVariationBall

RADII = np.array([0.1, 1.0])
UNIFORM = {classes: np.full(classes, 1.0 / classes) for classes in (10, 50, 100, 400, 1000)}


def _most(count: int) -> float:
    """As many misses of a 95 % interval as chance explains: five standard deviations above 5 %."""
    return 0.05 * count + 5.0 * np.sqrt(0.0475 * count)


def _covers(found, truth) -> int:
    return int(((truth < found[0] - 1e-9) | (truth > found[1] + 1e-9)).sum())


@pytest.mark.parametrize("counts", [np.full(100, 20), np.round(np.geomspace(5, 500, 100))], ids=["equal", "tail"])
@pytest.mark.parametrize("shape", [(1.5, 4.0), (0.4, 0.4), (0.5, 20.0)], ids=["spread", "u-shaped", "near zero"])
def test_debiased_interval_covers(counts, shape):
    rng = np.random.default_rng(0)
    risks = rng.beta(*shape, 100)
    for function, ball in ((debiased_kl, KLBall), (debiased_chi_square, ChiSquareBall)):
        truth = ball(RADII).value(risks, UNIFORM[100])
        misses = np.zeros(2)
        for _ in range(60):
            sample = class_sample(counts, rng.binomial(counts.astype(int), risks), binary=True)
            found, _ = function(sample, UNIFORM[100], RADII)
            misses += (truth < found.low) | (truth > found.high)
        assert (misses <= _most(60)).all()


def test_debiased_removes_the_bias_that_makes_delta_miss():
    rng = np.random.default_rng(1)
    risks, reference = rng.beta(1.5, 4, 1000), UNIFORM[1000]
    truth = float(KLBall(1.0).value(risks, reference))
    plain, ours, misses, delta_misses, widths = [], [], 0, 0, []
    for _ in range(40):
        sample = class_sample(np.full(1000, 50), rng.binomial(50, risks), binary=True)
        found, _ = debiased_kl(sample, reference, np.array([1.0]))
        low, high = delta_interval(sample, reference, KLBall(1.0))
        plain.append(float(KLBall(1.0).value(sample.means, reference)) - truth)
        ours.append(float(found.value[0]) - truth)
        misses += not found.low[0] <= truth <= found.high[0]
        delta_misses += not low <= truth <= high
        widths.append(float(found.high[0] - found.low[0]))
    assert np.mean(plain) == pytest.approx(0.0147, abs=0.003)
    assert abs(np.mean(ours)) < 0.003
    assert misses <= _most(40)
    assert delta_misses > 30
    assert np.mean(widths) < 0.04


@pytest.mark.parametrize(
    ("classes", "count", "radius", "published"),
    [
        (1000, 50, 0.1, 0.017),
        (1000, 50, 1.0, 0.047),
        (1000, 50, 2.0, 0.078),
        (1000, 10, 1.0, 0.105),
        (100, 100, 1.0, 0.182),
    ],
)
def test_dual_bound_holds_and_is_near(classes, count, radius, published):
    rng = np.random.default_rng(2)
    risks, reference = rng.beta(1.5, 4, classes), UNIFORM[classes]
    truth = float(KLBall(radius).value(risks, reference))
    slacks = []
    for _ in range(4):
        sample = class_sample(np.full(classes, count), rng.binomial(count, risks), binary=True)
        slacks.append(float(dual_upper(sample, reference, np.array([radius]))[0]) - truth)
    assert min(slacks) >= 0.0
    assert np.mean(slacks) < published


@pytest.mark.parametrize("kind", ["errors", "tail", "bounded", "bounded tail"])
def test_guaranteed_bound_always_holds(kind):
    rng = np.random.default_rng(3)
    classes = 50
    counts = np.round(np.geomspace(5, 300, classes)).astype(int) if "tail" in kind else np.full(classes, 30)
    risks, reference = rng.beta(1.0, 3.0, classes), rng.dirichlet(np.full(classes, 5.0))
    radii = np.array([0.0, 0.05, 0.5, 1.5, 6.0])
    truth = KLBall(radii).value(risks, reference)
    for _ in range(8):
        if "bounded" in kind:
            drawn = [rng.beta(risk, 1 - risk, count) for risk, count in zip(risks, counts, strict=True)]
            sums, squares = ([float((part**power).sum()) for part in drawn] for power in (1, 2))
            sample = class_sample(counts, sums, squares, bounds=(0.0, 1.0))
        else:
            sample = class_sample(counts, rng.binomial(counts, risks), binary=True)
        assert (dual_upper(sample, reference, radii) >= truth - 1e-12).all()
        assert (guaranteed_upper(sample, reference, KLBall(radii)) >= truth - 1e-12).all()
        assert (union_upper(sample, reference, KLBall(radii)) >= truth - 1e-12).all()


def test_dual_bound_of_values_on_another_scale():
    rng = np.random.default_rng(4)
    drawn = rng.beta(1, 3, (40, 60))
    plain = class_sample(np.full(40, 60), drawn.sum(1), (drawn**2).sum(1), bounds=(0.0, 1.0))
    moved = 5.0 * drawn - 2.0
    scaled = class_sample(np.full(40, 60), moved.sum(1), (moved**2).sum(1), bounds=(-2.0, 3.0))
    reference = np.full(40, 1 / 40)
    for function in (dual_upper, lambda *a: debiased_kl(*a)[0].value, lambda *a: debiased_kl(*a)[0].high):
        one, other = function(plain, reference, RADII), function(scaled, reference, RADII)
        assert other == pytest.approx(5.0 * one - 2.0, abs=1e-6)


def test_classes_without_examples_may_be_as_bad_as_can_be():
    sample = class_sample([50] * 20 + [0], [5] * 20 + [0], binary=True)
    reference = np.full(21, 1 / 21)
    points = worst_case_intervals(sample, reference, KLBall(np.array([0.0, 0.5])))
    assert [point.reason for point in points] == ["empty-classes"] * 2
    assert all(point.interval == "guaranteed" and point.debiased is None for point in points)
    assert points[1].upper > points[1].plug_in > 0.3
    excluded = worst_case_intervals(sample, reference, KLBall(np.array([0.0, 0.1])), missing="exclude")
    assert [point.interval for point in excluded] == ["debiased"] * 2


@pytest.mark.parametrize(
    "family", [TotalVariationBall(0.2), FrequencyCap(2.0), TopK(3), Simplex(), Box(np.zeros(50), np.full(50, 0.1))]
)
def test_sets_with_a_kink_fall_back(family):
    rng = np.random.default_rng(5)
    risks = rng.beta(1.5, 4, 50)
    sample = class_sample(np.full(50, 100), rng.binomial(100, risks), binary=True)
    (point,) = worst_case_intervals(sample, UNIFORM[50], family)
    assert (point.interval, point.reason) == ("guaranteed", "no-smooth-dual")
    assert point.lower <= float(family.value(risks, UNIFORM[50])) <= point.upper


def test_every_point_makes_sense():
    rng = np.random.default_rng(6)
    radii = np.array([0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 2.4, 9.0])
    for counts in (np.full(10, 2), np.full(10, 500)):
        sample = class_sample(counts, rng.binomial(counts, 0.4), binary=True)
        points = worst_case_intervals(sample, UNIFORM[10], KLBall(radii))
        for point in points:
            assert 0.0 <= point.lower <= point.upper <= 1.0
            assert point.plug_in <= point.guaranteed_upper <= 1.0
            assert (point.reason is None) == (point.interval == "debiased")
            assert point.reason is None or point.reason in REASONS
            assert point.debiased is None or point.debiased <= point.plug_in + 1e-12
        assert points == worst_case_intervals(sample, UNIFORM[10], KLBall(radii))


def test_values_without_bounds_have_an_interval_or_none():
    rng = np.random.default_rng(7)
    drawn = rng.exponential(1.0, (400, 50)) * rng.gamma(2.0, 1.0, 400)[:, None]
    sample = class_sample(np.full(400, 50), drawn.sum(1), (drawn**2).sum(1))
    point, slack = worst_case_intervals(sample, UNIFORM[400], KLBall(np.array([0.1, 7.0])))
    assert point.interval == "debiased"
    assert point.guaranteed_upper is None
    few = class_sample([3, 3], [1.0, 2.0], [0.5, 2.0])
    (point,) = worst_case_intervals(few, np.array([0.5, 0.5]), KLBall(np.array([0.1])))
    assert (point.interval, point.lower, point.reason) == (None, None, "unbounded")
    assert slack.plug_in > 0


def test_reference_that_was_estimated_widens_the_interval():
    rng = np.random.default_rng(8)
    risks, reference = rng.beta(1.5, 4, 100), UNIFORM[100]
    truth = KLBall(RADII).value(risks, reference)
    misses = np.zeros(2)
    for _ in range(60):
        labels = np.maximum(rng.multinomial(3000, reference), 1)
        sample = class_sample(labels, rng.binomial(labels, risks), binary=True)
        found, _ = debiased_kl(sample, labels / labels.sum(), RADII, reference_size=3000)
        narrow, _ = debiased_kl(sample, labels / labels.sum(), RADII)
        assert (found.high > narrow.high).all()
        misses += (truth < found.low) | (truth > found.high)
    assert (misses <= _most(60)).all()


def test_paired_comparison_covers_and_gains_from_pairing():
    rng = np.random.default_rng(9)
    risks = rng.beta(1.5, 4, 100)
    other = 0.85 * risks
    truth = KLBall(RADII).value(other, UNIFORM[100]) - KLBall(RADII).value(risks, UNIFORM[100])
    misses, gains = np.zeros(2), []
    for _ in range(12):
        ones = rng.binomial(60, risks)
        both = rng.binomial(ones, 0.85)
        first, second = (class_sample(np.full(100, 60), part, binary=True) for part in (ones, both))
        points = compare_worst_cases(first, second, both.astype(float), UNIFORM[100], KLBall(RADII))
        apart = compare_worst_cases(first, second, ones * both / 60.0, UNIFORM[100], KLBall(RADII))
        misses += [not point.lower <= goal <= point.upper for point, goal in zip(points, truth, strict=True)]
        gains.append((points[0].upper - points[0].lower) / (apart[0].upper - apart[0].lower))
    assert (misses <= _most(12)).all()
    assert np.mean(gains) < 0.7


def test_comparison_needs_the_same_examples():
    one, other = class_sample([5], [1], binary=True), class_sample([6], [1], binary=True)
    with pytest.raises(InputError, match="the same examples"):
        compare_worst_cases(one, other, np.array([1.0]), np.array([1.0]), KLBall(0.1))


def test_breaking_point_lies_in_its_interval():
    rng = np.random.default_rng(10)
    risks, target = rng.beta(1.5, 4, 100), 0.45
    truth = float(KLBall(1.0).breaking_point(risks, UNIFORM[100], target))
    radii = np.linspace(0.0, 2.0, 60)
    held = 0
    for _ in range(20):
        sample = class_sample(np.full(100, 100), rng.binomial(100, risks), binary=True)
        low, high = breaking_interval(worst_case_intervals(sample, UNIFORM[100], KLBall(radii)), target)
        held += low <= truth <= high
        assert low < high
    assert held >= 17


@pytest.mark.parametrize("form", ["basic", "bias-corrected"])
def test_bootstrap_covers_where_examples_are_many(form):
    rng = np.random.default_rng(11)
    risks, reference = np.array([0.1, 0.2, 0.3, 0.5]), np.full(4, 0.25)
    truth = KLBall(RADII).value(risks, reference)
    misses = 0
    for _ in range(30):
        sample = class_sample(np.full(4, 2000), rng.binomial(2000, risks), binary=True)
        found = bootstrap_interval(sample, reference, KLBall(RADII), replicates=200, form=form, generator=rng)
        misses += _covers(found, truth)
    assert misses <= 2 * _most(30)


def test_debiased_interval_covers_where_a_rare_class_decides():
    rng = np.random.default_rng(12)
    counts = np.round(np.geomspace(500, 5, 10))
    reference = counts / counts.sum()
    risks = np.array([0.0, 0.3, 0.0, 0.1, 0.0, 0.2, 0.0, 0.4, 0.0, 0.5])
    radii = np.array([0.3, 1.0, 2.0])
    truth = KLBall(radii).value(risks, reference)
    misses = np.zeros(3)
    for _ in range(150):
        sample = class_sample(counts, rng.binomial(counts.astype(int), risks), binary=True)
        found, _ = debiased_kl(sample, reference, radii)
        misses += (truth < found.low) | (truth > found.high)
    assert (misses <= _most(150)).all()
