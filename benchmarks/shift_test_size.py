"""Does the test of label shift reject as often as it says, and are the predicted classes that it names the right ones?

    python benchmarks/shift_test_size.py [--draws 100] [--output docs/results/simulation-shift-test.json]

Classes are Gaussians with a known posterior. Under label shift alone every rejection and every class named are false:
counted are the draws with a p-value up to 5 %, those with some class p-value up to 5 %, and those in which a class is
named, which takes both. Then a fifth of the target becomes something new that the model takes for class 0: counted are
the draws that reject, and those in which class 0 is the clearest of the classes named.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from timing import environment, save

from advshift.priors import shift_test

LEVEL = 0.05


class Cell(NamedTuple):
    """Classes, how far they are apart, the sizes of both samples, and how many classes the target has."""

    classes: int
    distance: float
    source: int
    target: int
    present: int


CELLS = (
    Cell(3, 1.5, 300, 200, 3),
    Cell(10, 2.0, 900, 400, 10),
    Cell(10, 2.0, 900, 400, 3),
    Cell(10, 2.0, 300, 1000, 10),
    Cell(10, 2.0, 3000, 3000, 10),
)


def posteriors(generator: np.random.Generator, cell: Cell, labels: np.ndarray) -> np.ndarray:
    """Exact, under equal shares."""
    scores = generator.standard_normal((len(labels), cell.classes)) + cell.distance * np.eye(cell.classes)[labels]
    odds = np.exp(cell.distance * (scores - scores.max(axis=1, keepdims=True)))
    return odds / odds.sum(axis=1, keepdims=True)


def draw(seed: int, cell: Cell) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A labelled source, and a target with Dirichlet(1) shares of the classes that it has."""
    generator = np.random.default_rng([seed, *map(int, (cell.classes, cell.source, cell.target, cell.present))])
    labels = np.arange(cell.source) % cell.classes
    prior = np.zeros(cell.classes)
    prior[: cell.present] = generator.dirichlet(np.ones(cell.present))
    target = posteriors(generator, cell, generator.choice(cell.classes, cell.target, p=prior))
    return posteriors(generator, cell, labels), labels, target


def measure(cell: Cell, method: str, draws: int) -> dict[str, object]:
    """How often what happens."""
    counts = dict.fromkeys(("rejected", "some_class_p_value", "class_named", "seen", "rightly_named"), 0)
    for seed in range(draws):
        source, labels, target = draw(seed, cell)
        found = shift_test(source, labels, target, method=method, seed=seed)
        counts["rejected"] += found.p_value <= LEVEL
        counts["some_class_p_value"] += bool(found.class_p_values.min() <= LEVEL)
        counts["class_named"] += bool(found.deviating(LEVEL))
        new = target.copy()
        new[: cell.target // 5] = 0.6 / cell.classes + 0.4 * np.eye(cell.classes)[0]
        found = shift_test(source, labels, new, method=method, seed=seed)
        counts["seen"] += found.p_value <= LEVEL
        counts["rightly_named"] += found.deviating(LEVEL)[:1] == [0]
    return cell._asdict() | {"method": method, "draws": draws} | {name: n / draws for name, n in counts.items()}


def main() -> None:
    """Measure all cells, print them and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows = [
        measure(cell, method, arguments.draws * (4 if method == "chi-square" else 1))
        for method in ("chi-square", "bootstrap")
        for cell in CELLS
    ]
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=160).print(table)
    if arguments.output:
        save(arguments.output, {"level": LEVEL, "cells": rows, "environment": environment("numpy", "scipy")})


if __name__ == "__main__":
    main()
