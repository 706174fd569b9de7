"""How often the intervals and regions of EM and of the recommended estimator hold the truth, by simulation.

    python benchmarks/prior_coverage.py --output docs/results/benchmark-priors-coverage.json

Classes are Gaussians with unit covariance around random means, so that the posterior is exact and the shift is nothing
but label shift. The source is balanced, or has a tail: its rarest class is twenty times rarer than its most frequent
one. An interval is ±1.96 standard errors of one class's share; a region is the 95 % ellipsoid of all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import chi2
from timing import environment, save

from advshift.priors import EM, Auto, PriorEstimate

# classes, dimensions of the points, scale of the means, rows of the target, rows of the source
CELLS = [(5, 4, 1.6, 400, 600), (5, 4, 1.6, 50, 600), (5, 4, 1.0, 200, 600), (20, 8, 1.3, 400, 2000)]
CELLS += [(20, 8, 1.0, 200, 1000)]
SHIFTS = ("dirichlet", "one class half", "tail, the same", "tail, made equal", "tail, reversed")


class World:
    """Classes around known means, and the posterior under the source's shares."""

    def __init__(self, classes: int, dimensions: int, scale: float) -> None:
        self.means = np.random.default_rng(1).normal(size=(classes, dimensions)) * scale

    def draw(
        self, generator: np.random.Generator, prior: np.ndarray, size: int, source: np.ndarray, *, every: bool = False
    ) -> tuple:
        """Probabilities and labels; with `every`, each class appears."""
        labels = generator.choice(len(prior), size, p=prior)
        if every:
            labels[: len(prior)] = np.arange(len(prior))
        points = generator.normal(size=(size, self.means.shape[1])) + self.means[labels]
        logits = points @ self.means.T - 0.5 * (self.means**2).sum(axis=1) + np.log(source)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True), labels


def mixes(shift: str, classes: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The label distributions of the source and of the target."""
    equal, tail = np.full(classes, 1.0 / classes), 20.0 ** (-np.arange(classes) / (classes - 1))
    tail /= tail.sum()
    if shift == "dirichlet":
        return equal, generator.dirichlet(np.ones(classes))
    if shift == "one class half":
        return equal, np.r_[0.5, np.full(classes - 1, 0.5 / (classes - 1))]
    return tail, {"tail, the same": tail, "tail, made equal": equal, "tail, reversed": tail[::-1]}[shift]


def cell(shape: tuple, shift: str, draws: int) -> Iterator[dict[str, object]]:
    """Coverage of each estimator in one cell."""
    classes, dimensions, scale, size, held = shape
    world = World(classes, dimensions, scale)
    estimators = {"em": EM(), "auto": Auto()}
    held_in: dict[str, list[tuple[float, bool, float]]] = {name: [] for name in estimators}
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        known, prior = mixes(shift, classes, generator)
        source, labels = world.draw(generator, known, held, known, every=True)
        target, _ = world.draw(generator, prior, size, known)
        for name, estimator in estimators.items():
            held_in[name].append(_covered(estimator.fit(source, labels).estimate(target), prior))
    for name, rows in held_in.items():
        intervals, regions, error = np.mean(rows, axis=0)
        yield {"classes": classes, "scale": scale, "target": size, "source": held, "shift": shift, "method": name} | {
            "intervals": float(intervals),
            "regions": float(regions),
            "error": float(error),
        }


def _covered(found: PriorEstimate, prior: np.ndarray) -> tuple[float, bool, float]:
    away = found.prior - prior
    inside = np.abs(away) < 1.96 * found.standard_errors
    distance = away @ np.linalg.pinv(found.covariance, rcond=1e-8) @ away
    return float(inside.mean()), bool(distance < chi2.ppf(0.95, len(prior) - 1)), float(np.abs(away).sum())


def main() -> None:
    """Run every cell, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=80)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    shifts = [(shape, shift) for shape in CELLS for shift in SHIFTS]
    rows = [row for shape, shift in shifts for row in cell(shape, shift, arguments.draws)]
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)
    if arguments.output:
        record = {"draws": arguments.draws, "rows": rows, "environment": environment("numpy", "scipy")}
        save(arguments.output, record)


if __name__ == "__main__":
    main()
