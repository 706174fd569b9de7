"""How few rows of a target are too few for the intervals and the ball around an estimate? By simulation.

    python benchmarks/few_rows.py [--draws 25] [--output docs/results/simulation-few-rows.json]

Fifty classes with known posteriors, 30 labelled examples of each, a target with Dirichlet(1) shares. Counted are the
intervals (1.96 standard errors) that hold the true share, and the KL balls that hold the true mix, at 95 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from prior_tasks import gaussians
from rich.console import Console
from timing import environment, save

from advshift.posthoc import confidence_ball
from advshift.priors import Auto

CLASSES, LABELLED, DISTANCE = 50, 1500, 3.0
SIZES = (2, 10, 50, 100, 250, 1000)


def measure(size: int, draws: int) -> dict[str, float]:
    """Coverage with a target of this size."""
    shares, balls = [], []
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        prior = generator.dirichlet(np.ones(CLASSES))
        source, labels = gaussians(generator, np.full(CLASSES, 1.0 / CLASSES), LABELLED, DISTANCE)
        target = gaussians(generator, prior, size + CLASSES, DISTANCE)[0][CLASSES:]  # the first have fixed classes
        estimate = Auto().fit(source, labels).estimate(target)
        shares.append((np.abs(estimate.prior - prior) <= 1.96 * estimate.standard_errors).mean())
        ball = confidence_ball(estimate)
        balls.append(float(np.sum(prior * np.log(np.maximum(prior, 1e-300) / ball.centre))) <= ball.radius)
    return {"target": size, "intervals": float(np.mean(shares)), "balls": float(np.mean(balls))}


def main() -> None:
    """Measure all sizes, print and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    cells = [measure(size, arguments.draws) for size in SIZES]
    Console().print(*cells, sep="\n")
    if arguments.output:
        record = {"classes": CLASSES, "labelled": LABELLED, "draws": arguments.draws, "cells": cells}
        save(arguments.output, record | {"environment": environment("numpy", "scipy")})


if __name__ == "__main__":
    main()
