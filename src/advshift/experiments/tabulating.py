"""What the tables of the reproduction are made of: Markdown, and the rows that every group of runs has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from advshift.audit.intervals import class_sample, worst_case_intervals
from advshift.errors import InputError
from advshift.experiments.protocol import protocol
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of, seeds_of
from advshift.experiments.worst_case import Centre, Summary, curve, paired, summarise
from advshift.sets import KLBall

__all__ = [
    "COLUMNS",
    "Records",
    "debiased",
    "differences",
    "levels",
    "markdown",
    "measure_at",
    "methods_of",
    "percent",
    "points",
]

Records = Mapping[str, Record]
COLUMNS = (0.0, 0.5, 1.0, 3.0)


def debiased(run: Record, radius: float, split: str = "test") -> tuple[float, float, float]:
    """The de-biased worst case on the split and the ends of the interval that the audit shows."""
    sample = class_sample(run.counts(split).astype(float), run.errors(split).astype(float), binary=True)
    (point,) = worst_case_intervals(sample, run.reference, KLBall(np.array([radius])))
    known = (point.debiased, point.lower, point.upper)
    value, lower, upper = (np.nan if number is None else float(number) for number in known)
    return value, lower, upper


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows]) + "\n"


def percent(summary: Summary) -> str:
    """Mean and deviation in percent.

    >>> percent(summarise([0.10, 0.12])), percent(summarise([0.1]))
    ('11.0 ± 1.4', '10.0')
    """
    spread = "" if np.isnan(summary.deviation) else f" ± {100 * summary.deviation:.1f}"
    return f"{100 * summary.mean:.1f}{spread}"


def points(summary: Summary) -> str:
    """Mean and interval in points, with their signs.

    >>> points(summarise([-0.01]))
    '−1.0'
    """
    if np.isnan(summary.mean):
        return "unknown"
    text = f"{100 * summary.mean:+.1f}".replace("-", "−")
    if np.isnan(summary.lower):
        return text
    ends = f"{100 * summary.lower:+.1f} to {100 * summary.upper:+.1f}".replace("-", "−")
    return f"{text} ({ends})"


def measure_at(split: str, radius: float, centre: Centre = "training") -> Callable[[Record], float]:
    """What measures a run's worst case on a split."""
    return lambda run: float(curve(run, split, [radius], centre=centre)[0])


def methods_of(records: Records, group: str) -> list[str]:
    """The methods of a group that have a finished run, in the protocol's order; else as they were recorded."""
    planned = [run.method for run in protocol() if run.group == group]
    done = [str(r.about["method"]) for r in records.values() if r.about["group"] == group and r.finished]
    found = [method for method in dict.fromkeys(planned + done) if method in done]
    if not found:
        raise InputError(f"no finished run of the group {group!r} is recorded")
    return found


def levels(records: Records, group: str, split: str, centre: Centre = "training") -> str:
    """Worst-case errors of every method of a group."""
    head = ["method", "seeds", *(f"τ = {radius:g}" for radius in COLUMNS)]
    rows = []
    for method in methods_of(records, group):
        runs = [run for run in runs_of(records, group, method) if run.has(split)]
        curves = np.array([curve(run, split, COLUMNS, centre=centre) for run in runs])
        values = [percent(summarise(column)) for column in curves.T]
        rows.append([name_of(method), str(len(runs)), *values])
    return markdown(head, rows)


def differences(records: Records, group: str, base: str = "erm") -> str:
    """What every method of a group gains or loses against ERM, paired by seed."""
    head = [
        "method",
        *(f"test, τ = {r:g}" for r in (0.0, 1.0, 3.0)),
        "test, τ = 1, de-biased",
        "train, τ = 1",
        "train, τ = 3",
    ]
    zero = runs_of(records, group, base)
    measures = [
        measure_at("test", 0.0),
        measure_at("test", 1.0),
        measure_at("test", 3.0),
        lambda run: debiased(run, 1.0)[0],
    ]
    measures += [measure_at("train_full", 1.0), measure_at("train_full", 3.0)]
    before = [seeds_of(zero, measure) for measure in measures]
    rows = []
    for method in methods_of(records, group):
        if method != base:
            after = [seeds_of(runs_of(records, group, method), measure) for measure in measures]
            rows.append([name_of(method), *(points(paired(b, a)) for a, b in zip(before, after, strict=True))])
    return markdown(head, rows)
