"""Running estimates against the estimators, loops by hand and finite differences; the contract of every method."""

from __future__ import annotations

import json

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.monitor import TRACKERS, Batch, TrackerOptions, make_source
from advshift.monitor.memory import pack, unpack
from advshift.monitor.trackers.gradient import FLOOR, Risk, project
from advshift.priors import BBSE, EM, Auto, PriorEstimator

from .conftest import SHIFTED, World


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("size", [8, 400])
def test_window_is_the_estimator_on_its_examples(world: World, hard: bool, size: int) -> None:
    source = world.source(hard=hard)
    tracker = TRACKERS["window"](source, TrackerOptions(window=size))
    batch = world.batch(1, SHIFTED, 700, hard=hard)
    found = tracker.estimate(tracker.update(tracker.update(tracker.start(), batch.part(0, 300)), batch.part(300, 700)))
    rows = np.eye(3)[source.predicted] if hard else source.rows
    last = np.eye(3)[batch.predicted[-size:]] if hard else batch.rows[-size:]
    expected = BBSE(predictions="hard" if hard else "soft").fit(rows, source.labels).estimate(last)
    assert found.prior == pytest.approx(expected.prior, abs=1e-9)
    assert found.covariance == pytest.approx(expected.covariance, abs=1e-9)
    moves = np.random.default_rng(0).normal(size=len(source.labels))
    assert found.source_influence(moves) == pytest.approx(expected.source_influence(moves), abs=1e-9)


@pytest.mark.parametrize(
    ("estimator", "calibration", "wanted"),
    [("em", "temperature", EM(calibration="temperature")), ("em", None, EM()), ("auto", None, Auto())],
)
def test_window_takes_any_estimator(
    world: World, estimator: str, calibration: str | None, wanted: PriorEstimator
) -> None:
    source, batch = world.source(), world.batch(1, SHIFTED, 300)
    tracker = TRACKERS["window"](source, TrackerOptions(window=200, estimator=estimator, calibration=calibration))
    found = tracker.estimate(tracker.update(tracker.start(), batch))
    expected = wanted.fit(source.rows, source.labels).estimate(batch.rows[-200:])
    assert found.prior == pytest.approx(expected.prior)


@pytest.mark.parametrize("name", ["exponential", "fth"])
def test_forgetting_is_that_of_a_loop(world: World, name: str) -> None:
    source, batch = world.source(), world.batch(2, SHIFTED, 250)
    tracker = TRACKERS[name](source, TrackerOptions(half_life=40.0))
    state = tracker.start()
    for begin in range(0, 250, 25):
        state = tracker.update(state, batch.part(begin, begin + 25))
    weights = [1.0 if name == "fth" else 0.5 ** ((249 - place) / 40.0) for place in range(250)]
    total = sum(weights)
    mean = sum(weight * row for weight, row in zip(weights, batch.rows, strict=True)) / total
    found = tracker.estimate(state)
    unclipped = np.linalg.solve(source.means, mean)
    assert unclipped.min() > 0
    assert found.prior == pytest.approx(unclipped)
    assert found.target_size == round(total**2 / sum(weight**2 for weight in weights))


def test_history_is_the_mean_of_single_estimates(world: World) -> None:
    source, batch = world.source(), world.batch(2, SHIFTED, 300)
    tracker = TRACKERS["fth"](source, TrackerOptions())
    single = [np.linalg.solve(source.means, row) for row in batch.rows]
    found = tracker.estimate(tracker.update(tracker.start(), batch))
    assert found.prior == pytest.approx(np.mean(single, axis=0))


@pytest.mark.parametrize("name", ["window", "exponential", "fth"])
@pytest.mark.parametrize("hard", [False, True])
def test_intervals_hold_the_truth(world: World, name: str, hard: bool) -> None:
    """Of 80 draws of source and stream, 95 % intervals hold each class's share about as often as they say."""
    held = []
    for seed in range(80):
        tracker = TRACKERS[name](world.source(seed, 600, hard=hard), TrackerOptions(window=400))
        found = tracker.estimate(tracker.update(tracker.start(), world.batch(5000 + seed, SHIFTED, 500, hard=hard)))
        held.append(np.abs(found.prior - SHIFTED) <= 1.96 * found.standard_errors)
    assert 0.9 <= np.mean(held) <= 0.985


@pytest.mark.parametrize("hard", [False, True])
def test_gradients_are_finite_differences(world: World, hard: bool) -> None:
    risk = Risk(world.source(hard=hard))
    prior, step = np.array([0.2, 0.5, 0.3]), 1e-6
    for column in range(3):
        move = step * np.eye(3)[column]
        slope = (risk.errors(prior + move) - risk.errors(prior - move)) / (2 * step)
        assert risk.gradients(prior)[column] == pytest.approx(slope, abs=1e-6)


def test_errors_are_those_of_the_corrected_model(world: World) -> None:
    source = world.source()
    prior = np.array([0.2, 0.5, 0.3])
    corrected = source.rows * (prior / source.training)
    corrected /= corrected.sum(axis=1, keepdims=True)
    expected = [1 - corrected[source.labels == k, k].mean() for k in range(3)]
    assert Risk(source).errors(prior) == pytest.approx(expected)


def test_published_step_and_descent(world: World) -> None:
    """Two rounds by hand, with the step `√(2/T)/G`; no gradient met is above `G`."""
    source, batch = world.source(), world.batch(3, SHIFTED, 200)
    tracker = TRACKERS["rogd"](source, TrackerOptions(horizon=50))
    risk, inverse = Risk(source), np.linalg.inv(source.means)
    largest = risk.largest_gradient(source)
    prior, state = project(source.training), tracker.start()
    for begin in (0, 100):
        state = tracker.close(tracker.update(state, batch.part(begin, begin + 100)))
        gradient = risk.gradients(prior) @ (inverse @ batch.rows[begin : begin + 100].mean(axis=0))
        assert np.linalg.norm(gradient) <= largest
        moved = prior - np.sqrt(2 / 50) / largest * gradient
        prior = project(moved)
    assert tracker.adapted(state) == pytest.approx(prior)


def test_self_tuned_steps_adapt(world: World) -> None:
    source = world.source()
    tracker = TRACKERS["rogd"](source, TrackerOptions())
    state = tracker.start()
    for seed in range(60):
        state = tracker.close(tracker.update(state, world.batch(seed, SHIFTED, 50)))
    risk = Risk(source)
    assert risk.errors(tracker.adapted(state)) @ SHIFTED < risk.errors(source.training) @ SHIFTED - 0.02


def test_ensemble_is_hedge_over_descents(world: World) -> None:
    source = world.source()
    tracker = TRACKERS["atlas"](source, TrackerOptions(horizon=40))
    risk, inverse = Risk(source), np.linalg.inv(source.means)
    count = 1 + int(np.ceil(0.5 * np.log2(1 + 80)))
    steps = np.sqrt(2 / 40) / risk.largest_gradient(source) * 2.0 ** np.arange(count)
    priors, losses, state = [project(source.training)] * count, np.zeros(count), tracker.start()
    for seed in range(5):
        batch = world.batch(seed, SHIFTED, 60)
        state = tracker.close(tracker.update(state, batch))
        estimate = inverse @ batch.rows.mean(axis=0)
        losses += [risk.errors(prior) @ estimate for prior in priors]
        priors = [
            project(prior - step * risk.gradients(prior) @ estimate) for prior, step in zip(priors, steps, strict=True)
        ]
    weights = np.exp(-2 * np.sqrt(np.log(count) / 40) * losses)
    assert tracker.adapted(state) == pytest.approx(weights @ np.array(priors) / weights.sum())


def test_projection_keeps_every_class() -> None:
    found = project(np.random.default_rng(0).normal(size=(50, 4)))
    assert found.min() >= FLOOR / 4 - 1e-12
    assert found.sum(axis=-1) == pytest.approx(1.0)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("name", list(TRACKERS))
def test_state_survives_text(world: World, name: str, hard: bool) -> None:
    tracker = TRACKERS[name](world.source(hard=hard), TrackerOptions(window=50))
    state = tracker.close(tracker.update(tracker.start(), world.batch(0, SHIFTED, 80, hard=hard)))
    again = unpack(json.loads(json.dumps(pack(state))))
    assert state.keys() == again.keys()
    for key, value in state.items():
        assert again[key].dtype == value.dtype
        np.testing.assert_array_equal(again[key], value)
    more = world.batch(1, SHIFTED, 30, hard=hard)
    ours, theirs = (tracker.estimate(tracker.close(tracker.update(one, more))) for one in (state, again))
    np.testing.assert_array_equal(ours.prior, theirs.prior)


@pytest.mark.parametrize("name", list(TRACKERS))
def test_too_few_examples_give_no_estimate(world: World, name: str) -> None:
    tracker = TRACKERS[name](world.source(), TrackerOptions())
    assert tracker.estimate(tracker.start()) is None
    assert tracker.estimate(tracker.update(tracker.start(), world.batch(0, SHIFTED, 1))) is None
    assert tracker.estimate(tracker.close(tracker.start())) is None


def test_what_cannot_be_told_apart_is_refused() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    source = make_source(["a", "b", "c"], np.eye(3)[[0, 0, 1, 1, 1, 0]], labels, hard=True)
    with pytest.raises(InputError, match="never predicts 'c'"):
        TRACKERS["window"](source, TrackerOptions())
    with pytest.raises(InputError, match="no labelled example of class 'c'"):
        make_source(["a", "b", "c"], np.eye(3)[[0, 1]], np.array([0, 1]))
    with pytest.raises(InputError, match="needs probabilities"):
        TRACKERS["window"](source, TrackerOptions(estimator="em"))


def test_batches_have_parts() -> None:
    batch = Batch(np.arange(4), None)
    assert batch.part(1, 3).predicted.tolist() == [1, 2]
