"""Tables that hold the paper's remarks to what was recorded: weights, pace of learning, gaps, frequency, time."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from advshift.errors import InputError
from advshift.experiments.figures.adversaries import reached
from advshift.experiments.protocol import RADII
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of, seeds_of
from advshift.experiments.tabulating import Records, markdown, measure_at, methods_of, percent
from advshift.experiments.worst_case import summarise

__all__ = ["clock", "fixed_targets", "frequency", "learning", "radius_table", "weights"]

EPOCHS = (1, 2, 5, 10, 15, 20)
MEASURES = (("test", 0.0), ("train_full", 1.0), ("test", 1.0))  # columns of the table of radii
EACH = 10  # how many classes count as the hardest, and as the easiest


def ends(records: Records) -> tuple[Int[np.ndarray, " hard"], Int[np.ndarray, " easy"]]:
    """The hardest and the easiest classes of ERM on the test images, over all seeds."""
    order = np.argsort(np.mean([run.risks("test") for run in runs_of(records, "main", "erm")], axis=0))
    return order[-EACH:], order[:EACH]


def weights(records: Records) -> str:
    """How many times their share the hardest and the easiest classes count, by epoch."""
    head = ["method", "classes", *(f"epoch {epoch}" for epoch in EPOCHS)]
    rows = []
    for method in methods_of(records, "main"):
        runs = runs_of(records, "main", method)
        mean = np.mean([run.arrays["distribution"] / run.reference for run in runs], axis=0)
        if len(mean) == 1:  # it never moved
            continue
        for name, classes in zip(("hardest 10", "easiest 10"), ends(records), strict=True):
            rows.append([name_of(method), name, *(f"{mean[epoch - 1][classes].mean():.2f}" for epoch in EPOCHS)])
    return markdown(head, rows)


def learning(records: Records) -> str:
    """Test error of the hardest and the easiest classes, by epoch."""
    head = ["method", "classes", *(f"epoch {epoch}" for epoch in EPOCHS)]
    rows = []
    for method in methods_of(records, "main"):
        runs = runs_of(records, "main", method)
        for name, classes in zip(("hardest 10", "easiest 10"), ends(records), strict=True):
            means = [[run.risks("test", epoch - 1)[classes].mean() for run in runs] for epoch in EPOCHS]
            rows.append([name_of(method), name, *(percent(summarise(values)) for values in means)])
    return markdown(head, rows)


def radius_table(records: Records) -> str:
    """What a trained radius comes to: the divergence reached, the worst cases, and how far training and test differ."""
    head = ["adversary", "r", "seeds", "KL reached", "test, τ = 0", "train, τ = 1", "test, τ = 1", "gap, τ = 1"]
    rows = []
    for kind in ("erm", "advshift", "exact"):
        for radius in RADII if kind != "erm" else (0.0,):
            method = f"{kind}-{radius:g}" if kind != "erm" else kind
            runs = runs_of(records, "radii", method)
            values = [[measure_at(split, tau)(run) for run in runs] for split, tau in MEASURES]
            gap = np.subtract(values[2], values[1])
            far = f"{np.mean([reached(run) for run in runs]):.3f}" if kind != "erm" else ""
            rows.append(
                [
                    name_of(kind),
                    f"{radius:g}" if kind != "erm" else "",
                    str(len(runs)),
                    far,
                    *(percent(summarise(column)) for column in [*values, gap]),
                ]
            )
    return markdown(head, rows)


def frequency(records: Records) -> str:
    """The rank correlation of a class's training images with its test error, and how the errors spread."""
    from scipy.stats import spearmanr

    head = ["training set", "method", "rank correlation of images and error", "deviation of the classes' errors"]
    rows = []
    for group, name in (("main", "balanced"), ("long-tail-10", "10:1"), ("long-tail-100", "100:1")):
        run = runs_of(records, group, "erm")[0]
        counts, risks = run.counts("train_full"), run.risks("test")
        found = "all equal" if np.ptp(counts) == 0 else f"{spearmanr(counts, risks).statistic:.2f}".replace("-", "−")
        rows.append([name, name_of("erm"), found, f"{100 * risks.std():.1f}"])
    return markdown(head, rows)


def fixed_targets(records: Records) -> str:
    """What FIXED does for the distribution that it trains on, and to the classes that ERM finds easy and hard."""
    head = [
        "group",
        "τ",
        "ERM, on its target",
        "FIXED, on its target",
        "easiest fifth, less ERM",
        "hardest fifth, less ERM",
    ]
    rows = []
    for run in records.values():
        fixed = run.about.get("fixed")
        if not fixed or not run.finished or str(fixed[0]) not in records:
            continue
        before, after = records[str(fixed[0])].risks("test"), run.risks("test")
        target = run.arrays["distribution"][-1].astype(float)
        order = np.argsort(before)
        some = len(order) // 5
        values = [
            target @ before,
            target @ after,
            *((after - before)[part].mean() for part in (order[:some], order[-some:])),
        ]
        texts = [f"{100 * value:.1f}" for value in values[:2]] + [
            f"{100 * value:+.1f}".replace("-", "−") for value in values[2:]
        ]
        rows.append([str(run.about["group"]), f"{float(fixed[1]):g}", *texts])
    if not rows:
        raise InputError("no finished run of FIXED is recorded")
    return markdown(head, rows)


def clock(records: Records) -> str:
    """Seconds of a run beside those of ERM's with the same seed, on the same kind of device."""
    head = ["group", "device", "method", "seeds", "seconds", "times ERM's, median (range)"]
    rows = []
    for group in ("main", "wide"):
        try:
            erm = runs_of(records, group, "erm")
        except InputError:
            continue
        for method in methods_of(records, group):
            runs = [run for run in runs_of(records, group, method) if _device(run) == _device(erm[0])]
            took, base = (seeds_of(some, lambda run: float(run.about["seconds"])) for some in (runs, erm))
            ratios = [took[seed] / base[seed] for seed in sorted(took.keys() & base.keys())]
            if ratios:
                text = f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                seconds = f"{np.median(list(took.values())):,.0f}"
                rows.append([group, _device(erm[0]), name_of(method), str(len(ratios)), seconds, text])
    if not rows:
        raise InputError("no finished run says how long it took")
    return markdown(head, rows)


def _device(run: Record) -> str:
    return str(run.about.get("device"))
