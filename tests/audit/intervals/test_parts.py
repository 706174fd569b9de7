"""The parts of the inference, each against an independent computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from advshift.audit.intervals import (
    class_sample,
    clopper_pearson,
    cross_fitted_value,
    debiased_chi_square,
    debiased_kl,
    delta_interval,
    fill_missing,
    lower_limits,
    marginal_effects,
    split_ones,
    union_lower,
    union_upper,
    upper_limits,
)
from advshift.audit.intervals.certificate import Precision, binomial_masses, certificate
from advshift.audit.intervals.debiased_kl import kl_band, rate_grid
from advshift.audit.intervals.exponential import exponential_terms, unbiased_exponential
from advshift.errors import InputError
from advshift.sets import ChiSquareBall, KLBall, Simplex


@settings(max_examples=40)
@given(st.integers(1, 40), st.floats(1e-9, 1), st.floats(0.01, 12))
def test_series_is_unbiased_up_to_its_cut(count, share, rate):
    ones = np.arange(count + 1.0)
    values = unbiased_exponential(ones, np.full(count + 1, float(count)), np.array([rate]))[:, 0]
    expected = stats.binom.pmf(ones, count, share) @ values
    series = math.fsum((rate * share) ** k / math.factorial(k) for k in range(count + 1))
    assert expected == pytest.approx(series, rel=1e-9)


@settings(max_examples=40)
@given(st.integers(1, 30), st.floats(1e-9, 1), st.floats(0.01, 8))
def test_terms_enclose_the_exponential_and_know_their_variance(count, share, rate):
    ones = np.arange(count + 1.0)
    sample = class_sample(np.full(count + 1, float(count)), ones, binary=True)
    terms = exponential_terms(sample, np.array([rate]))
    masses = stats.binom.pmf(ones, count, share)
    low, high = masses @ terms.lower[:, 0], masses @ terms.upper[:, 0]
    assert low <= math.exp(rate * share) * (1 + 1e-9)
    assert high >= math.exp(rate * share) * (1 - 1e-9)
    if count > 2.0 * math.e * rate + 12.0:
        variance = masses @ terms.lower[:, 0] ** 2 - low**2
        assert masses @ terms.variance[:, 0] == pytest.approx(variance, rel=1e-3, abs=1e-6 * low**2)


def test_many_examples_join_the_series_smoothly():
    rates = np.array([1.0, 5.0, 20.0])
    sample = class_sample([2000, 2001], [600, 600], binary=True)
    terms = exponential_terms(sample, rates)
    assert np.log(terms.lower[0]) == pytest.approx(np.log(terms.lower[1]) + rates * (600 / 2000 - 600 / 2001), abs=2e-3)
    assert terms.variance[0] / terms.lower[0] ** 2 == pytest.approx(terms.variance[1] / terms.lower[1] ** 2, rel=0.02)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(1e-6, 0.3))
def test_clopper_pearson_against_scipy(ones, rest, level):
    found = float(clopper_pearson(np.array([float(ones)]), np.array([float(ones + rest)]), level)[0])
    expected = stats.beta.ppf(1 - level, ones + 1, rest) if rest else 1.0
    assert found == pytest.approx(expected, rel=1e-8)
    if ones + rest:
        low = lower_limits(class_sample([ones + rest], [ones], binary=True), level)[0]
        assert low == pytest.approx(stats.beta.ppf(level, ones, rest + 1) if ones else 0.0, abs=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_limits_within_bounds_hold_often_enough(share):
    rng = np.random.default_rng(3)
    drawn = -1.0 + 3.0 * rng.beta(2 * share, 2 * (1 - share), (4000, 12))
    sample = class_sample(np.full(4000, 12), drawn.sum(1), (drawn**2).sum(1), bounds=(-1.0, 2.0))
    truth = -1.0 + 3.0 * share
    assert (upper_limits(sample, 0.1) < truth).mean() <= 0.1
    assert (lower_limits(sample, 0.1) > truth).mean() <= 0.1
    assert (upper_limits(sample, 0.1) >= sample.means).all()
    assert (upper_limits(sample, 0.1) <= 2.0).all()


@pytest.mark.parametrize("cut", [0.0, 1e-4])
@pytest.mark.parametrize(("count", "rate"), [(1, 2.0), (7, 5.0), (50, 8.0), (50, 0.1)])
def test_certificates_hold_for_every_probability(count, rate, cut):
    made = certificate(count, rate, 30, cut, Precision(points=128))
    assert np.isfinite(made.exponents[-1]).all()
    assert (np.diff(made.exponents[np.isfinite(made.exponents[:, 0])], axis=1) <= 0).all()
    between = np.random.default_rng(0).uniform(0, 1, 100)
    for share in [0.0, 1.0, *between]:
        masses = stats.binom.pmf(np.arange(count + 1), count, share)
        masses = np.where(np.cumsum(masses) > cut, masses, 0.0)
        with np.errstate(divide="ignore"):
            expected = np.log(np.exp(made.exponents) @ masses)
        assert (expected <= -made.weights * np.exp(rate * share) + 1e-12).all()


def test_certificates_are_sharp():
    made = certificate(50, 8.0, 40, 0.0, Precision())
    ones = np.arange(51.0)
    truth = unbiased_exponential(ones, np.full(51, 50.0), np.array([8.0]))[:, 0]
    found = -made.exponents[-1] / made.weights[-1]
    assert (found[10:45] / truth[10:45]).max() < 1.05
    assert (found >= truth * 0.999).all()


def test_binomial_masses_against_scipy():
    shares = np.array([0.0, 0.2, 1.0])
    expected = stats.binom.pmf(np.arange(13), 12, shares[:, None])
    assert binomial_masses(12, shares) == pytest.approx(expected, abs=1e-12)


def test_dual_of_exact_risks_is_the_worst_case():
    rng = np.random.default_rng(0)
    counts = np.full(30, 1e9)
    risks, reference = rng.beta(1.5, 4, 30), rng.dirichlet(np.ones(30))
    sample = class_sample(counts, np.round(risks * counts), binary=True)
    radii = np.array([1e-4, 0.05, 0.5, 1.0])
    for function, ball in ((debiased_kl, KLBall), (debiased_chi_square, ChiSquareBall)):
        found, band = function(sample, reference, radii)
        truth = ball(radii).worst_case(risks, reference).value
        assert found.value == pytest.approx(truth, abs=2e-4)
        assert (found.low <= truth + 1e-9).all()
        assert (truth <= found.high + 1e-9).all()
        assert band.trusted.any()


def test_band_is_centred_on_the_dual():
    rng = np.random.default_rng(1)
    risks, reference = rng.beta(1.5, 4, 200), np.full(200, 1 / 200)
    rates = rate_grid(0.1)[:25]
    centres = []
    for _ in range(100):
        sample = class_sample(np.full(200, 30.0), rng.binomial(30, risks), binary=True)
        centres.append(kl_band(sample, reference, rates, exponential_terms(sample, rates), confidence=0.95).centre)
    truth = np.log((reference[:, None] * np.exp(rates * risks[:, None])).sum(0)) / rates
    error = np.std(centres, axis=0) / np.sqrt(100)
    assert (np.abs(np.mean(centres, axis=0) - truth) < 4 * error + 1e-4).all()


def test_cross_fitted_value_lies_below_and_the_plug_in_above():
    rng = np.random.default_rng(2)
    risks, reference = rng.beta(1.5, 4, 100), np.full(100, 0.01)
    truth = float(KLBall(1.0).value(risks, reference))
    crossed, plugged = [], []
    for _ in range(15):
        ones = rng.binomial(40, risks).astype(float)
        counts, dealt = split_ones(ones, np.full(100, 40.0), 10, rng)
        assert (dealt.sum(1) == ones).all()
        assert (counts == 4).all()
        crossed.append(cross_fitted_value(counts, dealt, reference, KLBall(1.0), repetitions=3, generator=rng))
        plugged.append(KLBall(1.0).value(ones / 40, reference))
    assert np.mean(crossed) < truth < np.mean(plugged)


def test_splits_are_hypergeometric():
    rng = np.random.default_rng(0)
    _, dealt = split_ones(np.full(4000, 6.0), np.full(4000, 20.0), 2, rng)
    observed = np.bincount(dealt[:, 0].astype(int), minlength=7)
    expected = 4000 * stats.hypergeom.pmf(np.arange(7), 20, 6, 10)
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_delta_standard_deviation_against_simulation():
    rng = np.random.default_rng(0)
    risks, reference = np.array([0.1, 0.2, 0.35, 0.5]), np.array([0.4, 0.3, 0.2, 0.1])
    labels = rng.multinomial(1500, reference, 1500)
    ones = rng.binomial(labels, risks)
    values = KLBall(0.2).value(ones / labels, labels / 1500)
    sample = class_sample(labels[0], ones[0], binary=True)
    low, high = delta_interval(sample, labels[0] / 1500, KLBall(0.2), reference_size=1500)
    assert (high - low) / (2 * 1.96) == pytest.approx(values.std(), rel=0.1)


def test_marginal_effect_is_the_derivative():
    counts = np.array([40.0, 50.0, 60.0])
    reference = np.array([0.5, 0.3, 0.2])
    base = class_sample(counts, [4, 10, 20], binary=True)
    step = 1e-6
    for place in range(3):
        sums = base.sums.copy()
        sums[place] += step * counts[place]
        moved = KLBall(0.2).value(sums / counts, reference) - KLBall(0.2).value(base.means, reference)
        assert moved / step == pytest.approx(marginal_effects(base, reference, KLBall(0.2))[place], rel=1e-4)


def test_missing_classes():
    sample = class_sample([10, 0, 30], [1, 0, 9], binary=True)
    reference = np.array([0.5, 0.25, 0.25])
    assert fill_missing(sample, reference, "worst")[0].tolist() == [0.1, 1.0, 0.3]
    assert fill_missing(sample, reference, "average")[0][1] == pytest.approx((0.5 * 0.1 + 0.25 * 0.3) / 0.75)
    assert fill_missing(sample, reference, "exclude")[1].tolist() == pytest.approx([2 / 3, 0, 1 / 3])
    losses = class_sample([10, 0], [20, 0], [50, 0])
    assert fill_missing(losses, np.array([0.5, 0.5]), "worst")[0].tolist() == [2.0, 2.0]
    with pytest.raises(InputError, match="no class that the reference gives mass to has examples"):
        fill_missing(sample, np.array([0.0, 1.0, 0.0]), "worst")


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0, 3))
def test_union_encloses_the_plug_in(classes, radius):
    counts = np.array([count for count, _ in classes], dtype=float)
    sample = class_sample(counts, np.round(counts * [share for _, share in classes]), binary=True)
    reference = np.full(len(counts), 1 / len(counts))
    for family in (KLBall(radius), Simplex()):
        plug_in = family.value(sample.means, reference)
        assert union_lower(sample, reference, family) <= plug_in + 1e-9
        assert plug_in <= union_upper(sample, reference, family) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1, 1]), "sums of their squares"),
        (([1, 2], [1], [1]), "one number per class"),
        (([1, np.nan], [1, 1], [1, 1]), "must be finite"),
        (([1.5, 2], [1, 1], [1, 1]), "whole numbers"),
    ],
)
def test_statistics_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        class_sample(*arguments)


def test_values_outside_their_bounds_are_refused():
    with pytest.raises(InputError, match="outside the bounds"):
        class_sample([2], [3], binary=True)
    with pytest.raises(InputError, match="two finite numbers"):
        class_sample([2], [1], [1], bounds=(1.0, 0.0))
    with pytest.raises(InputError, match="no guaranteed limits"):
        upper_limits(class_sample([2], [1], [1]), 0.05)
