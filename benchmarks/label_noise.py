"""What robust training does with wrong labels, and what clipping and dropping save.

    python benchmarks/label_noise.py run --seeds 8 --workers 2     # trains, writes docs/results/label_noise.json
    python benchmarks/label_noise.py table                         # the tables of docs/label-noise.md, from that file

Scikit-learn's digits, a small network, and training labels of which a share is wrong: evenly, or so that every wrong
label says 3 or 8. Tests are on right labels. All methods see the same split, noise, batches and first weights.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from advshift.losses import cross_entropy
from advshift.reductions import DORO, KL, ChiSquare, CVaR, Mean, Tilted
from advshift.sets import KLBall

RECORD = Path(__file__).parents[1] / "docs" / "results" / "label_noise.json"
NOISES = (("none", 0.0), ("even", 0.05), ("even", 0.2), ("onto 3 and 8", 0.05), ("onto 3 and 8", 0.2))
MEASURES = ("error", "robust", "worst", "share")
CLASSES, EPOCHS, BATCH, RADIUS = 10, 32, 128, 1.0
WARM_UP = 72  # steps: eight epochs of nine batches

Criterion = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def dropped(rate: float) -> float:
    """What DORO drops: the true share of wrong labels, or 5 % where there are none."""
    return rate or 0.05


class Late(nn.Module):
    """The mean for the first calls, a quarter of training, and then a reduction."""

    def __init__(self, reduction: nn.Module) -> None:
        super().__init__()
        self.reduction, self.calls = reduction, 0

    def forward(self, losses: Tensor) -> Tensor:
        """Reduce the losses of a batch."""
        self.calls += 1
        return losses.mean() if self.calls <= WARM_UP else self.reduction(losses)


REDUCTIONS: dict[str, Callable[[float], nn.Module]] = {
    "ERM": lambda rate: Mean(),
    "CVaR": lambda rate: CVaR(0.3),
    "CVaR, DORO": lambda rate: DORO(0.3, epsilon=dropped(rate)),
    "CVaR, DORO, late": lambda rate: Late(DORO(0.3, epsilon=dropped(rate))),
    "chi-square": lambda rate: ChiSquare(0.5),
    "chi-square, clip 2": lambda rate: ChiSquare(0.5, clip=2.0),
    "KL": lambda rate: KL(0.5, steps=8),
    "KL, DORO, late": lambda rate: Late(DORO(feared=KLBall(0.5), epsilon=dropped(rate), steps=8)),
    "TERM, t = 1": lambda rate: Tilted(1.0),
    "TERM, t = -1": lambda rate: Tilted(-1.0),
}
ADVERSARIES: dict[str, tuple[str, dict[str, float]]] = {
    "AdvShift, clip 2": ("advshift", {"radius": 0.1, "clip": 2.0}),
    "AdvShift, no clip": ("advshift", {"radius": 0.1, "clip": math.inf}),
    "exact, clip 2": ("exact", {"radius": 0.1, "clip": 2.0}),
    "exact, no clip": ("exact", {"radius": 0.1, "clip": math.inf}),
    "group DRO": ("group-dro", {}),
}
METHODS = (*REDUCTIONS, *(ADVERSARIES if find_spec("advshift.objective") else ()))


class Data(NamedTuple):
    """A split, and the training labels with their noise."""

    train: Tensor
    labels: Tensor
    wrong: Tensor
    test: Tensor
    truth: Tensor


def split(noise: str, rate: float, seed: int) -> Data:
    """Split the digits and spoil a share of the training labels."""
    images, digits = load_digits(return_X_y=True)
    parts = train_test_split(images / 16.0, digits, test_size=0.3, stratify=digits, random_state=seed)
    train, test, right, truth = (torch.from_numpy(part) for part in parts)
    rng = np.random.default_rng(seed)
    labels = right.clone()
    candidates = np.flatnonzero(~np.isin(right, (3, 8))) if noise == "onto 3 and 8" else np.arange(len(right))
    rows = torch.from_numpy(rng.choice(candidates, round(rate * len(right)), replace=False))
    if noise == "onto 3 and 8":
        labels[rows] = torch.from_numpy(rng.choice([3, 8], len(rows)))
    else:
        labels[rows] = (labels[rows] + torch.from_numpy(rng.integers(1, CLASSES, len(rows)))) % CLASSES
    return Data(train.float(), labels, labels != right, test.float(), truth)


def criterion(method: str, rate: float, counts: Tensor) -> Criterion:
    """A function from logits and labels to the scalar to minimise and the losses that it is made of."""
    if method in REDUCTIONS:
        reduction = REDUCTIONS[method](rate)

        def reduce(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            losses = cross_entropy(logits, labels)
            return reduction(losses), losses

        return reduce
    from advshift.objective import RobustObjective

    kept: list[Tensor] = []

    def remember(logits: Tensor, labels: Tensor) -> Tensor:
        kept[:] = [cross_entropy(logits, labels)]
        return kept[0]

    name, options = ADVERSARIES[method]
    objective = RobustObjective(name, class_counts=counts, loss=remember, **options)
    return lambda logits, labels: (objective(logits, labels), kept[0])


def fit(data: Data, criterion: Criterion, seed: int, epochs: int = EPOCHS) -> tuple[nn.Module, float]:
    """Train; also return the share of the learner's weight on wrong labels, over the last quarter."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    shares = []
    for epoch in range(epochs):
        for rows in torch.randperm(len(data.labels), generator=generator).split(BATCH)[:-1]:
            value, losses = criterion(model(data.train[rows]), data.labels[rows])
            if epoch >= 0.75 * epochs:
                (weights,) = torch.autograd.grad(value, losses, retain_graph=True)
                shares.append(float(weights[data.wrong[rows]].sum() / weights.sum()))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return model.eval(), float(np.mean(shares))


def measure(model: nn.Module, data: Data) -> dict[str, float]:
    """Errors on right labels: the mean, the worst case over a KL ball around even classes, and the worst class."""
    with torch.no_grad():
        missed = model(data.test).argmax(dim=1) != data.truth
    errors = [float(missed[data.truth == digit].double().mean()) for digit in range(CLASSES)]
    robust = KLBall(RADIUS).worst_case(errors, np.full(CLASSES, 1 / CLASSES)).value
    return {"error": float(missed.double().mean()), "robust": float(robust), "worst": max(errors)}


def one(job: tuple[str, str, float, int, int]) -> dict[str, float]:
    """Train and measure one model."""
    torch.set_num_threads(1)
    method, noise, rate, seed, epochs = job
    data = split(noise, rate, seed)
    made = criterion(method, rate, torch.bincount(data.labels, minlength=CLASSES))
    model, share = fit(data, made, seed, epochs)
    return measure(model, data) | {"share": share}


def record(seeds: int, workers: int, epochs: int = EPOCHS) -> Iterator[dict[str, object]]:
    """Train all methods on all noises, seed by seed; yield the record after each seed."""
    cells = list(product(NOISES, METHODS))
    results: list[dict[str, object]] = [
        {"noise": noise, "rate": rate, "method": method} | {name: [] for name in MEASURES}
        for (noise, rate), method in cells
    ]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for seed in range(seeds):
            jobs = [(method, noise, rate, seed, epochs) for (noise, rate), method in cells]
            for cell, run in zip(results, pool.map(one, jobs), strict=True):
                for name in MEASURES:
                    cell[name].append(round(run[name], 5))
            yield {"schema": 1, "seeds": seed + 1, "epochs": epochs, "radius": RADIUS, "results": results}


def interval(values: list[float]) -> str:
    """The mean in per cent and the half-width of its 95 % t interval over the seeds."""
    percent = 100.0 * np.asarray(values)
    half = stats.t.ppf(0.975, len(percent) - 1) * percent.std(ddof=1) / math.sqrt(len(percent))
    return f"{percent.mean():.1f} ± {half:.1f}"


def table(results: list[dict[str, object]], noise: str, rate: float) -> Iterator[str]:
    """The Markdown table of one kind and share of noise; the last columns are paired differences to ERM."""
    cells = {cell["method"]: cell for cell in results if (cell["noise"], cell["rate"]) == (noise, rate)}
    yield "| method | error | worst case, τ = 1 | less ERM's | weight on wrong labels |"
    yield "| --- | --- | --- | --- | --- |"
    for method, cell in cells.items():
        paired = [own - base for own, base in zip(cell["robust"], cells["ERM"]["robust"], strict=True)]
        less = "" if method == "ERM" else interval(paired)
        share = f"{100.0 * np.mean(cell['share']):.0f} %"
        yield f"| {method} | {interval(cell['error'])} | {interval(cell['robust'])} | {less} | {share} |"


def tables(saved: dict[str, object]) -> Iterator[str]:
    """All tables, with a line before each."""
    for noise, rate in NOISES:
        yield f"**{100 * rate:.0f} % wrong labels, {noise}**" if rate else "**No wrong labels**"
        yield "\n".join(table(saved["results"], noise, rate))


def main() -> None:
    """Run the study, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.what == "run":
        for saved in record(options.seeds, options.workers):
            RECORD.write_text(json.dumps(saved, ensure_ascii=False).replace('{"noise"', '\n{"noise"') + "\n")
    print("\n\n".join(tables(json.loads(RECORD.read_text()))))


if __name__ == "__main__":
    main()
