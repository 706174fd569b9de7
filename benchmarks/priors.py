"""Estimators of the label distribution beside QuaPy and abstention: accuracy on the same draws, and speed at size.

    python benchmarks/priors.py accuracy --task digits --draws 50
    python benchmarks/priors.py accuracy --task reuters --data DIR
    python benchmarks/priors.py accuracy --task simulated
    python benchmarks/priors.py speed
    python benchmarks/priors.py moments

`DIR` holds `reuters52.jsonl`, one `{"split", "y", "text"}` a line. A peer that is not installed is left out. Accuracy
is the L1 distance to the label frequencies that were drawn; each draw is one label distribution, and every method sees
the same probabilities. The excess is ours less the best peer's, in units of the peer's mean. Speed is the time until
the log-likelihood is within 1e-8 (relative) of its maximum: the peer's own iteration runs for as many steps as its
formula needs to get there, ours is timed at the pass that gets there.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from timing import environment, save

from advshift.priors import BBSE, EM, MAPLS, RLLS, KLMatching
from advshift.priors.mixture import Mixture, maximise_mixture

Estimate = Callable[[np.ndarray], np.ndarray]
SIZES = {"digits": (900, [100, 900]), "reuters": (1500, [200, 2000]), "simulated": (10000, [2000])}
OURS = {
    "em": lambda: EM(covariance="none"),
    "em-counted": lambda: EM(source_prior="counted", covariance="none"),
    "em-bcts": lambda: EM(calibration="bcts", covariance="none"),
    "mapls-bcts": lambda: MAPLS(calibration="bcts", covariance="none"),
    "bbse-soft": lambda: BBSE(unidentified="source", covariance="none"),
    "bbse-hard": lambda: BBSE(predictions="hard", unidentified="source", covariance="none"),
    "rlls": lambda: RLLS(covariance="none"),
    "kl-matching": lambda: KLMatching(covariance="none"),
}


def digits(_: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Cross-validated probabilities of a logistic regression on noisy digits."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    images, labels = load_digits(return_X_y=True)
    noisy = images / 16.0 + np.random.default_rng(0).normal(scale=0.4, size=images.shape)
    return cross_val_predict(LogisticRegression(max_iter=1000), noisy, labels, cv=3, method="predict_proba"), labels


def reuters(data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """TF-IDF and logistic regression on halves of Reuters-52; topics with fewer than 12 stories are left out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    if data is None:
        raise SystemExit("the task reuters needs --data DIR with reuters52.jsonl")
    rows = [json.loads(line) for line in (data / "reuters52.jsonl").read_text().splitlines()]
    _, labels = np.unique([row["y"] for row in rows], return_inverse=True)
    kept = np.bincount(labels)[labels] >= 12
    labels = np.unique(labels[kept], return_inverse=True)[1]
    texts = [row["text"] for row, keep in zip(rows, kept, strict=True) if keep]
    features = TfidfVectorizer(min_df=3, sublinear_tf=True).fit_transform(texts)
    model = LogisticRegression(C=20.0, max_iter=300)
    return cross_val_predict(model, features, labels, cv=2, method="predict_proba"), labels


def simulated(_: Path | None, classes: int = 1000, size: int = 30000) -> tuple[np.ndarray, np.ndarray]:
    """The exact posterior of a thousand classes with orthogonal means, 90 % right."""
    return gaussians(np.random.default_rng(0), np.full(classes, 1.0 / classes), size)


def gaussians(generator: np.random.Generator, prior: np.ndarray, size: int, distance: float = 4.5) -> tuple:
    """Probabilities under equal shares of classes `distance·√2` apart, and the labels."""
    labels = generator.choice(len(prior), size, p=prior)
    labels[: len(prior)] = np.arange(len(prior))
    logits = generator.standard_normal((size, len(prior)))
    logits[np.arange(size), labels] += distance
    logits *= distance
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits, labels


def peers(source: np.ndarray, labels: np.ndarray) -> dict[str, Estimate]:
    """What QuaPy and abstention offer for the same, on probabilities that are there already."""
    classes = source.shape[1]
    share = np.bincount(labels, minlength=classes) / len(labels)
    try:
        from abstention.calibration import TempScaling
        from quapy import functional
        from quapy.method.aggregative import ACC, EMQ, PACC
    except ImportError:
        return {}
    names = np.arange(classes)
    found: dict[str, Estimate] = {"quapy EMQ": lambda target: EMQ.EM(share, target)[0]}
    if classes <= 200:
        calibrate = TempScaling(bias_positions="all")(source, np.eye(classes)[labels], posterior_supplied=True)
        mean = calibrate(source).mean(axis=0)
        found["quapy EMQ-BCTS"] = lambda target: EMQ.EM(mean, calibrate(target))[0]
        soft = PACC.getPteCondEstim(names, labels, source)
        hard = ACC.getPteCondEstim(names, labels, source.argmax(axis=1))

        def adjusted(rates: np.ndarray, shares: np.ndarray) -> np.ndarray:
            estimate = ACC.solve_adjustment(rates, shares, method="inversion", solver="minimize")
            return functional.normalize_prevalence(estimate, method="clip")

        found["quapy PACC"] = lambda target: adjusted(soft, target.mean(axis=0))
        found["quapy ACC"] = lambda target: adjusted(
            hard, np.bincount(target.argmax(axis=1), minlength=classes) / len(target)
        )
    return found


def ours(source: np.ndarray, labels: np.ndarray) -> dict[str, Estimate]:
    """Our estimators; each call fits and estimates. Calibration is left out where there are many classes."""
    chosen = [name for name in OURS if source.shape[1] <= 200 or not name.endswith("bcts")]

    def estimate(name: str, target: np.ndarray) -> np.ndarray:
        return OURS[name]().fit(source, labels).estimate(target).prior

    return {name: partial(estimate, name) for name in chosen}


def accuracy(task: str, data: Path | None, draws: int) -> dict[str, object]:
    """L1 errors of every method on the same draws: Dirichlet, one class tweaked, half of the classes rare, in turn."""
    rows, labels = {"digits": digits, "reuters": reuters, "simulated": simulated}[task](data)
    held, sizes = SIZES[task]
    cells = []
    for size in sizes:
        errors: dict[str, list[float]] = {}
        seconds: dict[str, float] = {}
        for draw in range(draws):
            source, source_labels, target, truth = _split(rows, labels, held, size, draw)
            methods = peers(source, source_labels) | ours(source, source_labels)
            for name, method in methods.items():
                begin = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = method(target)
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin
                errors.setdefault(name, []).append(float(np.abs(found - truth).sum()))
        cells.append({"classes": rows.shape[1], "source": held, "target": size, **_summary(errors, seconds, draws)})
    return {"task": task, "draws": draws, "cells": cells}


def _split(rows: np.ndarray, labels: np.ndarray, held: int, size: int, draw: int) -> tuple:
    """A labelled source with every class in it, and a target drawn from the rest with new label frequencies."""
    generator = np.random.default_rng(draw)
    classes = rows.shape[1]
    order = generator.permutation(len(labels))
    first = np.unique(labels[order], return_index=True)[1]
    spread = np.concatenate([first, np.setdiff1d(np.arange(len(order)), first)])
    order = order[spread]
    source, rest = order[:held], order[held:]
    prior = _shift(generator, np.bincount(labels[rest], minlength=classes) / len(rest), draw)
    wanted = generator.multinomial(size, prior)
    groups = np.split(
        rest[np.argsort(labels[rest], kind="stable")], np.cumsum(np.bincount(labels[rest], minlength=classes))[:-1]
    )
    target = np.concatenate(
        [generator.choice(group, count) for group, count in zip(groups, wanted, strict=True) if count]
    )
    return rows[source], labels[source], rows[target], wanted / size


def _shift(generator: np.random.Generator, share: np.ndarray, draw: int) -> np.ndarray:
    classes = len(share)
    kind = draw % 3
    if kind == 0:
        prior = generator.dirichlet(np.ones(classes))
    elif kind == 1:
        chosen = int(generator.choice(np.flatnonzero(share)))
        prior = 0.6 * share + 0.4 * np.eye(classes)[chosen]
    else:
        prior = share * np.where(generator.random(classes) < 0.5, 0.1, 1.0)
    prior = prior * (share > 0)
    return prior / prior.sum()


def _summary(errors: dict[str, list[float]], seconds: dict[str, float], draws: int) -> dict[str, object]:
    """Means, and for each of ours the upper limit of the paired difference to the best peer, in its mean."""
    means = {name: float(np.mean(values)) for name, values in errors.items()}
    rivals = {name: mean for name, mean in means.items() if name not in OURS}
    best = min(rivals, key=lambda name: rivals[name]) if rivals else None
    methods = {}
    for name, values in errors.items():
        entry = {"error": means[name], "seconds": seconds[name] / draws, "ours": name in OURS}
        if best is not None and name in OURS:
            difference = np.array(values) - np.array(errors[best])
            limit = difference.mean() + 1.645 * difference.std(ddof=1) / np.sqrt(draws)
            entry["excess_upper_95"] = float(limit / means[best])
        methods[name] = entry
    return {"best_peer": best, "methods": methods}


class _Clocked(Mixture):
    """The same objective, with the value and the time of every pass."""

    def __init__(self, *arguments: np.ndarray) -> None:
        super().__init__(*arguments)
        self.trace: list[tuple[float, float]] = []
        self.begin = time.perf_counter()

    def evaluate(self, prior: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate, and write down when and what."""
        found = super().evaluate(prior)
        self.trace.append((time.perf_counter() - self.begin, found[0]))
        return found


def speed(size: int, classes: int, distance: float) -> dict[str, object]:
    """EM to a point near the maximum, BBSE and RLLS at the same size."""
    generator = np.random.default_rng(0)
    uniform = np.full(classes, 1.0 / classes)
    target, _ = gaussians(generator, generator.dirichlet(np.ones(classes)), size, distance)
    best = maximise_mixture(Mixture(target, uniform), uniform, tolerance=1e-11)
    goal = best.value - 1e-8 * abs(best.value)
    clocked = _Clocked(target, uniform)
    fit = maximise_mixture(clocked, uniform)
    whole = time.perf_counter() - clocked.begin
    ours = next(when for when, value in clocked.trace if value >= goal)
    record: dict[str, object] = {
        "size": size,
        "classes": classes,
        "distance": distance,
        "ours_to_goal": ours,
        "ours_to_certificate": whole,
        "passes": fit.iterations,
        "gap": fit.gap,
        **_quapy(target, uniform, goal),
    }
    del target, clocked
    return record


def _quapy(target: np.ndarray, uniform: np.ndarray, goal: float) -> dict[str, object]:
    """QuaPy's iteration until the goal and until its own stop; its iterations to the goal are counted beforehand."""
    try:
        from quapy.method.aggregative import EMQ
    except ImportError:
        return {}
    mixture, prior, steps = Mixture(target, uniform), uniform, 0
    while steps < 5000:
        value, gradient = mixture.evaluate(prior)
        if value >= goal:
            break
        prior = prior * gradient
        steps += 1
    begin = time.perf_counter()
    EMQ.EM(uniform, target)
    default = time.perf_counter() - begin
    timed = min(steps, 60)
    kept, EMQ.MAX_ITER = EMQ.MAX_ITER, timed
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        EMQ.EM(uniform, target, epsilon=-1.0)
    took = time.perf_counter() - begin
    EMQ.MAX_ITER = kept
    return {
        "quapy_default_stop": default,
        "quapy_steps_to_goal": steps,
        "quapy_steps_timed": timed,
        "quapy_to_goal": took * steps / timed,
    }


def moments(size: int, classes: int) -> list[dict[str, object]]:
    """Seconds and memory of BBSE and RLLS, fit and estimate together, without covariance."""
    generator = np.random.default_rng(1)
    source, labels = gaussians(generator, np.full(classes, 1.0 / classes), size)
    target, _ = gaussians(generator, generator.dirichlet(np.ones(classes)), size)
    found = []
    for name, make in (
        ("bbse-soft", lambda: BBSE(covariance="none")),
        ("bbse-hard", lambda: BBSE(predictions="hard", covariance="none")),
        ("rlls", lambda: RLLS(covariance="none")),
        ("bbse-soft with covariance", BBSE),
    ):
        begin = time.perf_counter()
        estimate = make().fit(source, labels).estimate(target)
        took = time.perf_counter() - begin
        tracemalloc.start()
        make().fit(source, labels).estimate(target)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        found.append({"method": name, "seconds": took, "extra_mib": peak, "converged": estimate.converged})
    return found


def _show_accuracy(record: dict, console: Console) -> None:
    for cell in record["cells"]:
        title = f"{record['task']}: {cell['classes']} classes, target {cell['target']}, best peer {cell['best_peer']}"
        table = Table("method", "mean L1 error", "excess, upper 95 %", "seconds", title=title)
        for name, entry in sorted(cell["methods"].items(), key=lambda item: item[1]["error"]):
            excess = f"{100 * entry['excess_upper_95']:+.1f} %" if "excess_upper_95" in entry else ""
            table.add_row(name, f"{entry['error']:.4f}", excess, f"{entry['seconds']:.3f}")
        console.print(table)


def main() -> None:
    """Run one part, print it and save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["accuracy", "speed", "moments"])
    parser.add_argument("--task", choices=list(SIZES), default="digits")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--size", type=int, default=50000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    console = Console()
    if arguments.part == "accuracy":
        record: dict = accuracy(arguments.task, arguments.data, arguments.draws)
        _show_accuracy(record, console)
    elif arguments.part == "moments":
        record = {"size": arguments.size, "classes": arguments.classes}
        record["methods"] = moments(arguments.size, arguments.classes)
        console.print(*record["methods"], sep="\n")
    else:
        runs = [speed(arguments.size, arguments.classes, distance) for distance in (3.0, 4.5)]
        record = {"em": runs}
        for row in runs:
            console.print({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()})
    record["environment"] = environment("numpy", "scipy")
    if arguments.output:
        save(arguments.output, record)


if __name__ == "__main__":
    main()
