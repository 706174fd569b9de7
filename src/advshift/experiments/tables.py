"""The tables of the reproduction, in Markdown, from recorded runs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from advshift.audit.intervals import class_sample, compare_worst_cases, worst_case_intervals
from advshift.audit.intervals.paired import Difference
from advshift.errors import InputError
from advshift.experiments.building import NotYetError, best_of
from advshift.experiments.figures.common import name_of, runs_of
from advshift.experiments.protocol import TUNING, Planned, protocol
from advshift.experiments.records import Record
from advshift.experiments.worst_case import Centre, Summary, curve, paired, summarise
from advshift.sets import KLBall

__all__ = ["TABLES", "debiased", "write_tables"]

Records = Mapping[str, Record]
COLUMNS = (0.0, 0.5, 1.0, 3.0)


def debiased(run: Record, radius: float, split: str = "test") -> tuple[float, float, float]:
    """The de-biased worst case on the split and the ends of the interval that the audit shows."""
    sample = class_sample(run.counts(split).astype(float), run.errors(split).astype(float), binary=True)
    (point,) = worst_case_intervals(sample, run.reference, KLBall(np.array([radius])))
    known = (point.debiased, point.lower, point.upper)
    value, lower, upper = (np.nan if number is None else float(number) for number in known)
    return value, lower, upper


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows]) + "\n"


def _percent(summary: Summary) -> str:
    spread = "" if np.isnan(summary.deviation) else f" ± {100 * summary.deviation:.1f}"
    return f"{100 * summary.mean:.1f}{spread}"


def _points(summary: Summary) -> str:
    if np.isnan(summary.mean):
        return "unknown"
    text = f"{100 * summary.mean:+.1f}".replace("-", "−")
    if np.isnan(summary.lower):
        return text
    ends = f"{100 * summary.lower:+.1f} to {100 * summary.upper:+.1f}".replace("-", "−")
    return f"{text} ({ends})"


def _of(runs: Sequence[Record], measure: Callable[[Record], float]) -> dict[int, float]:
    return {int(run.about["seed"]): measure(run) for run in runs}


def _at(split: str, radius: float, centre: Centre = "training") -> Callable[[Record], float]:
    return lambda run: float(curve(run, split, [radius], centre=centre)[0])


def _methods(records: Records, group: str) -> list[str]:
    """The methods of a group that have a finished run, in the protocol's order; else as they were recorded."""
    planned = [run.method for run in protocol() if run.group == group]
    done = [str(r.about["method"]) for r in records.values() if r.about["group"] == group and r.finished]
    found = [method for method in dict.fromkeys(planned + done) if method in done]
    if not found:
        raise InputError(f"no finished run of the group {group!r} is recorded")
    return found


def _levels(records: Records, group: str, split: str, centre: Centre = "training") -> str:
    """Worst-case errors of every method of a group."""
    head = ["method", "seeds", *(f"τ = {radius:g}" for radius in COLUMNS)]
    rows = []
    for method in _methods(records, group):
        runs = [run for run in runs_of(records, group, method) if run.has(split)]
        curves = np.array([curve(run, split, COLUMNS, centre=centre) for run in runs])
        values = [_percent(summarise(column)) for column in curves.T]
        rows.append([name_of(method), str(len(runs)), *values])
    return _markdown(head, rows)


def _differences(records: Records, group: str, base: str = "erm") -> str:
    """What every method of a group gains or loses against ERM, paired by seed."""
    head = [
        "method",
        *(f"test, τ = {r:g}" for r in (0.0, 1.0, 3.0)),
        "test, τ = 1, de-biased",
        "train, τ = 1",
        "train, τ = 3",
    ]
    zero = runs_of(records, group, base)
    measures = [_at("test", 0.0), _at("test", 1.0), _at("test", 3.0), lambda run: debiased(run, 1.0)[0]]
    measures += [_at("train_full", 1.0), _at("train_full", 3.0)]
    before = [_of(zero, measure) for measure in measures]
    rows = []
    for method in _methods(records, group):
        if method != base:
            after = [_of(runs_of(records, group, method), measure) for measure in measures]
            rows.append([name_of(method), *(_points(paired(b, a)) for a, b in zip(before, after, strict=True))])
    return _markdown(head, rows)


def _sample(records: Records) -> str:
    """What the test sample alone leaves open: the audit's interval of the first seed's run."""
    head = ["method (seed 0)", "plug-in, τ = 1", "de-biased", "95 % interval of the test sample"]
    rows = []
    for method in _methods(records, "main"):
        run = runs_of(records, "main", method)[0]
        value, lower, upper = debiased(run, 1.0)
        plug_in = f"{100 * _at('test', 1.0)(run):.1f}"
        rows.append([name_of(method), plug_in, f"{100 * value:.1f}", f"{100 * lower:.1f} to {100 * upper:.1f}"])
    return _markdown(head, rows)


def _paired_sample(records: Records, group: str) -> str:
    """What the test sample alone leaves open of a method's difference to ERM: seed 0, the same test examples."""
    head = ["method (seed 0)", "τ = 0", "95 % interval", "τ = 1", "95 % interval"]
    erm = runs_of(records, group, "erm")[0]
    ball = KLBall(np.array([0.0, 1.0]))
    rows = []
    for method in _methods(records, group):
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
    return _markdown(head, rows)


def _ends(point: Difference) -> tuple[str, str]:
    numbers = (point.difference, point.lower, point.upper)
    middle, lower, upper = ("unknown" if n is None else f"{100 * n:+.1f}".replace("-", "−") for n in numbers)
    return middle, f"{lower} to {upper}"


def _saddle(records: Records) -> str:
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
    return _markdown(head, rows)


def _words(run: Planned) -> str:
    """The numbers of a setting, in words."""
    numbers = {key.split(".")[-1]: value for key, value in run.setting.items() if not isinstance(value, str)}
    return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in numbers.items()) or "as in the recipe"


def _tuning(records: Records) -> str:
    """The settings that were tried, and which was chosen."""
    head = ["method", "setting", "tune, τ = 0", "tune, τ = 1", "chosen"]
    rows = []
    for method in TUNING:
        best = best_of(method, records.get)
        for run in protocol():
            record = records.get(run.key)
            if run.group != "tune" or run.method != method or record is None:
                continue
            radii = (0.0, 1.0) if record.finished else ()
            values = [f"{100 * _at('validation', radius)(record):.1f}" for radius in radii] or ["diverged", ""]
            rows.append([name_of(method), _words(run), *values, "yes" if run.key == best.key else ""])
    return _markdown(head, rows)


def _candidates(records: Records) -> str:
    """How our own candidates stand beside ERM on the tuning images: one run each."""
    head = ["candidate", *(f"tune, τ = {r:g}" for r in COLUMNS), "test, τ = 0", "test, τ = 1", "test, τ = 3"]
    rows = []
    for method in _methods(records, "candidates"):
        run = runs_of(records, "candidates", method)[0]
        values = [_at("validation", r)(run) for r in COLUMNS] + [_at("test", r)(run) for r in (0.0, 1.0, 3.0)]
        rows.append([name_of(method), *(f"{100 * value:.1f}" for value in values)])
    return _markdown(head, rows)


TABLES: dict[str, tuple[str, Callable[[Records], str]]] = {
    "main": ("Main comparison, test error in %: 20 epochs", lambda r: _levels(r, "main", "test")),
    "main-train": ("Main comparison, training error in %", lambda r: _levels(r, "main", "train_full")),
    "main-paired": (
        "Main comparison, points less than ERM, paired by seed, 95 % interval",
        lambda r: _differences(r, "main"),
    ),
    "sample": ("What the test sample leaves open, in %", _sample),
    "radii": ("All methods and radii, test error in %: 10 epochs", lambda r: _levels(r, "radii", "test")),
    "held-out": ("Methods that read held-out losses, test error in %", lambda r: _levels(r, "held-out", "test")),
    "long-tail-100": (
        "Long tail 100:1, around the training mix, test error in %",
        lambda r: _levels(r, "long-tail-100", "test"),
    ),
    "long-tail-100-uniform": (
        "Long tail 100:1, around the uniform mix, test error in %",
        lambda r: _levels(r, "long-tail-100", "test", "uniform"),
    ),
    "long-tail-10": (
        "Long tail 10:1, around the training mix, test error in %",
        lambda r: _levels(r, "long-tail-10", "test"),
    ),
    "long-tail-10-uniform": (
        "Long tail 10:1, around the uniform mix, test error in %",
        lambda r: _levels(r, "long-tail-10", "test", "uniform"),
    ),
    "lower-rate": (
        "What breaks at ERM's learning rate, at 0.1 instead: test error in %",
        lambda r: _levels(r, "lower-rate", "test"),
    ),
    "ablation": ("AdvShift, one factor at a time, test error in %", lambda r: _levels(r, "ablation", "test")),
    "plankton": ("Plankton, around the training mix, test error in %", lambda r: _levels(r, "plankton", "test")),
    "wide": ("A wide network, test error in %", lambda r: _levels(r, "wide", "test")),
    "wide-train": ("A wide network, training error in %", lambda r: _levels(r, "wide", "train_full")),
    "candidates": ("Our own candidates, in %: one run each", _candidates),
    "linear-digits": (
        "Linear models on long-tailed digits, around the training mix, test error in %",
        lambda r: _levels(r, "linear-digits", "test"),
    ),
    "linear-digits-paired": (
        "Linear models on long-tailed digits, points less than ERM, paired by seed, 95 % interval",
        lambda r: _differences(r, "linear-digits"),
    ),
    "linear-digits-sample": (
        "Linear models on long-tailed digits: what the test sample leaves open",
        lambda r: _paired_sample(r, "linear-digits"),
    ),
    "linear-reuters52": (
        "Linear models on Reuters-52, around the training mix, test error in %",
        lambda r: _levels(r, "linear-reuters52", "test"),
    ),
    "linear-reuters52-paired": (
        "Linear models on Reuters-52, points less than ERM, paired by seed, 95 % interval",
        lambda r: _differences(r, "linear-reuters52"),
    ),
    "linear-reuters52-sample": (
        "Linear models on Reuters-52: what the test sample leaves open",
        lambda r: _paired_sample(r, "linear-reuters52"),
    ),
    "saddle": ("The min-max problem of a linear model, solved exactly and by training", _saddle),
    "beyond": ("The chosen candidate, test error in %", lambda r: _levels(r, "beyond", "test")),
    "tuning": ("What was tuned, on the tuning images, in %: 5 epochs, one seed", _tuning),
}


def write_tables(records: Records) -> str:
    """All tables whose runs are recorded, under their titles."""
    return "\n".join(f"**{title}**\n\n{text}" for title, text in made_tables(records).values())


def made_tables(records: Records) -> dict[str, tuple[str, str]]:
    """Title and text of every table whose runs are recorded, by name."""
    made = {}
    for name, (title, make) in TABLES.items():
        try:
            made[name] = (title, make(records))
        except (InputError, NotYetError):
            continue
    return made
