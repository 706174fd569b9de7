"""Every method against a step loop written out by hand, in NumPy where that is possible."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from advshift import RobustObjective
from advshift.adversaries import AdvShiftAdversary, ClassLosses
from advshift.numerics.proximal import exact_proximal_step, mirror_step
from advshift.sets import FrequencyCap, KLBall

CLASSES, SIZE, STEPS = 4, 32, 6
COUNTS = np.array([50.0, 30.0, 15.0, 5.0])
P = COUNTS / COUNTS.sum()


def batches(seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        logits = 2 * torch.randn(SIZE, CLASSES, generator=generator)
        yield logits.requires_grad_(), torch.randint(0, CLASSES, (SIZE,), generator=generator)


def run(name: str, **options: Any) -> Any:
    """The losses and the distributions of the objective, as the hand-written loops are to find them."""
    objective = RobustObjective(name, class_counts=COUNTS, **options)
    for logits, labels in batches():
        before = objective.distribution.double().numpy().copy()
        loss = objective(logits, labels)
        losses = functional.cross_entropy(logits, labels, reduction="none").detach().double().numpy()
        yield before, loss.item(), losses, labels.numpy(), objective.distribution.double().numpy()


def importance(pi: Any, losses: Any, labels: Any) -> float:
    return sum(pi[y] / P[y] * loss for loss, y in zip(losses, labels, strict=True)) / SIZE


def gradient(losses: Any, labels: Any, clip: float) -> Any:
    g = np.zeros(CLASSES)
    for loss, y in zip(losses, labels, strict=True):
        g[y] += min(loss, clip) / (SIZE * P[y])
    return g


def means(losses: Any, labels: Any, clip: float = np.inf) -> Any:
    return np.array([np.minimum(losses[labels == y], clip).mean() for y in range(CLASSES)])


@pytest.mark.parametrize("initial", ["uniform", "reference"])
@pytest.mark.parametrize("towards", ["uniform", "reference"])
@pytest.mark.parametrize("radius", [0.0, 0.05, 10.0])
def test_advshift(initial: Any, towards: Any, radius: float) -> None:
    options = {"radius": radius, "step_size": 0.1, "stabiliser": 0.01, "penalty": 0.5, "clip": 1.5}
    found = run("advshift", initial=initial, stabilise_towards=towards, **options)
    uniform = np.full(CLASSES, 1 / CLASSES)
    pi = uniform if initial == "uniform" else P
    for before, loss, losses, labels, after in found:
        np.testing.assert_allclose(before, pi, rtol=1e-5)
        assert loss == pytest.approx(importance(pi, losses, labels), rel=1e-5)
        alpha = 0.0 if np.sum(pi * np.log(pi / P)) < radius else 0.5
        pi = (pi * P**alpha) ** (1 / (1 + alpha)) * np.exp(0.1 * gradient(losses, labels, 1.5))
        pi = 0.99 * pi / pi.sum() + 0.01 * (uniform if towards == "uniform" else P)
        np.testing.assert_allclose(after, pi, rtol=1e-5)


def test_advshifts_step_is_the_mirror_step() -> None:
    generator = torch.Generator().manual_seed(0)
    reference, pi = (torch.rand(9, generator=generator).double().softmax(0) for _ in range(2))
    losses = ClassLosses(
        torch.rand(9, generator=generator).double() * 8, torch.full((9,), 4.0).double(), reference.sum() * 36
    )
    for radius, alpha in ((1e-6, 0.7), (10.0, 0.0)):
        adversary = AdvShiftAdversary(radius, penalty=0.7, stabiliser=0.0)
        state = type(adversary.init(reference))(pi.log())
        moved = adversary.step(state, losses, reference)[0].log_distribution
        expected = mirror_step(pi.log(), reference.log(), losses.sums / (36 * reference), 0.01, alpha)
        torch.testing.assert_close(moved, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("radius", "scale", "alpha", "case"),
    [(0.5, 1.0, 0.4, "free"), (0.05, 1.0, 4.0, "boundary"), (0.001, 30.0, 0.4, "full")],
)
def test_the_exact_proximal_step_reaches_all_three_cases(radius: float, scale: float, alpha: float, case: str) -> None:
    options: dict[str, Any] = {"step_size": 0.5, "penalty": alpha, "stabiliser": 0.0}
    adversary = AdvShiftAdversary(radius, initial="reference", step="exact-prox", **options)
    reference = torch.from_numpy(P)
    losses = ClassLosses(
        scale * torch.tensor([1.0, 2.0, 3.0, 4.0]).double() * reference, 10 * reference, torch.tensor(1.0).double()
    )
    state, info = adversary.step(adversary.init(reference), losses, reference)
    expected = exact_proximal_step(np.log(P), np.log(P), scale * np.array([1.0, 2, 3, 4]), 0.25, 2 * alpha, radius)
    np.testing.assert_allclose(state.log_distribution, expected.log_weights, atol=1e-8)
    divergence = float((state.distribution * (state.log_distribution - reference.log())).sum())
    penalty = float(info.penalty)
    assert {"free": penalty == 0, "boundary": abs(divergence - radius) < 1e-8, "full": abs(penalty - alpha) < 1e-12}[
        case
    ]


def test_exact() -> None:
    m, weight = np.zeros(CLASSES), 0.0
    pi = P
    for before, loss, losses, labels, after in run("exact", radius=0.1, momentum=0.7):
        np.testing.assert_allclose(before, pi, rtol=1e-5)
        assert loss == pytest.approx(importance(pi, losses, labels), rel=1e-5)
        m, weight = 0.7 * m + 0.3 * means(losses, labels, 2.0), 0.7 * weight + 0.3
        pi = KLBall(0.1).worst_case(m / weight, P).distribution
        np.testing.assert_allclose(after, pi, rtol=1e-4)


def test_exact_keeps_the_balls_constraint_at_every_step() -> None:
    for _, _, _, _, after in run("exact", radius=0.1, momentum=0.0):
        assert np.sum(after * np.log(after / P)) <= 0.1 * (1 + 1e-4)


def test_exact_keeps_the_constraint_around_an_estimated_reference_too() -> None:
    objective = RobustObjective("exact", num_classes=CLASSES, radius=0.1)
    for logits, labels in batches():
        objective(logits, labels)
        pi, p = objective.distribution.double(), objective.reference.double()
        assert 0.09 < float((pi * (pi / p).log()).sum()) <= 0.1 * (1 + 1e-4)


@pytest.mark.parametrize("level", [0.5, [0.9, 0.8, 0.4, 0.3]])
def test_class_cvar(level: Any) -> None:
    m, weight, pi = np.zeros(CLASSES), 0.0, P
    for _, loss, losses, labels, after in run("class-cvar", level=level, momentum=0.7):
        assert loss == pytest.approx(importance(pi, losses, labels), rel=1e-5)
        m, weight = 0.7 * m + 0.3 * means(losses, labels), 0.7 * weight + 0.3
        pi = FrequencyCap(1 / np.asarray(level)).worst_case(m / weight, P).distribution
        np.testing.assert_allclose(after, pi, rtol=1e-4, atol=1e-6)
        assert bool(np.all(after <= P / np.asarray(level) + 1e-5))


def test_tilted_has_the_gradient_of_the_log_sum_exp() -> None:
    objective = RobustObjective("tilted", class_counts=COUNTS, rate=1.7)
    for logits, labels in batches():
        objective(logits, labels).backward()
        other = logits.detach().clone().requires_grad_()
        losses = functional.cross_entropy(other, labels, reduction="none")
        class_losses = torch.stack([losses[labels == y].mean() for y in range(CLASSES)])
        (torch.logsumexp(torch.from_numpy(np.log(P)).float() + 1.7 * class_losses, 0) / 1.7).backward()
        torch.testing.assert_close(logits.grad, other.grad, rtol=1e-5, atol=1e-8)


def test_tilted_leaves_out_the_classes_that_the_batch_lacks() -> None:
    objective = RobustObjective("tilted", class_counts=COUNTS, rate=1.0)
    logits, labels = torch.randn(6, CLASSES, requires_grad=True), torch.tensor([0, 0, 2, 2, 2, 0])
    loss = objective(logits, labels).item()
    losses = functional.cross_entropy(logits, labels, reduction="none")
    present = torch.stack([losses[labels == y].mean() for y in (0, 2)])
    weights = torch.softmax(torch.tensor(np.log(P[[0, 2]])).float() + present, 0)
    assert loss == pytest.approx((weights * present).sum().item(), rel=1e-5)


@pytest.mark.parametrize("initial", ["uniform", "reference"])
def test_agnostic(initial: Any) -> None:
    pi = np.full(CLASSES, 1 / CLASSES) if initial == "uniform" else P
    for before, loss, losses, labels, after in run("agnostic", step_size=0.05, initial=initial):
        np.testing.assert_allclose(before, pi, atol=1e-6)
        assert loss == pytest.approx(importance(pi, losses, labels), rel=1e-5)
        v = pi + 0.05 * gradient(losses, labels, np.inf)
        ordered = np.sort(v)[::-1]
        shifts = (np.cumsum(ordered) - 1) / np.arange(1, CLASSES + 1)
        pi = np.maximum(v - shifts[np.nonzero(ordered > shifts)[0].max()], 0)
        np.testing.assert_allclose(after, pi, atol=1e-6)


@pytest.mark.parametrize("adjustment", [0.0, 2.0])
def test_group_dro(adjustment: float) -> None:
    q = np.full(CLASSES, 1 / CLASSES)
    for before, loss, losses, labels, after in run("group-dro", step_size=0.05, adjustment=adjustment):
        np.testing.assert_allclose(before, q, rtol=1e-5)
        assert loss == pytest.approx(float(q @ means(losses, labels)), rel=1e-5)
        q = q * np.exp(0.05 * (means(losses, labels) + adjustment / np.sqrt(COUNTS)))
        q /= q.sum()
        np.testing.assert_allclose(after, q, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "target"),
    [
        ("erm", {}, P),
        ("balanced", {}, np.full(CLASSES, 0.25)),
        ("fixed", {"distribution": [0.1, 0.2, 0.3, 0.4]}, np.array([0.1, 0.2, 0.3, 0.4])),
    ],
)
def test_targets_that_do_not_move(name: str, options: Any, target: Any) -> None:
    for _, loss, losses, labels, after in run(name, **options):
        assert loss == pytest.approx(importance(target, losses, labels), rel=1e-5)
        np.testing.assert_allclose(after, target, rtol=1e-6)


def test_an_unknown_reference_is_used_before_it_is_updated() -> None:
    beta, p = 0.9, np.full(CLASSES, 0.25)
    objective = RobustObjective("balanced", num_classes=CLASSES, reference_momentum=beta)
    seen = [p]
    for logits, labels in batches():
        np.testing.assert_allclose(objective.reference, p, rtol=1e-5)
        loss = objective(logits, labels).item()
        losses = functional.cross_entropy(logits, labels, reduction="none").detach().numpy()
        assert loss == pytest.approx(float(np.mean(0.25 / p[labels.numpy()] * losses)), rel=1e-5)
        seen.append(np.bincount(labels.numpy(), minlength=CLASSES) / SIZE)
        rates = beta ** np.arange(len(seen))[::-1]
        p = sum(rate * shares for rate, shares in zip(rates, seen, strict=True)) / rates.sum()


@pytest.mark.parametrize("name", ["advshift", "exact"])
def test_a_delayed_start_trains_on_the_reference_first(name: str) -> None:
    options = {"radius": 0.1, "start_after": 0.5, "total_steps": STEPS}
    for number, (before, loss, losses, _, _) in enumerate(run(name, **options)):
        if number < STEPS // 2:
            np.testing.assert_allclose(before, P, rtol=1e-6)
            assert loss == pytest.approx(losses.mean(), rel=1e-5)
        elif number > STEPS // 2:
            assert np.abs(before - P).max() > 1e-3


def test_the_learners_loss_is_unbiased_over_all_minibatches() -> None:
    """Enumerate every minibatch of two of a tiny set: mean loss and adversary gradient are those of the whole set."""
    labels = torch.tensor([0, 0, 0, 1, 2])
    counts = torch.bincount(labels).numpy()
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    pi = np.array([0.2, 0.3, 0.5])
    losses = functional.cross_entropy(logits, labels, reduction="none").numpy()
    class_losses = np.array([losses[labels == y].mean() for y in range(3)])
    found, gradients = [], []
    for pair in itertools.product(range(5), repeat=2):
        objective = RobustObjective("fixed", class_counts=counts, distribution=pi, update="manual")
        found.append(objective(logits[list(pair)].requires_grad_(), labels[list(pair)]).item())
        gradients.append(objective.pending[:3].numpy() / 2 / (counts / 5))
    assert np.mean(found) == pytest.approx(float(pi @ class_losses), rel=1e-5)
    np.testing.assert_allclose(np.mean(gradients, axis=0), class_losses, rtol=1e-5)


def test_the_gradient_is_that_of_the_analytic_weighted_risk() -> None:
    """Finite differences of `Σ π_y ℓ̄_y`, over a data set whose shares are the reference."""
    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(20, 5, generator=generator).double(), torch.arange(20) % 3
    weights = torch.randn(5, 3, generator=generator).double().requires_grad_()
    pi = np.array([0.2, 0.3, 0.5])
    objective = RobustObjective("fixed", class_counts=torch.bincount(labels).numpy(), distribution=pi)

    def risk(parameters: torch.Tensor) -> float:
        losses = functional.cross_entropy(x @ parameters, labels, reduction="none")
        return float(sum(share * losses[labels == y].mean() for y, share in enumerate(pi)))

    objective(x @ weights, labels).backward()
    assert weights.grad is not None
    for index in itertools.product(range(5), range(3)):
        step = torch.zeros_like(weights)
        step[index] = 1e-5
        with torch.no_grad():
            slope = (risk(weights + step) - risk(weights - step)) / 2e-5
        assert float(weights.grad[index]) == pytest.approx(slope, rel=1e-5, abs=1e-8)
