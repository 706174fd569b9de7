"""How often intervals for the worst case of the true class risks hold it, and how wide they are: a simulation study.

    python benchmarks/coverage.py --full        every cell; resumes from the results that are there
    python benchmarks/coverage.py --quick       a few cells, in seconds
    python benchmarks/coverage.py --full --seed 1 --output docs/results/coverage-fresh.jsonl     the same, drawn anew

A cell is a kind of values, a set, a number of classes, a design (examples by class and reference) and a distribution of
class risks. The risks are drawn once per cell, the samples `draws` times. One JSON object a cell is appended to the
results as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advshift.audit.intervals import (
    ClassSample,
    bootstrap_interval,
    class_sample,
    compare_worst_cases,
    debiased_chi_square,
    debiased_kl,
    delta_interval,
    dual_upper,
    union_upper,
)
from advshift.audit.intervals.debiased_kl import rate_grid
from advshift.audit.intervals.exponential import binary_terms
from advshift.sets import ChiSquareBall, KLBall

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "coverage.jsonl"
ERRORS = ("spread", "u-shaped", "near zero", "few terrible", "all equal", "half perfect")
DESIGNS = ("5", "20", "50", "500", "tail", "tail-uniform")
BOOTSTRAPPED = (1, 3)  # places of the radii at which the bootstrap is tried: it is slow


class Cell(NamedTuple):
    """What is simulated."""

    values: str
    set: str
    classes: int
    design: str
    errors: str

    @property
    def key(self) -> str:
        """The cell as a word."""
        return "/".join(map(str, self))


def cells(full: bool) -> Iterator[Cell]:
    """The study's cells; the short ones first."""
    if not full:
        yield from (Cell("errors", "kl", 100, design, errors) for design in ("20", "tail") for errors in ERRORS[:3])
        return
    for classes in (10, 100, 1000):
        yield from (Cell("errors", "kl", classes, design, errors) for design in DESIGNS for errors in ERRORS)
        some = ("5", "20", "50", "500", "tail-uniform") if classes < 1000 else ("5", "50", "tail-uniform")
        for values, kind in (("errors", "chi2"), ("bounded", "kl"), ("losses", "kl")):
            yield from (Cell(values, kind, classes, design, errors) for design in some for errors in ERRORS)
    for classes in (10, 100):
        yield from (Cell("pairs", "kl", classes, "50", errors) for errors in ERRORS[:3])


def class_risks(name: str, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the true risks of the classes."""
    spread = rng.beta(1.5, 4.0, classes)
    if name == "u-shaped":
        return rng.beta(0.4, 0.4, classes)
    if name == "near zero":
        return rng.beta(0.5, 20.0, classes)
    if name == "few terrible":
        risks = rng.beta(2.0, 30.0, classes)
        risks[rng.permutation(classes)[: max(1, classes // 50)]] = 0.9
        return risks
    if name == "all equal":
        return np.full(classes, 0.3)
    return np.where(rng.permutation(classes) < classes // 2, 0.0, spread) if name == "half perfect" else spread


def design(name: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples by class, and the reference."""
    if name.startswith("tail"):
        counts = np.round(np.geomspace(500, 5, classes))
        return counts, counts / counts.sum() if name == "tail" else np.full(classes, 1.0 / classes)
    return np.full(classes, float(name)), np.full(classes, 1.0 / classes)


def grid(cell: Cell) -> np.ndarray:
    """Radii from small to near the slack radius."""
    top = np.log(cell.classes) if cell.set == "kl" else 0.5 * (cell.classes - 1)
    return np.array([0.01, 0.1, 0.3, 1.0, max(0.6 * top, 1.2), 0.95 * top])


def draw(cell: Cell, risks: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> ClassSample:
    """Draw a sample's statistics."""
    if cell.values == "errors":
        return class_sample(counts, rng.binomial(counts.astype(int), risks), binary=True)
    sizes = counts.astype(int)
    means = np.repeat(risks, sizes)
    bounded = cell.values == "bounded"
    drawn = rng.beta(2.0 * means, 2.0 * (1.0 - means)) if bounded else rng.exponential(means)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sums, squares = np.add.reduceat(drawn, starts), np.add.reduceat(drawn**2, starts)
    return class_sample(counts, sums, squares, bounds=(0.0, 1.0) if bounded else None)


def simulate(cell: Cell, draws: int, bounds: int, replicates: int, seed: int) -> dict[str, Any]:
    """Run a cell; a seed other than 0 draws other class risks and other samples."""
    letters = [ord(letter) for letter in cell.key]
    rng = np.random.default_rng([*letters, seed] if seed else letters)
    counts, reference = design(cell.design, cell.classes)
    risks = class_risks(cell.errors, cell.classes, rng)
    risks = risks if cell.values in ("errors", "pairs") else np.clip(risks, 1e-3, 1.0 - 1e-3)
    radii = grid(cell)
    ball = KLBall(radii) if cell.set == "kl" else ChiSquareBall(radii)
    truth = ball.worst_case(risks, reference).value
    if cell.values == "pairs":
        return simulate_pairs(cell, risks, counts, reference, ball, draws, rng)
    samples = [draw(cell, risks, counts, rng) for _ in range(draws)]
    ours = debiased(cell, samples, reference, radii)
    plug_in = np.array([ball.value(sample.means, reference) for sample in samples])
    delta = np.array([delta_interval(sample, reference, ball) for sample in samples])
    some = radii[list(BOOTSTRAPPED)]
    boots = np.array(
        [
            bootstrap_interval(sample, reference, KLBall(some), replicates=200, generator=rng)
            for sample in samples[:replicates]
            if cell.set == "kl"
        ]
    )
    limits = {} if samples[0].bounds is None else upper_bounds(cell, samples[:bounds], reference, radii)
    rows = []
    for k, radius in enumerate(radii):
        row = {
            "radius": float(radius),
            "truth": float(truth[k]),
            "plug_in_bias": float((plug_in[:, k] - truth[k]).mean()),
        }
        row |= judged("debiased", ours[:, 1, k], ours[:, 2, k], truth[k])
        row |= judged("delta", delta[:, 0, k], delta[:, 1, k], truth[k])
        shown = np.isfinite(ours[:, 0, k])
        error = np.minimum(ours[shown, 0, k], plug_in[shown, k]) - truth[k]
        if shown.any():
            row |= {"debiased_bias": float(error.mean()), "debiased_rmse": float(np.sqrt((error**2).mean()))}
        if k in BOOTSTRAPPED and len(boots):
            place = BOOTSTRAPPED.index(k)
            row |= judged("bootstrap", boots[:, 0, place], boots[:, 1, place], truth[k])
        for name, values in limits.items():
            row[f"{name}_slack"] = float((values[:, k] - truth[k]).mean())
            row[f"{name}_coverage"] = float((values[:, k] >= truth[k] - 1e-12).mean())
        rows.append(row)
    return {"cell": cell._asdict(), "draws": draws, "bounds": bounds, "bootstraps": len(boots), "radii": rows}


def debiased(cell: Cell, samples: list[ClassSample], reference: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Our values and limits for each sample: an array of samples, (value, low, high), radii."""
    if cell.set == "chi2":
        return np.array([debiased_chi_square(sample, reference, radii)[0][:3] for sample in samples])
    if cell.values != "errors":
        return np.array([debiased_kl(sample, reference, radii)[0][:3] for sample in samples])
    pairs = np.array([np.stack([sample.counts, sample.sums], axis=1) for sample in samples])
    found, place = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    terms = binary_terms(found[:, 1], found[:, 0], rate_grid(float(radii.min())))
    place = place.reshape(len(samples), -1)
    return np.array(
        [
            debiased_kl(sample, reference, radii, terms=terms.take(index))[0][:3]
            for sample, index in zip(samples, place, strict=True)
        ]
    )


def upper_bounds(cell: Cell, samples: list[ClassSample], reference: np.ndarray, radii: np.ndarray) -> dict[str, Any]:
    """The guaranteed bounds of some samples: the union alone, the dual at half the level, and both combined."""
    ball = KLBall(radii) if cell.set == "kl" else ChiSquareBall(radii)
    union = np.array([union_upper(sample, reference, ball) for sample in samples])
    if cell.set != "kl":
        return {"union": union}
    dual = np.array([dual_upper(sample, reference, radii, level=0.025) for sample in samples])
    half = np.array([union_upper(sample, reference, ball, level=0.025) for sample in samples])
    return {"union": union, "dual": dual, "combined": np.minimum(half, dual)}


def simulate_pairs(
    cell: Cell, risks: np.ndarray, counts: np.ndarray, reference: np.ndarray, ball: KLBall, draws: int, rng: Any
) -> dict[str, Any]:
    """Two models whose errors go together: the second errs where the first does, mostly."""
    keeps, adds = 0.8, 0.05
    second = keeps * risks + adds * (1.0 - risks)
    truth = ball.worst_case(second, reference).value - ball.worst_case(risks, reference).value
    found = []
    for _ in range(draws):
        ones = rng.binomial(counts.astype(int), risks)
        both = rng.binomial(ones, keeps)
        others = both + rng.binomial(counts.astype(int) - ones, adds)
        samples = (class_sample(counts, ones, binary=True), class_sample(counts, others, binary=True))
        points = compare_worst_cases(*samples, both.astype(float), reference, ball)
        found.append([[point.difference, point.lower, point.upper] for point in points])
    values = np.array(found, dtype=float)
    rows = []
    for k, radius in enumerate(grid(cell)):
        row = {"radius": float(radius), "truth": float(truth[k])}
        row["debiased_bias"] = float((values[:, k, 0] - truth[k]).mean())
        rows.append(row | judged("debiased", values[:, k, 1], values[:, k, 2], truth[k]))
    return {"cell": cell._asdict(), "draws": draws, "bounds": 0, "bootstraps": 0, "radii": rows}


def judged(name: str, low: np.ndarray, high: np.ndarray, truth: float) -> dict[str, Any]:
    """How often an interval was shown, missed on either side when it was, and its mean half-width."""
    shown = np.isfinite(low) & np.isfinite(high)
    count = int(shown.sum())
    row: dict[str, Any] = {f"{name}_shown": count}
    if count:
        slack = 1e-9
        row[f"{name}_missed_low"] = int((truth < low[shown] - slack).sum())
        row[f"{name}_missed_high"] = int((truth > high[shown] + slack).sum())
        row[f"{name}_half"] = float(0.5 * (high - low)[shown].mean())
    return row


def main() -> None:
    """Run what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    scale = parser.add_mutually_exclusive_group(required=True)
    scale.add_argument("--quick", action="store_true")
    scale.add_argument("--full", action="store_true")
    parser.add_argument("--output", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    output = options.output or (RESULTS if options.full else Path("coverage-quick.jsonl"))
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = output.read_text().splitlines() if output.exists() else []
    done = {Cell(**json.loads(line)["cell"]).key for line in lines}
    todo = [cell for cell in cells(options.full) if cell.key not in done]
    begun = time.monotonic()
    for place, cell in enumerate(todo):
        large, pairs = cell.classes >= 1000, cell.values == "pairs"
        draws = (60 if pairs else 100 if large else 300) if options.full else 50
        result = simulate(cell, draws, bounds=4 if large else 10, replicates=10 if large else 40, seed=options.seed)
        with output.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{place + 1}/{len(todo)} {cell.key} after {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
