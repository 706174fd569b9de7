"""From an estimate to a training objective: importance weights, and the worst case of the ball around the estimate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from advshift import RobustObjective
from advshift.errors import InputError
from advshift.posthoc import confidence_ball, correct_probabilities, importance_weights
from advshift.posthoc.around import ball_around
from advshift.priors import EM
from advshift.sets import SETS, KLBall
from advshift.types import PriorEstimate

COUNTS = np.array([60, 30, 10])
TARGET = np.array([0.2, 0.3, 0.5])


def _estimate(seed: int = 0, size: int = 400) -> PriorEstimate:
    generator = np.random.default_rng(seed)
    sides = []
    for prior, rows in ((COUNTS / COUNTS.sum(), 900), (TARGET, size)):
        labels = generator.choice(3, rows, p=prior)
        logits = generator.normal(size=(rows, 3)) + 2.0 * np.eye(3)[labels]
        odds = np.exp(2.0 * logits) * COUNTS
        sides += [odds / odds.sum(axis=1, keepdims=True), labels]
    return EM().fit(sides[0], sides[1]).estimate(sides[2])


def test_importance_weights_by_hand() -> None:
    estimate = _estimate()
    objective = RobustObjective(class_counts=COUNTS, **estimate.to_objective_options())
    logits, labels = torch.randn(8, 3, generator=torch.manual_seed(0)), torch.tensor([0, 0, 0, 1, 1, 2, 0, 1])
    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    weights = importance_weights(COUNTS / COUNTS.sum(), estimate.prior, labels.numpy())
    expected = float((torch.from_numpy(weights).float() * losses).mean())
    assert objective(logits.requires_grad_(), labels).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi2", "tv"])
def test_the_adversary_finds_the_balls_own_worst_case(name: str) -> None:
    ball = confidence_ball(_estimate(), set=name)
    losses = torch.tensor([0.2, 0.5, 1.5])
    objective = RobustObjective(
        class_counts=COUNTS,
        loss=lambda logits, labels: losses[labels] + 0.0 * logits.sum(),
        **ball.to_objective_options(),
    )
    logits = torch.zeros(300, 3, requires_grad=True)
    labels = torch.arange(300) % 3
    for _ in range(60):
        objective(logits, labels)
    wanted = ball.worst_case(losses.numpy().astype(np.float64)).distribution
    assert objective.distribution.numpy() == pytest.approx(wanted, abs=2e-3)


def test_a_model_trained_for_the_estimate_agrees_with_the_corrected_one() -> None:
    generator = np.random.default_rng(3)
    labels = generator.choice(3, 3000, p=COUNTS / 100)
    features = torch.from_numpy(generator.normal(size=(3000, 2)) + 1.5 * np.array([[0, 0], [1, 0], [0, 1]])[labels])
    plain, weighted = (torch.nn.Linear(2, 3).double() for _ in range(2))
    estimate = _estimate(size=4000)
    options = {"adversary": "erm"}, estimate.to_objective_options()
    for model, chosen in zip((plain, weighted), options, strict=True):
        objective = RobustObjective(class_counts=COUNTS, **chosen).eval()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

        def closure(model=model, objective=objective, optimizer=optimizer):
            optimizer.zero_grad()
            loss = objective(model(features), torch.from_numpy(labels))
            loss.backward()
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        before, after = (torch.softmax(model(features), dim=1).numpy() for model in (plain, weighted))
    corrected = correct_probabilities(before, COUNTS / 100, estimate.prior)
    assert np.mean(corrected.argmax(axis=1) == after.argmax(axis=1)) > 0.97
    assert np.mean(before.argmax(axis=1) == after.argmax(axis=1)) < 0.9


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi2", "tv"])
def test_moved_balls_ignore_the_reference(name: str) -> None:
    risks, centre = np.random.default_rng(1).random((4, 3)), np.array([0.2, 0.3, 0.5])
    plain = SETS[name](0.07)
    moved = ball_around(plain, centre)
    for reference in (np.array([0.6, 0.3, 0.1]), np.full(3, 1 / 3)):
        assert moved.worst_case(risks, reference).value == pytest.approx(plain.worst_case(risks, centre).value)
        assert moved.value(risks, reference) == pytest.approx(plain.value(risks, centre))
        goal = 0.5 * (risks @ centre + risks.max(axis=1))
        assert moved.breaking_point(risks, reference, goal) == pytest.approx(plain.breaking_point(risks, centre, goal))


def test_what_cannot_be_moved_is_refused() -> None:
    with pytest.raises(InputError, match="one number per class"):
        ball_around(ball_around(KLBall(0.1), [0.5, 0.5]), [[0.5, 0.5]])
    with pytest.raises(InputError, match="3 classes, the reference 2"):
        ball_around(KLBall(0.1), [0.2, 0.3, 0.5]).worst_case([1.0, 2.0], [0.5, 0.5])
    with pytest.raises(InputError, match="class that the reference lacks"):
        RobustObjective(
            class_counts=[5, 5, 0], adversary="exact", uncertainty=ball_around(KLBall(0.1), [0.2, 0.3, 0.5])
        )
    with pytest.raises(InputError, match="one number per class"):
        ball_around(KLBall(0.1), [[0.5, 0.5]])
