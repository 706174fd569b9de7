from __future__ import annotations

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.posthoc import confidence_ball, expected_performance
from advshift.priors import BBSE, EM
from advshift.sets import KLBall
from advshift.types import PriorEstimate

MEANS = np.random.default_rng(1).normal(size=(5, 4)) * 1.6
UNIFORM = np.full(5, 0.2)
DENSE, SPARSE = np.array([0.4, 0.25, 0.2, 0.1, 0.05]), np.array([0.7, 0.28, 0.02, 0.0, 0.0])


def _draw(generator, prior, size):
    labels = generator.choice(5, size, p=prior)
    labels[:5] = np.arange(5) if prior is UNIFORM else labels[:5]
    logits = (generator.normal(size=(size, 4)) + MEANS[labels]) @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True), labels


def _estimate(seed, prior, size, make):
    generator = np.random.default_rng(seed)
    source, labels = _draw(generator, UNIFORM, 800)
    target, truth = _draw(generator, prior, size)
    return make().fit(source, labels).estimate(target), (source, labels), (target, truth)


def _kl(first, second):
    held = first > 0
    return float((first[held] * np.log(first[held] / second[held])).sum())


DISTANCES = {
    "kl": _kl,
    "reverse-kl": lambda truth, centre: _kl(centre, truth),
    "chi2": lambda truth, centre: 0.5 * ((truth - centre) ** 2 / centre).sum(),
    "tv": lambda truth, centre: 0.5 * np.abs(truth - centre).sum(),
}


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("make", [EM, BBSE])
def test_ball_holds_the_truth_as_often_as_it_says(kind, make):
    held = []
    for seed in range(120):
        found, _, _ = _estimate(seed, DENSE, 300, make)
        ball = confidence_ball(found, set=kind, confidence=0.9, draws=500)
        held.append(DISTANCES[kind](DENSE, ball.centre) <= ball.radius)
    assert np.mean(held) >= 0.82


@pytest.mark.parametrize("kind", ["kl", "tv"])
def test_ball_holds_a_truth_that_lacks_classes(kind):
    held = [
        DISTANCES[kind](SPARSE, (ball := confidence_ball(found, set=kind)).centre) <= ball.radius
        for found in (_estimate(seed, SPARSE, 300, EM)[0] for seed in range(80))
    ]
    assert np.mean(held) >= 0.88


def test_bootstrap_and_normal_radius_agree():
    limit, *_ = _estimate(0, DENSE, 400, EM)
    replicated, *_ = _estimate(0, DENSE, 400, lambda: EM(covariance="bootstrap", replicates=150))
    first, second = (confidence_ball(found) for found in (limit, replicated))
    assert 0.8 * first.radius < second.radius < 2.0 * first.radius
    assert second.centre == pytest.approx(first.centre, abs=0.01)


def test_radius_falls_with_the_sample_and_grows_with_the_confidence():
    radii = [confidence_ball(_estimate(1, DENSE, size, EM)[0]).radius for size in (50, 200, 800, 3200)]
    assert np.all(np.diff(radii) < 0)
    found, *_ = _estimate(1, DENSE, 200, EM)
    assert confidence_ball(found, confidence=0.5).radius < confidence_ball(found, confidence=0.99).radius


def test_worst_case_is_the_sets_own():
    found, *_ = _estimate(2, DENSE, 200, EM)
    ball = confidence_ball(found)
    risks = np.array([0.1, 0.3, 0.2, 0.5, 0.4])
    assert ball.worst_case(risks).value == KLBall(ball.radius).worst_case(risks, ball.centre).value
    assert ball.worst_case(risks).value >= risks @ ball.centre


def test_expected_accuracy_covers_where_average_confidence_does_not():
    """Probabilities made too sure of themselves: their mean says nothing, the class accuracies still do."""
    covered, gaps, confident = [], [], []
    for seed in range(150):
        found, (source, labels), (target, truth) = _estimate(seed, DENSE, 400, lambda: BBSE(predictions="hard"))
        expected = expected_performance(found, source.argmax(axis=1) == labels, labels)
        accuracy = (target.argmax(axis=1) == truth).mean()
        sharp = target**3 / (target**3).sum(axis=1, keepdims=True)
        gaps.append(expected.value - accuracy)
        confident.append(sharp.max(axis=1).mean() - accuracy)
        covered.append(expected.low - 0.04 <= accuracy <= expected.high + 0.04)
        assert 0 <= expected.low <= expected.value <= expected.high <= 1
    assert np.mean(covered) >= 0.95
    assert abs(np.mean(gaps)) < 0.01 < 0.05 < abs(np.mean(confident))


def _certain(prior, covariance=None):
    prior = np.asarray(prior, dtype=float)
    return PriorEstimate(prior, np.full(len(prior), 1 / len(prior)), covariance, None, True, 1, 50, 50)


def test_performance_by_hand():
    values, labels = [1.0, 3.0, 2.0, 2.0, 5.0], [0, 0, 1, 1, 1]
    covariance = 0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = expected_performance(_certain([0.25, 0.75], covariance), values, labels, confidence=0.9)
    assert found.class_means.tolist() == [2.0, 3.0]
    assert found.value == 2.75
    assert found.standard_error == pytest.approx(0.1 + np.sqrt(0.25**2 * 2 / 2 + 0.75**2 * 3 / 3))
    assert found.high - found.value == pytest.approx(1.6448536 * found.standard_error)


def test_bad_input_is_refused():
    bare, sure = _certain([0.5, 0.5]), _certain([0.5, 0.5], np.zeros((2, 2)))
    with pytest.raises(InputError, match="neither replicates nor a covariance"):
        confidence_ball(bare)
    with pytest.raises(InputError, match="set must be a ball"):
        confidence_ball(sure, set="simplex")
    for confidence in (0.0, 1.0):
        with pytest.raises(InputError, match="confidence must lie"):
            confidence_ball(sure, confidence=confidence)
        with pytest.raises(InputError, match="confidence must lie"):
            expected_performance(sure, [0, 1], [0, 1], confidence=confidence)
    with pytest.raises(InputError, match="no covariance"):
        expected_performance(bare, [0, 1], [0, 1])
    with pytest.raises(InputError, match="one number per example"):
        expected_performance(sure, [0, 1, 1], [0, 1])
    with pytest.raises(InputError, match="every class from 0 to 1"):
        expected_performance(sure, [0, 1], [0, 0])
    with pytest.raises(InputError, match="expected a record of schema"):
        PriorEstimate.from_dict({"schema": "other"})
