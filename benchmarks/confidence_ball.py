"""Does the ball around an estimate hold the truth as often as it says, and what is it worth? By simulation.

    python benchmarks/confidence_ball.py [--draws 300] [--output docs/results/simulation-confidence-ball.json]

Classes are Gaussians with a known posterior, so that label shift holds exactly. Three statements about the risk on the
target are compared: the risk at the estimate, the worst case of the ball around it, and the worst case of the KL ball
around the training distribution with the smallest radius that holds the truth, which nobody would know. A statement
holds where it is not below the true risk; its excess is how far above it lies. Last, the expected accuracy from the
estimate is compared with the average confidence of a model that is too sure of itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from timing import environment, save

from advshift.posthoc import confidence_ball, expected_performance
from advshift.priors import BBSE, EM, Auto, PriorEstimator, shift_test
from advshift.sets import KLBall

MEANS = np.random.default_rng(1).normal(size=(5, 4)) * 1.6
UNIFORM = np.full(5, 0.2)
TRUTHS = {"dense": np.array([0.4, 0.25, 0.2, 0.1, 0.05]), "sparse": np.array([0.7, 0.28, 0.02, 0.0, 0.0])}
RISKS = np.array([0.05, 0.10, 0.20, 0.35, 0.60])
MAKERS = {
    "auto": Auto,
    "em": EM,
    "em, bootstrap": lambda: EM(covariance="bootstrap", replicates=100),
    "bbse": BBSE,
}


def draw(generator: np.random.Generator, prior: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact posteriors under equal shares, and the labels."""
    labels = generator.choice(5, size, p=prior)
    if prior is UNIFORM:
        labels[:5] = np.arange(5)
    logits = (generator.normal(size=(size, 4)) + MEANS[labels]) @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True), labels


def divergence(first: np.ndarray, second: np.ndarray) -> float:
    """`KL(first ‖ second)`."""
    held = first > 0
    return float((first[held] * np.log(first[held] / second[held])).sum())


def cell(maker: str, truth: str, size: int, draws: int) -> dict[str, object]:
    """Coverage of the ball, and the three statements about the risk."""
    prior = TRUTHS[truth]
    risk = float(prior @ RISKS)
    training = float(KLBall(divergence(prior, UNIFORM)).worst_case(RISKS, UNIFORM).value)
    held, radii, plain, robust = [], [], [], []
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        source, labels = draw(generator, UNIFORM, 1000)
        estimator: PriorEstimator = MAKERS[maker]()
        estimate = estimator.fit(source, labels).estimate(draw(generator, prior, size)[0])
        ball = confidence_ball(estimate)
        held.append(divergence(prior, ball.centre) <= ball.radius)
        radii.append(ball.radius)
        plain.append(float(estimate.prior @ RISKS))
        robust.append(float(ball.worst_case(RISKS).value))
    return {
        "estimator": maker,
        "truth": truth,
        "target": size,
        "coverage": float(np.mean(held)),
        "radius": float(np.mean(radii)),
        "plain_holds": float(np.mean(np.array(plain) >= risk)),
        "ball_holds": float(np.mean(np.array(robust) >= risk)),
        "ball_excess": float(np.mean(robust) - risk),
        "training_ball_excess": training - risk,
    }


def without_labels(draws: int) -> dict[str, float]:
    """Accuracy on a shifted target: true, from class accuracies, and as the average of sharpened confidences."""
    true, expected, confidence, covered = [], [], [], []
    prior = np.array([0.05, 0.15, 0.5, 0.1, 0.2])
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        source, labels = draw(generator, UNIFORM, 1000)
        target, truth = draw(generator, prior, 500)
        estimate = BBSE(predictions="hard").fit(source, labels).estimate(target)
        found = expected_performance(estimate, source.argmax(axis=1) == labels, labels)
        sharp = target**1.5 / (target**1.5).sum(axis=1, keepdims=True)
        true.append(float((target.argmax(axis=1) == truth).mean()))
        expected.append(found.value)
        confidence.append(float(sharp.max(axis=1).mean()))
        covered.append((found.low, found.high))
    accuracy = float(np.mean(true))
    inside = [low <= accuracy <= high for low, high in covered]
    return {
        "accuracy": accuracy,
        "expected": float(np.mean(expected)),
        "average_confidence": float(np.mean(confidence)),
        "coverage": float(np.mean(inside)),
    }


def size_of_test(draws: int) -> dict[str, float]:
    """How often the test of label shift rejects at 5 % when it holds, by the chi-square limit."""
    rejected = {}
    for truth, prior in TRUTHS.items():
        count = 0
        for seed in range(draws):
            generator = np.random.default_rng(seed)
            source, labels = draw(generator, UNIFORM, 1000)
            target, _ = draw(generator, prior, 500)
            count += shift_test(source, labels, target, method="chi-square").p_value <= 0.05
        rejected[truth] = count / draws
    return rejected


def main() -> None:
    """Run all cells, print them and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    cells = [
        cell(maker, truth, size, arguments.draws if "bootstrap" not in maker else min(arguments.draws, 100))
        for truth in TRUTHS
        for size in (50, 200, 1000)
        for maker in MAKERS
    ]
    console = Console()
    table = Table(*cells[0])
    for row in cells:
        table.add_row(*[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()])
    console.print(table)
    record = {
        "draws": arguments.draws,
        "confidence": 0.95,
        "balls": cells,
        "without_labels": without_labels(arguments.draws),
        "size_of_shift_test_at_5_percent": size_of_test(arguments.draws),
        "environment": environment("numpy", "scipy"),
    }
    console.print(record["without_labels"], record["size_of_shift_test_at_5_percent"])
    if arguments.output:
        save(arguments.output, record)


if __name__ == "__main__":
    main()
