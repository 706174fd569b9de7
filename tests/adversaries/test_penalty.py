"""The penalty that holds the ball, against the closed form, and the warm start of the exact worst case."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from advshift.adversaries import AdvShiftAdversary, ClassLosses, resting_divergence, tune_penalty
from advshift.errors import InputError
from advshift.sets import KLBall

LOSSES, P = np.array([0.1, 0.5, 2.0, 1.0]), np.array([0.5, 0.3, 0.1, 0.1])


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5])
def test_the_search_finds_the_multiplier(radius: float) -> None:
    """The tilt at rest has the rate `η(1+α)/α`, that on the ball's boundary `1/t`: so `α = ηt/(1-ηt)`."""
    multiplier = float(KLBall(radius).worst_case(LOSSES, P).multiplier)
    found = tune_penalty(LOSSES, P, radius, step_size=0.01)
    assert found.converged
    assert found.penalty == pytest.approx(0.01 * multiplier / (1 - 0.01 * multiplier), rel=2e-3)
    assert found.divergence <= radius


def test_the_penalty_is_exact_from_the_multiplier_on(no_shape_checks: None) -> None:
    """Proposition 1: the penalised maximiser is the constrained one just above the multiplier, not just below."""
    radius = 0.1
    multiplier = float(KLBall(radius).worst_case(LOSSES, P).multiplier)
    for factor, held in ((1.01, True), (0.99, False)):
        weight = factor * multiplier
        adversary = AdvShiftAdversary(
            radius, step_size=0.2, penalty=0.2 * weight, stabiliser=0.0, step="exact-prox", initial="reference"
        )
        reference = torch.from_numpy(P)
        losses = ClassLosses(torch.from_numpy(LOSSES) * reference, reference, torch.tensor(1.0).double())
        state = adversary.init(reference)
        for _ in range(400):
            state, _ = adversary.step(state, losses, reference)
        divergence = float((state.distribution * (state.log_distribution - reference.log())).sum())
        assert (divergence <= radius * (1 + 1e-6)) == held


def test_mirror_ascent_rests_where_it_is_said_to(no_shape_checks: None) -> None:
    adversary = AdvShiftAdversary(1e-9, penalty=0.02, stabiliser=0.0, initial="reference")
    reference = torch.from_numpy(P)
    losses = ClassLosses(torch.from_numpy(LOSSES) * reference, reference, torch.tensor(1.0).double())
    state = adversary.init(reference)
    for _ in range(2000):
        state, _ = adversary.step(state, losses, reference)
    divergence = float((state.distribution * (state.log_distribution - reference.log())).sum())
    assert divergence == pytest.approx(resting_divergence(0.02, LOSSES, P, step_size=0.01), rel=1e-3)


def test_a_trial_of_ones_own() -> None:
    found = tune_penalty(LOSSES, P, 0.1, trial=lambda penalty: 0.3 / penalty)
    assert found.penalty == pytest.approx(3.0, rel=2e-3)


def test_no_penalty_holds_the_ball() -> None:
    with pytest.raises(InputError, match="leaves the divergence above the radius"):
        tune_penalty(LOSSES, P, 0.1, trial=lambda penalty: 1.0)
    with pytest.raises(InputError, match="one finite number per class"):
        tune_penalty(LOSSES[:2], P, 0.1)


def test_a_warm_start_saves_steps() -> None:
    exact = KLBall(0.1).worst_case(LOSSES, P)
    near = float(exact.multiplier) * 1.001
    warm = KLBall(0.1).worst_case(LOSSES, P, steps=1, start=near)
    cold = KLBall(0.1).worst_case(LOSSES, P, steps=1)
    error, other = (float(np.abs(found.distribution - exact.distribution).max()) for found in (warm, cold))
    assert error < 0.1 * other
    for useless in (0.0, np.inf, np.nan, -1.0):
        with np.errstate(all="ignore"):
            same = KLBall(0.1).worst_case(LOSSES, P, steps=1, start=useless)
        np.testing.assert_array_equal(same.distribution, cold.distribution)
    with pytest.raises(InputError, match="pass steps= too"):
        KLBall(0.1).worst_case(LOSSES, P, start=1.0)
