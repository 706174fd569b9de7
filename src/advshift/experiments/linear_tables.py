"""Tables of the linear models: what their test samples leave open, and how near training comes to the optimum."""

from __future__ import annotations

import numpy as np

from advshift.audit.intervals import class_sample, compare_worst_cases
from advshift.audit.intervals.paired import Difference
from advshift.errors import InputError
from advshift.experiments.selection import name_of, runs_of
from advshift.experiments.tabulating import Records, markdown, methods_of
from advshift.sets import KLBall

__all__ = ["paired_sample", "saddle"]


def paired_sample(records: Records, group: str) -> str:
    """What the test sample alone leaves open of a method's difference to ERM: seed 0, the same test examples."""
    head = ["method (seed 0)", "τ = 0", "95 % interval", "τ = 1", "95 % interval"]
    erm = runs_of(records, group, "erm")[0]
    ball = KLBall(np.array([0.0, 1.0]))
    rows = []
    for method in methods_of(records, group):
        if method != "erm":
            run = runs_of(records, group, method)[0]
            first, second = (
                class_sample(one.counts("test").astype(float), one.errors("test").astype(float), binary=True)
                for one in (erm, run)
            )
            both = erm.arrays["test_mistakes"] & run.arrays["test_mistakes"]
            products = np.bincount(run.arrays["test_labels"][both], minlength=len(first.counts)).astype(float)
            found = compare_worst_cases(first, second, products, run.reference, ball)
            rows.append([name_of(method), *(text for point in found for text in _ends(point))])
    return markdown(head, rows)


def _ends(point: Difference) -> tuple[str, str]:
    numbers = (point.difference, point.lower, point.upper)
    middle, lower, upper = ("unknown" if n is None else f"{100 * n:+.1f}".replace("-", "−") for n in numbers)
    return middle, f"{lower} to {upper}"


def saddle(records: Records) -> str:
    """The objective that each adversary reaches, above a convex solver's, and bounds that hold whoever is right."""
    head = ["set", "r", "by", "objective", "above the solver's", "proved lower bound"]
    rows = []
    for record in records.values():
        for row in record.about["rows"] if record.about["group"] == "saddle" else ():
            gap = row["gap_percent"]
            rows.append(
                [
                    str(record.about["method"]).removeprefix("linear-"),
                    f"{row['radius']:g}",
                    row["name"],
                    f"{row['objective']:.5f}",
                    "not solved" if gap is None else f"{gap:.4f} %".replace("-", "−"),
                    f"{row['lower_bound']:.5f}",
                ]
            )
    if not rows:
        raise InputError("no min-max problem is recorded")
    return markdown(head, rows)
