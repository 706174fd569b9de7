r"""Estimators of the label distribution beside QuaPy, abstention and mlquantify: accuracy on the same draws, and speed.

    python benchmarks/priors.py accuracy --task digits --draws 150 --output docs/results/benchmark-priors-digits.json
    python benchmarks/priors.py accuracy --task reuters --data DIR --output docs/results/benchmark-priors-reuters.json
    python benchmarks/priors.py accuracy --task logits --data DIR --output docs/results/benchmark-priors-cifar100.json
    python benchmarks/priors.py accuracy --task simulated --output docs/results/benchmark-priors-simulated.json
    python benchmarks/priors.py accuracy --task simulated --draws 51 --sizes 500 \
        --only auto "quapy EMQ" "mlquantify EMQ" --output docs/results/benchmark-priors-simulated-few.json
    python benchmarks/priors.py speed --output docs/results/benchmark-priors-speed.json
    python benchmarks/priors.py moments --output docs/results/benchmark-priors-moments.json
    python benchmarks/priors.py figure

For `reuters`, `DIR` holds `reuters52.jsonl`, one `{"split", "y", "text"}` a line; for `logits`, `validation.npz` and
`test.npz`. A peer that is not installed is left out. Accuracy is the L1 distance to the label frequencies that were
drawn; each draw is one labelled source and one label distribution, and every method sees the same probabilities. The
excess is ours less the best peer's (the one with the smallest mean on these very draws), in units of the peer's mean;
its limit is one-sided, at 95 %. Speed is the time until the log-likelihood is within 1e-8 (relative) of its maximum:
the peer's own iteration runs for as many steps as its formula needs to get there, ours is timed at the pass that gets
there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prior_figure import draw_records, table
from prior_peers import Estimate, peers
from prior_speed import moments, speed
from prior_tasks import FIRST_SEED, TASKS, Draw, Task, draws_of
from rich.console import Console
from rich.table import Table
from timing import environment, save

from advshift.priors import BBSE, EM, MAPLS, RLLS, Auto, KernelMeanMatching, KLMatching, PriorEstimator

RECOMMENDED = "auto"
MOST_CLASSES = 200  # up to which all of them are run
WITH_MANY = ("auto", "em", "em-counted")
OURS: dict[str, Callable[[], PriorEstimator]] = {
    RECOMMENDED: lambda: Auto(covariance="none"),
    "em": lambda: EM(covariance="none"),
    "em-counted": lambda: EM(source_prior="counted", covariance="none"),
    "em-bcts": lambda: EM(calibration="bcts", covariance="none"),
    "mapls-bcts": lambda: MAPLS(calibration="bcts", covariance="none"),
    "bbse-soft": lambda: BBSE(unidentified="source", covariance="none"),
    "bbse-hard": lambda: BBSE(predictions="hard", unidentified="source", covariance="none"),
    "rlls": lambda: RLLS(covariance="none"),
    "kl-matching": lambda: KLMatching(covariance="none"),
    "kmm": lambda: KernelMeanMatching(features=500, covariance="none"),
}
LIMIT = 1.645  # of a one-sided 95 % interval


def ours(source: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], Estimate]]:
    """Our estimators; calling one fits it."""

    def fitted(make: Callable[[], PriorEstimator]) -> Estimate:
        estimator = make().fit(source, labels)
        return lambda target: estimator.estimate(target).prior

    chosen = OURS if source.shape[1] <= MOST_CLASSES else WITH_MANY
    return {name: lambda name=name: fitted(OURS[name]) for name in chosen}


class Run(NamedTuple):
    """One draw: per method the CPU seconds of fitting, per size and method the error and the seconds of estimating."""

    fitting: dict[str, float]
    estimating: dict[int, dict[str, float]]
    errors: dict[int, dict[str, float]]
    failed: set[str]


def run_draw(task: Task, only: list[str] | None, number: int) -> Run:
    """Run every method on one draw, or only those named; a peer that raises is named."""
    drawn = draws_of(task, number)
    found = Run({}, {size: {} for size in task.sizes}, {size: {} for size in task.sizes}, set())
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        for name, fit in (ours(drawn.source, drawn.labels) | peers(drawn.source, drawn.labels)).items():
            if only and name not in only:
                continue
            try:
                _run_method(found, drawn, name, fit)
            except Exception:
                if name in OURS:
                    raise
                found.failed.add(name)
    return found


def _run_method(run: Run, drawn: Draw, name: str, fit: Callable[[], Estimate]) -> None:
    begin = time.process_time()
    estimate = fit()
    run.fitting[name] = time.process_time() - begin
    for size, (target, truth) in drawn.targets.items():
        begin = time.process_time()
        found = estimate(target)
        run.estimating[size][name] = time.process_time() - begin
        run.errors[size][name] = float(np.abs(found - truth).sum())


def summary(runs: list[Run], size: int) -> dict[str, object]:
    """Means, the best peer, and how far ours may exceed it; a peer counts that never failed."""
    names = set(runs[0].errors[size]) - set().union(*(run.failed for run in runs))
    errors = {name: np.array([run.errors[size][name] for run in runs]) for name in names}
    rivals = sorted(names - set(OURS))
    best = min(rivals, key=lambda name: errors[name].mean()) if rivals else None
    methods = {}
    for name, values in sorted(errors.items(), key=lambda item: (item[1].mean(), item[0])):
        entry = {"error": values.mean(), "error_sd": values.std(ddof=1)}
        entry["fit_seconds"] = np.median([run.fitting[name] for run in runs])
        entry["estimate_seconds"] = np.median([run.estimating[size][name] for run in runs])
        if best is not None and name in OURS:
            excess = (values - errors[best]) / errors[best].mean()
            margin = LIMIT * excess.std(ddof=1) / np.sqrt(len(excess))
            entry |= {"excess": excess.mean(), "excess_upper_95": excess.mean() + margin}
        methods[name] = {"ours": name in OURS} | {key: float(value) for key, value in entry.items()}
    return {"target": size, "best_peer": best, "methods": methods}


def accuracy(asked: argparse.Namespace) -> dict[str, object]:
    """L1 errors of every method on the same draws."""
    name, draws = asked.task, asked.draws
    task = TASKS[name](asked.data)
    task = task._replace(sizes=tuple(asked.sizes or task.sizes))
    with ProcessPoolExecutor(asked.jobs) as pool:
        runs = list(pool.map(partial(run_draw, task, asked.only), range(draws)))
    return {
        "task": name,
        "draws": draws,
        "first_seed": FIRST_SEED,
        "classes": task.rows.shape[1],
        "source": task.held,
        "failed": sorted(set().union(*(run.failed for run in runs))),
        "cells": [summary(runs, size) for size in task.sizes],
    }


def _show_accuracy(record: dict, console: Console) -> None:
    for cell in record["cells"]:
        title = f"{record['task']}: {record['classes']} classes, {record['source']} labelled, target {cell['target']}"
        table = Table("method", "mean L1 error", "excess", "upper 95 %", "fit, s", "estimate, s", title=title)
        for name, entry in cell["methods"].items():
            limits = [f"{100 * entry[key]:+.1f} %" if key in entry else "" for key in ("excess", "excess_upper_95")]
            seconds = [f"{entry[key]:.3f}" for key in ("fit_seconds", "estimate_seconds")]
            table.add_row(name, f"{entry['error']:.4f}", *limits, *seconds)
        console.print(table)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["accuracy", "speed", "moments", "figure"])
    parser.add_argument("--task", choices=list(TASKS), default="digits")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="the methods to run, by their names")
    parser.add_argument("--sizes", type=int, nargs="+", help="rows of the targets, instead of the task's own")
    parser.add_argument("--size", type=int, default=50000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--distances", type=float, nargs="+", default=[3.0, 4.5], help="how far classes are apart")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def main() -> None:
    """Run one part, print it and save it."""
    arguments, console = _parsed(), Console()
    if arguments.part == "figure":
        draw_records(Path(__file__).parents[1] / "docs")
        print(table(Path(__file__).parents[1] / "docs"))
        return
    record: dict = {}
    if arguments.part == "accuracy":
        record = accuracy(arguments)
        _show_accuracy(record, console)
    elif arguments.part == "moments":
        record = {"size": arguments.size, "classes": arguments.classes}
        record["methods"] = moments(arguments.size, arguments.classes)
        console.print(*record["methods"], sep="\n")
    else:
        record = {"em": [speed(arguments.size, arguments.classes, far, arguments.turns) for far in arguments.distances]}
        for row in record["em"]:
            console.print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
    record["environment"] = environment("numpy", "scipy", *_installed())
    if arguments.output:
        save(arguments.output, record)


def _installed() -> list[str]:
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in ("quapy", "abstention", "mlquantify", "scikit-learn"):
        try:
            version(name)
        except PackageNotFoundError:
            continue
        found.append(name)
    return found


if __name__ == "__main__":
    main()
