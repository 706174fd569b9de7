"""What holds for every set: shapes, batches, libraries, dtypes, invariances, compiled code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import BALLS, NAMES, Case, cases, make

from advshift.sets import (
    SETS,
    Box,
    ChiSquareBall,
    FrequencyCap,
    KLBall,
    ReverseKLBall,
    Simplex,
    TopK,
    TotalVariationBall,
    UncertaintySet,
)

RNG = np.random.default_rng(0)
RISKS = RNG.beta(1.5, 4, (5, 20))
REFERENCE = RNG.dirichlet(np.ones(20))
FIXED_STEPS = 16


def _each() -> list[UncertaintySet]:
    return [make(name, Case(RISKS[0], REFERENCE, 0.5)) for name in NAMES]


def test_registry_names_the_sets() -> None:
    assert tuple(SETS) == NAMES
    with pytest.raises(
        ValueError, match=r"unknown uncertainty set 'klball'; did you mean 'kl'\? \(known: kl, reverse-kl"
    ):
        SETS["klball"]


@pytest.mark.parametrize("uncertainty_set", _each(), ids=NAMES)
class TestShapes:
    def test_single_problem(self, uncertainty_set: UncertaintySet) -> None:
        worst = uncertainty_set.worst_case(RISKS[0], REFERENCE)
        assert np.shape(worst.value) == np.shape(worst.multiplier) == np.shape(worst.converged) == ()
        assert worst.distribution.shape == (20,)

    def test_batch_equals_rows(self, uncertainty_set: UncertaintySet) -> None:
        references = np.stack([REFERENCE, *RNG.dirichlet(np.ones(20), 4)])
        batch = uncertainty_set.worst_case(RISKS, references)
        assert batch.value.shape == batch.multiplier.shape == batch.converged.shape == (5,)
        for row in range(5):
            single = uncertainty_set.worst_case(RISKS[row], references[row])
            np.testing.assert_allclose(batch.value[row], single.value, rtol=0, atol=1e-12)
            np.testing.assert_allclose(batch.distribution[row], single.distribution, rtol=0, atol=1e-9)

    def test_value_alone(self, uncertainty_set: UncertaintySet) -> None:
        value = uncertainty_set.value(RISKS, REFERENCE)
        np.testing.assert_allclose(value, uncertainty_set.worst_case(RISKS, REFERENCE).value, rtol=0, atol=1e-14)

    def test_chunks_do_not_matter(self, uncertainty_set: UncertaintySet, monkeypatch: pytest.MonkeyPatch) -> None:
        risks = RNG.random((2, 3, 4, 20))
        whole = uncertainty_set.worst_case(risks, REFERENCE)
        for chunk in (1, 100, 600):
            monkeypatch.setattr("advshift.sets.base.CHUNK", chunk)
            pieces = uncertainty_set.worst_case(risks, REFERENCE)
            for whole_part, piece in zip(whole, pieces, strict=True):
                np.testing.assert_allclose(piece, whole_part, rtol=1e-9, atol=1e-12)

    def test_torch_equals_numpy(self, uncertainty_set: UncertaintySet) -> None:
        expected = uncertainty_set.worst_case(RISKS, REFERENCE)
        tensors = torch.from_numpy(RISKS), torch.from_numpy(REFERENCE)
        eager = uncertainty_set.worst_case(*tensors)
        assert all(isinstance(part, torch.Tensor) for part in eager)
        assert eager.value.dtype == torch.float64
        assert eager.converged.dtype == torch.bool
        fixed = uncertainty_set.worst_case(*tensors, steps=FIXED_STEPS)
        for found in (eager, fixed):
            np.testing.assert_allclose(found.value, expected.value, rtol=0, atol=1e-12)
            np.testing.assert_allclose(found.distribution, expected.distribution, rtol=0, atol=1e-9)
            assert bool(found.converged.all())

    @pytest.mark.parametrize("library", ["numpy", "torch"])
    def test_float32(self, uncertainty_set: UncertaintySet, library: str) -> None:
        expected = uncertainty_set.worst_case(RISKS, REFERENCE)
        risks, reference = RISKS.astype(np.float32), REFERENCE.astype(np.float32)
        if library == "numpy":
            found = uncertainty_set.worst_case(risks, reference)
            assert found.value.dtype == found.distribution.dtype == np.float32
        else:
            found = uncertainty_set.worst_case(torch.from_numpy(risks), torch.from_numpy(reference))
            assert found.value.dtype == found.distribution.dtype == torch.float32
        np.testing.assert_allclose(found.value, expected.value, rtol=0, atol=1e-5 * np.ptp(RISKS))
        assert abs(np.asarray(found.distribution).sum(-1) - 1).max() < 1e-5

    def test_float32_compiled_form(self, uncertainty_set: UncertaintySet) -> None:
        risks = torch.from_numpy(RISKS.astype(np.float32))
        found = uncertainty_set.worst_case(risks, torch.from_numpy(REFERENCE.astype(np.float32)), steps=FIXED_STEPS)
        assert found.value.dtype == torch.float32
        np.testing.assert_allclose(found.value, uncertainty_set.worst_case(RISKS, REFERENCE).value, rtol=0, atol=1e-5)

    def test_half_precision_is_solved_in_single(self, uncertainty_set: UncertaintySet) -> None:
        found = uncertainty_set.worst_case(
            torch.from_numpy(RISKS).to(torch.bfloat16), torch.from_numpy(REFERENCE).float()
        )
        assert found.value.dtype == torch.float32

    def test_gradient_is_the_distribution(self, uncertainty_set: UncertaintySet) -> None:
        for steps in (None, FIXED_STEPS):
            risks = torch.from_numpy(RISKS).requires_grad_()
            worst = uncertainty_set.worst_case(risks, torch.from_numpy(REFERENCE), steps=steps)
            (gradient,) = torch.autograd.grad(worst.value.sum(), risks)
            torch.testing.assert_close(gradient, worst.distribution)

    def test_lists_and_integers(self, uncertainty_set: UncertaintySet) -> None:
        worst = uncertainty_set.worst_case(list(range(20)), REFERENCE.tolist())
        assert worst.value.dtype == np.float64


@pytest.mark.parametrize("name", NAMES)
class TestInvariances:
    @given(case=cases(), scale=st.sampled_from([1e-300, 1e-20, 1.0, 1e20, 1e300]), shift=st.sampled_from([0.0, -3.0]))
    def test_shift_and_scale(self, name: str, case: Case, scale: float, shift: float) -> None:
        if np.ptp(case.risks) < 1e-6 or np.abs(case.risks).max() > 1e6:
            return
        uncertainty_set = make(name, case)
        plain = uncertainty_set.worst_case(case.risks + shift, case.reference)
        scaled = uncertainty_set.worst_case((case.risks + shift) * scale, case.reference)
        np.testing.assert_allclose(scaled.distribution, plain.distribution, rtol=0, atol=1e-7)
        span = scale * np.ptp(case.risks)
        assert abs(scaled.value - scale * plain.value) <= 1e-9 * span + 1e-14 * abs(scale * plain.value)

    @given(case=cases(), seed=st.integers(0, 1000))
    def test_order_of_classes(self, name: str, case: Case, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(case.risks.size)
        uncertainty_set = make(name, case)
        plain = uncertainty_set.worst_case(case.risks, case.reference)
        moved = uncertainty_set.worst_case(case.risks[order], case.reference[order])
        np.testing.assert_allclose(moved.distribution, plain.distribution[order], rtol=0, atol=1e-6)
        assert abs(moved.value - plain.value) <= 1e-10 * (np.ptp(case.risks) + np.abs(case.risks).max())

    @given(case=cases(), seed=st.integers(0, 1000))
    def test_monotone_and_convex_in_the_risks(self, name: str, case: Case, seed: int) -> None:
        if np.abs(case.risks).max() > 1e3:
            return
        uncertainty_set = make(name, case)
        more = case.risks + np.random.default_rng(seed).random(case.risks.size)
        low, high, middle = (
            uncertainty_set.worst_case(risks, case.reference).value
            for risks in (case.risks, more, 0.5 * (case.risks + more))
        )
        slack = 1e-9 * (np.abs(more).max() + 1)
        assert low <= high + slack
        assert middle <= 0.5 * (low + high) + slack

    @given(case=cases())
    def test_between_the_centre_and_the_worst_class(self, name: str, case: Case) -> None:
        value = make(name, case).worst_case(case.risks, case.reference).value
        inside = case.risks[case.reference > 0]
        slack = 1e-12 * (np.abs(inside).max() + 1)
        assert value <= inside.max() + slack
        centre = inside.mean() if name == "top-k" else case.reference @ np.where(case.reference > 0, case.risks, 0.0)
        assert name == "box" or value >= centre - slack


@pytest.mark.parametrize("ball", BALLS)
class TestBalls:
    RADII = np.array([0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 2.0, np.inf])

    def test_array_of_radii(self, ball: type) -> None:
        together = ball(self.RADII).worst_case(RISKS[0], REFERENCE)
        assert together.distribution.shape == (8, 20)
        for radius, value, multiplier in zip(self.RADII, together.value, together.multiplier, strict=True):
            single = ball(radius).worst_case(RISKS[0], REFERENCE)
            np.testing.assert_allclose([value, multiplier], [single.value, single.multiplier], rtol=1e-9, atol=1e-12)

    def test_radii_against_models(self, ball: type) -> None:
        assert ball(self.RADII[:, None]).worst_case(RISKS, REFERENCE).value.shape == (8, 5)
        with pytest.raises(
            ValueError, match=r"do not broadcast; to try every radius on every row of risks give radius\[:"
        ):
            ball(self.RADII).worst_case(RISKS, REFERENCE)

    @given(case=cases())
    def test_concave_and_increasing_in_the_radius(self, ball: type, case: Case) -> None:
        radii = np.linspace(0.0, case.radius, 12)
        values = ball(radii).worst_case(case.risks, case.reference).value
        slack = 1e-9 * np.ptp(case.risks) + 1e-15 * np.abs(case.risks).max()
        assert (np.diff(values) >= -slack).all()
        assert (np.diff(values, 2) <= 2 * slack).all()

    @given(case=cases(full_support=True))
    def test_multiplier_is_the_slope(self, ball: type, case: Case) -> None:
        if np.ptp(case.risks) < 1e-6:
            return
        risks = case.risks / np.ptp(case.risks)
        radius = np.array([case.radius - 1e-6 * case.radius, case.radius, case.radius + 1e-6 * case.radius])
        worst = ball(radius).worst_case(risks, case.reference)
        slopes = np.diff(worst.value) / np.diff(radius)
        noise = 1e-12 / (1e-6 * case.radius)
        low, high = worst.multiplier[2], worst.multiplier[0]
        assert low * (1 - 1e-4) - noise <= slopes[1] <= slopes[0] + 2 * noise <= high * (1 + 1e-4) + 3 * noise

    def test_radius_zero(self, ball: type) -> None:
        worst = ball(0.0).worst_case(RISKS[0], REFERENCE)
        np.testing.assert_allclose(worst.distribution, REFERENCE, rtol=0, atol=1e-15)
        expected = np.inf if ball is not TotalVariationBall else np.ptp(RISKS[0])
        assert worst.multiplier == pytest.approx(expected)

    def test_radius_infinity_is_the_worst_class(self, ball: type) -> None:
        worst = ball(np.inf).worst_case([0.1, 0.7, 0.7], [0.5, 0.4, 0.1])
        np.testing.assert_allclose(worst.distribution, [0.0, 0.8, 0.2])
        assert worst.value == pytest.approx(0.7, abs=1e-15)
        assert worst.multiplier == 0

    def test_equal_risks(self, ball: type) -> None:
        worst = ball(0.3).worst_case([0.4, 0.4, 0.4], [0.5, 0.4, 0.1])
        np.testing.assert_allclose(worst.distribution, [0.5, 0.4, 0.1])
        assert (worst.value, worst.multiplier, worst.converged) == (0.4, 0.0, True)

    def test_one_class(self, ball: type) -> None:
        worst = ball(0.3).worst_case([0.4], [1.0])
        assert (worst.value, worst.distribution.tolist(), worst.multiplier) == (0.4, [1.0], 0.0)

    def test_ties_at_the_maximum_share_in_proportion(self, ball: type) -> None:
        worst = ball(0.1).worst_case([0.2, 0.9, 0.9], [0.5, 0.4, 0.1])
        assert worst.distribution[1] / worst.distribution[2] == pytest.approx(4.0)

    def test_above_the_slack_radius(self, ball: type) -> None:
        reference, risks = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 4.0])
        slack = {KLBall: -np.log(0.2), ChiSquareBall: 0.5 * (1 / 0.2 - 1), TotalVariationBall: 0.8}.get(ball, np.inf)
        if ball is ReverseKLBall:
            worst = ball(20.0).worst_case(risks, reference)
            assert worst.value < 4.0
            assert worst.multiplier > 0
            return
        below, at, above = (ball(slack * factor).worst_case(risks, reference) for factor in (1 - 1e-6, 1.0, 1.5))
        assert below.value < 4.0
        assert below.multiplier > 0
        assert (at.value, above.value, above.multiplier) == (4.0, 4.0, 0.0)

    def test_empty_class_gets_nothing_by_default(self, ball: type) -> None:
        worst = ball(0.2).worst_case([0.1, 0.3, 0.9], [0.5, 0.5, 0.0])
        assert worst.distribution[2] == 0
        unknown = ball(0.2).worst_case([0.1, 0.3, np.nan], [0.5, 0.5, 0.0])
        assert unknown.value == worst.value

    def test_empty_class_when_all_are_allowed(self, ball: type) -> None:
        """Only where the formula lets it: the direct solution of the small problem is worked out by hand or search."""
        worst = ball(0.2, support="all").worst_case([0.1, 0.3, 0.9], [0.5, 0.5, 0.0])
        expected = {ReverseKLBall: 0.332767, TotalVariationBall: 0.1 * 0.3 + 0.3 * 0.5 + 0.9 * 0.2}
        own = ball(0.2).worst_case([0.1, 0.3, 0.9], [0.5, 0.5, 0.0]).value
        assert worst.value == pytest.approx(expected.get(ball, own), abs=1e-6)

    def test_large_radii_and_tiny_masses(self, ball: type) -> None:
        reference = np.array([1.0 - 2e-12, 1e-12, 1e-12])
        for radius in (1e-3, 1.0, 25.0, 600.0, 1e5):
            worst = ball(radius).worst_case([0.0, 0.5, 1.0], reference)
            assert worst.converged
            assert 0.0 <= worst.value <= 1.0


@pytest.mark.parametrize("ball", [*BALLS, FrequencyCap, TopK])
class TestBreakingPoint:
    @given(case=cases(), share=st.floats(0.01, 0.99))
    def test_is_the_inverse_of_the_worst_case(self, ball: type, case: Case, share: float) -> None:
        inside = case.risks[case.reference > 0]
        if np.ptp(inside) < 1e-6 * np.abs(inside).max() + 1e-9:
            return
        centre = inside.mean() if ball is TopK else case.reference @ case.risks
        target = centre + share * (inside.max() - centre)
        radius = ball(1.0).breaking_point(case.risks, case.reference, target)
        value = ball(radius).worst_case(case.risks, case.reference).value
        assert value == pytest.approx(target, abs=1e-8 * np.ptp(inside))

    def test_already_reached_never_and_the_maximum(self, ball: type) -> None:
        risks, reference = [1.0, 2.0, 4.0], [0.5, 0.3, 0.2]
        found = ball(1.0).breaking_point(risks, reference, [1.0, 4.0, 4.1])
        expected = {
            KLBall: [0.0, np.log(5.0), np.inf],
            ReverseKLBall: [0.0, np.inf, np.inf],
            ChiSquareBall: [0.0, 2.0, np.inf],
            TotalVariationBall: [0.0, 0.8, np.inf],
            FrequencyCap: [1.0, 5.0, np.inf],
            TopK: [3.0, 1.0, 0.0],
        }[ball]
        np.testing.assert_allclose(found, expected)

    def test_single_numbers(self, ball: type) -> None:
        risks, reference = [1.0, 2.0, 4.0], [0.5, 0.3, 0.2]
        for target in (1.0, 3.0, 4.0, 5.0):
            assert np.shape(ball(1.0).breaking_point(risks, reference, target)) == ()

    def test_batches_and_tensors(self, ball: type) -> None:
        target = RISKS.mean(-1) * 0.3 + RISKS.max(-1) * 0.7
        found = ball(1.0).breaking_point(RISKS, REFERENCE, target)
        tensors = ball(1.0).breaking_point(
            torch.from_numpy(RISKS), torch.from_numpy(REFERENCE), torch.from_numpy(target)
        )
        np.testing.assert_allclose(tensors, found, rtol=1e-12)
        for row in range(5):
            single = ball(1.0).breaking_point(RISKS[row], REFERENCE, target[row])
            np.testing.assert_allclose(found[row], single, rtol=1e-8)

    def test_equal_risks(self, ball: type) -> None:
        found = ball(1.0).breaking_point([0.4, 0.4], [0.5, 0.5], [0.3, 0.5])
        never = 0.0 if ball is TopK else np.inf
        assert found[1] == never
        assert found[0] < 3.0


@pytest.mark.parametrize("ball", [ReverseKLBall, TotalVariationBall])
@given(case=cases(), share=st.floats(0.05, 0.95))
def test_breaking_point_on_all_classes(ball: type, case: Case, share: float) -> None:
    if np.ptp(case.risks) < 1e-6 * np.abs(case.risks).max() + 1e-9:
        return
    centre = case.reference @ case.risks
    target = centre + share * (case.risks.max() - centre)
    radius = ball(1.0, support="all").breaking_point(case.risks, case.reference, target)
    value = ball(radius, support="all").worst_case(case.risks, case.reference).value
    assert value == pytest.approx(target, abs=1e-8 * np.ptp(case.risks))


@pytest.mark.parametrize("ball", [ReverseKLBall, TotalVariationBall])
@given(case=cases(max_classes=6), seed=st.integers(0, 100))
def test_all_classes_against_random_members(ball: type, case: Case, seed: int) -> None:
    """No member of the lifted set, drawn at random and pulled to its edge, beats the worst case."""
    rng = np.random.default_rng(seed)
    risks = case.risks / (np.abs(case.risks).max() + 1e-300)
    radius = min(case.radius, 3.0)
    worst = ball(radius, support="all").worst_case(risks, case.reference)
    p = case.reference
    for direction in rng.dirichlet(np.ones(p.size), 20):
        low, high = 0.0, 1.0
        for _ in range(50):
            step = 0.5 * (low + high)
            member = (1 - step) * p + step * direction
            with np.errstate(divide="ignore", invalid="ignore"):
                reverse = np.where(p > 0, p * np.log(p / member), 0.0).sum()
            size = 0.5 * np.abs(member - p).sum() if ball is TotalVariationBall else reverse
            low, high = (step, high) if size <= radius else (low, step)
        assert ((1 - low) * p + low * direction) @ risks <= worst.value + 1e-9


def test_frequency_cap_per_class() -> None:
    worst = FrequencyCap([1.0, 2.0, 3.0]).worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(worst.distribution, [0.0, 0.4, 0.6])
    assert np.isnan(worst.multiplier)
    with pytest.raises(ValueError, match="a cap per class has no single ratio to vary"):
        FrequencyCap([1.0, 2.0, 3.0]).breaking_point([1.0, 2.0, 4.0], [0.5, 0.3, 0.2], 3.0)


def test_column_of_ratios() -> None:
    worst = FrequencyCap(np.array([[1.0], [2.0], [np.inf]])).worst_case([1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(worst.value, [1.9, 2.8, 4.0])


def test_top_k_of_all_classes_is_their_mean() -> None:
    assert TopK(3).worst_case([1.0, 2.0, 6.0], [0.7, 0.2, 0.1]).value == pytest.approx(3.0)
    assert TopK(3, support="all").worst_case([1.0, 2.0, 6.0], [0.8, 0.2, 0.0]).value == pytest.approx(3.0)


def test_simplex_on_all_classes() -> None:
    worst = Simplex(support="all").worst_case([1.0, 2.0, 6.0], [0.8, 0.2, 0.0])
    assert worst.distribution.tolist() == [0.0, 0.0, 1.0]


def test_a_million_classes() -> None:
    rng = np.random.default_rng(0)
    risks, reference = rng.beta(1.5, 4, 10**6), rng.dirichlet(np.ones(10**6))
    worst = KLBall(1.0).worst_case(risks, reference)
    assert worst.converged
    pi = worst.distribution
    assert float((pi * np.log(np.where(pi > 0, pi, 1.0) / reference)).sum()) == pytest.approx(1.0, abs=1e-9)
    t = float(worst.multiplier)
    dual = t + risks.max() + t * np.log(reference @ np.exp((risks - risks.max()) / t))
    assert worst.value == pytest.approx(dual, abs=1e-9)


def test_stragglers_are_few() -> None:
    """A thousand problems converge together in a few steps: no row makes the others wait."""
    rng = np.random.default_rng(0)
    risks = np.concatenate([rng.beta(1.5, 4, (700, 100)), rng.random((100, 100)), rng.standard_cauchy((200, 100))])
    worst = KLBall(10.0 ** rng.uniform(-6, 1, 1000)).worst_case(
        torch.from_numpy(risks), torch.full((100,), 0.01, dtype=torch.float64), steps=FIXED_STEPS
    )
    assert bool(worst.converged.all())


def test_centre_may_be_any_distribution() -> None:
    estimated = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(KLBall(0.0).worst_case([1.0, 2.0, 4.0], estimated).distribution, estimated)


BAD = {
    "negative radius": (lambda: KLBall(-0.1), "the radius must be a number from 0 up"),
    "nan radius": (lambda: KLBall(float("nan")), "the radius must be a number from 0 up"),
    "radius in words": (lambda: KLBall("0.1"), "the radius must be a number from 0 up"),
    "support": (lambda: KLBall(0.1, support="any"), "support must be 'reference' or 'all'; got 'any'"),
    "low cap": (lambda: FrequencyCap(0.9), "the ratio must be at least 1"),
    "k below one": (lambda: TopK(0.5), "k must be a number from 1 up"),
    "bounds crossed": (lambda: Box(0.5, 0.2), "a lower bound of the Box exceeds its upper bound"),
    "bounds outside": (lambda: Box(-0.5, 0.2), "bounds of a Box must be numbers between 0 and 1"),
    "caps too low": (
        lambda: FrequencyCap([0.5, 1.0]).worst_case([1.0, 2.0], [0.5, 0.5]),
        "the caps leave room for a mass of 0.75, but a distribution needs 1",
    ),
    "caps of another length": (
        lambda: FrequencyCap([1.0, 1.0]).worst_case([1.0, 2.0, 3.0], [0.5, 0.3, 0.2]),
        "one number, or one per class: 3; got 2",
    ),
    "k too large": (
        lambda: TopK(3).worst_case([1.0, 2.0, 3.0], [0.5, 0.5, 0.0]),
        "k must be at most the number of classes that may carry mass, 2; got 3",
    ),
    "empty box": (
        lambda: Box(0.0, 0.2).worst_case([1.0, 2.0], [0.5, 0.5]),
        "no distribution lies in the Box: .* their sums are 0 and 0.4",
    ),
    "box of another length": (
        lambda: Box([0.0, 0.1], 1.0).worst_case([1.0, 2.0, 3.0], [0.5, 0.3, 0.2]),
        "one number, or one per class: 3; got 2 and 1",
    ),
    "box wants an empty class": (
        lambda: Box(0.1, 1.0).worst_case([1.0, 2.0], [1.0, 0.0]),
        "a class without mass in the reference has a positive lower bound",
    ),
    "lengths differ": (
        lambda: KLBall(0.1).worst_case([1.0, 2.0], [0.5, 0.3, 0.2]),
        r"one number per class along their last axis; got shapes \(2,\) and \(3,\)",
    ),
    "no classes": (lambda: KLBall(0.1).worst_case([], []), "one number per class along their last axis"),
    "a single number": (lambda: KLBall(0.1).worst_case(1.0, 1.0), "one number per class along their last axis"),
    "counts for shares": (
        lambda: KLBall(0.1).worst_case([1.0, 2.0], [30, 70]),
        "the reference must be a distribution; its sum is 99 away from 1. Divide the class counts by their total",
    ),
    "negative share": (
        lambda: KLBall(0.1).worst_case([1.0, 2.0], [-0.5, 1.5]),
        "the reference must be a distribution; it holds a negative number: -0.5",
    ),
    "nan share": (lambda: KLBall(0.1).worst_case([1.0, 2.0], [np.nan, 1.0]), "the reference must be a distribution"),
    "nan risk": (
        lambda: KLBall(0.1).worst_case([1.0, np.nan], [0.5, 0.5]),
        "the risks must be finite for every class that may carry mass; 1 of 2 are not",
    ),
    "infinite risk": (lambda: KLBall(0.1).worst_case([1.0, np.inf], [0.5, 0.5]), "the risks must be finite"),
    "range overflows": (
        lambda: KLBall(0.1).worst_case([-1.5e308, 1.5e308], [0.5, 0.5]),
        "the risks span more than a float64 can hold",
    ),
    "ragged": (lambda: KLBall(0.1).worst_case([[1.0], [1.0, 2.0]], [1.0]), "its rows differ in length"),
    "words": (lambda: KLBall(0.1).worst_case(["a", "b"], [0.5, 0.5]), "risks must be an array of real numbers"),
    "nan target": (
        lambda: KLBall(0.1).breaking_point([1.0, 2.0], [0.5, 0.5], np.nan),
        "the target must be a number, or an array of them; got nan",
    ),
    "no radius to vary": (
        lambda: Simplex().breaking_point([1.0, 2.0], [0.5, 0.5], 1.7),
        "Simplex has no radius to vary",
    ),
    "no radius to vary in a box": (
        lambda: Box(0.0, 1.0).breaking_point([1.0, 2.0], [0.5, 0.5], 1.7),
        "Box has no radius to vary",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_sentence(name: str, no_shape_checks: None) -> None:
    action, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        action()
    assert "\n" not in str(caught.value)


SETS_BY_CLASS = {kind.__name__: kind for kind in SETS.values()}


@pytest.mark.parametrize("uncertainty_set", _each(), ids=NAMES)
def test_repr_can_be_read_back(uncertainty_set: UncertaintySet) -> None:
    again = eval(repr(uncertainty_set), {**SETS_BY_CLASS, "array": np.array})
    assert repr(again) == repr(uncertainty_set)
    assert "support='all'" in repr(type(uncertainty_set)(**uncertainty_set.parameters, support="all"))
