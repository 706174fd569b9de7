"""Every set against a general convex solver, and against its own dual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NAMES, Case, cases, make, violation

from advshift.sets import ChiSquareBall, KLBall, ReverseKLBall, UncertaintySet
from advshift.testing.oracle import worst_case_by_solver

VALUE = CONSTRAINT = 1e-9


@pytest.mark.parametrize("name", NAMES)
@given(case=cases())
def test_feasible_and_consistent(name: str, case: Case) -> None:
    uncertainty_set = make(name, case)
    worst = uncertainty_set.worst_case(case.risks, case.reference)
    assert worst.converged
    assert violation(uncertainty_set, worst.distribution, case.reference) <= CONSTRAINT
    span = np.ptp(case.risks) + 1e-300
    assert abs(worst.value - worst.distribution @ case.risks) <= VALUE * span + 1e-15 * np.abs(case.risks).max()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(case=cases())
def test_equals_the_convex_solver(name: str, case: Case) -> None:
    uncertainty_set = make(name, case)
    worst = uncertainty_set.worst_case(case.risks, case.reference)
    inside = case.risks[case.reference > 0]
    span = np.ptp(inside)
    scaled = (case.risks - inside.min()) / (span or 1.0)
    value, distribution = worst_case_by_solver(uncertainty_set, scaled, case.reference)
    if not np.isfinite(value):
        return  # the solver failed: the dual certificate below still judges ours
    ours = float(worst.distribution @ scaled)
    # The solver leaves the set by a little, and gains the multiplier times that.
    price = float(np.nan_to_num(worst.multiplier, nan=1.0)) / (span or 1.0)
    gained = min(price, 1e6) * max(violation(uncertainty_set, distribution, case.reference), 0.0)
    assert ours >= value - VALUE - gained
    assert ours <= value + VALUE


def _dual(uncertainty_set: UncertaintySet, risks: np.ndarray, p: np.ndarray, t: float, r: float) -> float:
    """An upper bound on the worst case at any multiplier `t`: weak duality, written out for each ball."""
    inside = p > 0
    e, p = risks[inside], p[inside]
    match uncertainty_set:
        case KLBall():
            return float(t * r + e.max() + t * np.log(p @ np.exp((e - e.max()) / t)))
        case ChiSquareBall():
            etas = e.min() - np.geomspace(1e-6, 1e6, 40) * (np.ptp(e) + 1e-12)
            etas = np.concatenate([etas, np.linspace(e.min(), e.max(), 400)])
            excess = np.maximum(e - etas[:, None], 0.0)
            return float((np.sqrt(1 + 2 * r) * np.sqrt(excess**2 @ p) + etas).min())
        case ReverseKLBall():
            # max over π of π·e - t(KL - r) - ν(Σπ - 1), at the ν that normalises its maximiser π = t p/(ν - e)
            low, high = e.max(), e.max() + t + 1.0
            for _ in range(200):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if (t * p / (middle - e)).sum() > 1 else (low, middle)
            nu = high
            return float(nu - t + t * r - t * (p @ np.log((nu - e) / t)))
        case _:
            raise AssertionError


@pytest.mark.parametrize("name", ["kl", "reverse-kl"])
@given(case=cases())
def test_no_duality_gap(name: str, case: Case) -> None:
    uncertainty_set = make(name, case)
    worst = uncertainty_set.worst_case(case.risks, case.reference)
    inside = case.risks[case.reference > 0]
    span = np.ptp(inside)
    if span == 0:
        assert worst.multiplier == 0
        return
    scaled = np.where(case.reference > 0, (case.risks - inside.max()) / span, -1.0)
    value = float(worst.distribution @ scaled)
    multiplier = float(worst.multiplier) / span
    if multiplier < 1e-6:
        assert value >= -1e-5
        return
    bound = _dual(uncertainty_set, scaled, case.reference, multiplier, case.radius)
    assert value == pytest.approx(bound, abs=VALUE)


@given(case=cases())
def test_chi_square_lies_below_every_dual_value(case: Case) -> None:
    inside = case.risks[case.reference > 0]
    scaled = (case.risks - inside.min()) / (np.ptp(inside) or 1.0)
    scaled = np.where(case.reference > 0, scaled, 0.0)
    value = ChiSquareBall(case.radius).worst_case(scaled, case.reference).value
    assert value <= _dual(ChiSquareBall(1.0), scaled, case.reference, 0.0, case.radius) + VALUE


@given(case=cases(full_support=True), level=st.floats(0.01, 0.99))
def test_gibbs_identity(case: Case, level: float) -> None:
    """`(1/s) log Σ p exp(s·e)` is the penalised maximum, and the tilt of the ball attains it at `s = 1/multiplier`."""
    if np.ptp(case.risks) < 1e-6:
        return
    p, e = case.reference, case.risks / np.ptp(case.risks)
    worst = KLBall(level * -np.log(p[e == e.max()].sum())).worst_case(e, p)
    t = float(worst.multiplier)
    pi = worst.distribution
    kl = float((pi * np.log(np.where(pi > 0, pi, 1.0) / p)).sum())
    soft_maximum = e.max() + t * np.log(p @ np.exp((e - e.max()) / t))
    assert worst.value - t * kl == pytest.approx(soft_maximum, abs=1e-9)
