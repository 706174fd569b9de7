"""The tables of the reproduction, in Markdown, from recorded runs alone."""

from __future__ import annotations

from collections.abc import Callable

from advshift.errors import InputError
from advshift.experiments.ablation import RADII_OF_FACTORS, ablated, factor_name, factors_of
from advshift.experiments.building import NotYetError, best_of
from advshift.experiments.claims import clock, fixed_targets, frequency, learning, radius_table, weights
from advshift.experiments.linear_tables import paired_sample, saddle
from advshift.experiments.protocol import TUNING, Planned, protocol
from advshift.experiments.selection import name_of, runs_of, seeds_of
from advshift.experiments.tabulating import (
    COLUMNS,
    Records,
    debiased,
    differences,
    levels,
    markdown,
    measure_at,
    methods_of,
    percent,
    points,
)
from advshift.experiments.worst_case import paired, summarise

__all__ = ["TABLES", "made_tables", "write_tables"]


def _sample(records: Records) -> str:
    """What the test sample alone leaves open: the audit's interval of the first seed's run."""
    head = ["method (seed 0)", "plug-in, τ = 1", "de-biased", "95 % interval of the test sample"]
    rows = []
    for method in methods_of(records, "main"):
        run = runs_of(records, "main", method)[0]
        value, lower, upper = debiased(run, 1.0)
        plug_in = f"{100 * measure_at('test', 1.0)(run):.1f}"
        rows.append([name_of(method), plug_in, f"{100 * value:.1f}", f"{100 * lower:.1f} to {100 * upper:.1f}"])
    return markdown(head, rows)


def _ablation(records: Records) -> str:
    """AdvShift with one factor changed, and what that alone does, paired by seed."""
    head = ["r", "factor", "seeds", "τ = 0", "τ = 1", "τ = 3", "τ = 1, points less than as it is"]
    rows = []
    for radius in RADII_OF_FACTORS:
        base = seeds_of(ablated(records, "plain", radius), measure_at("test", 1.0))
        for factor in ("plain", *factors_of(records, radius)):
            runs = ablated(records, factor, radius)
            values = [percent(summarise([measure_at("test", tau)(run) for run in runs])) for tau in (0.0, 1.0, 3.0)]
            change = points(paired(seeds_of(runs, measure_at("test", 1.0)), base)) if factor != "plain" else ""
            rows.append([f"{radius:g}", factor_name(factor), str(len(runs)), *values, change])
    if len(rows) == len(RADII_OF_FACTORS):
        raise InputError("no finished run of the group 'ablation' is recorded")
    return markdown(head, rows)


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
            values = [f"{100 * measure_at('validation', radius)(record):.1f}" for radius in radii] or ["diverged", ""]
            rows.append([name_of(method), _words(run), *values, "yes" if run.key == best.key else ""])
    return markdown(head, rows)


def _candidates(records: Records) -> str:
    """How our own candidates stand beside ERM on the tuning images: one run each."""
    head = ["candidate", *(f"tune, τ = {r:g}" for r in COLUMNS), "test, τ = 0", "test, τ = 1", "test, τ = 3"]
    rows = []
    for method in methods_of(records, "candidates"):
        run = runs_of(records, "candidates", method)[0]
        values = [measure_at("validation", r)(run) for r in COLUMNS] + [
            measure_at("test", r)(run) for r in (0.0, 1.0, 3.0)
        ]
        rows.append([name_of(method), *(f"{100 * value:.1f}" for value in values)])
    return markdown(head, rows)


def _fine_tuned(records: Records) -> str:
    """What five gentle epochs at the end do, plain or robust; less ERM of twenty epochs, paired by seed."""
    radii = (0.0, 1.0, 3.0)
    measures = [*(measure_at("test", r) for r in radii), lambda run: debiased(run, 1.0)[0]]
    columns = [*(f"test, τ = {r:g}" for r in radii), "test, τ = 1, de-biased"]
    head = ["last five epochs", "seeds", "tune, τ = 0", "tune, τ = 1", *columns]
    before = [seeds_of(runs_of(records, "post-hoc", "erm"), measure) for measure in measures]
    rows = []
    for method in methods_of(records, "fine-tune"):
        runs = runs_of(records, "fine-tune", method)
        tuned = [percent(summarise([measure_at("validation", r)(run) for run in runs])) for r in (0.0, 1.0)]
        changes = [points(paired(seeds_of(runs, m), base)) for m, base in zip(measures, before, strict=True)]
        rows.append([name_of(method), str(len(runs)), *tuned, *changes])
    return markdown(head, rows)


TABLES: dict[str, tuple[str, Callable[[Records], str]]] = {
    "main": ("Main comparison, test error in %: 20 epochs", lambda r: levels(r, "main", "test")),
    "main-train": ("Main comparison, training error in %", lambda r: levels(r, "main", "train_full")),
    "main-paired": (
        "Main comparison, points less than ERM, paired by seed, 95 % interval",
        lambda r: differences(r, "main"),
    ),
    "sample": ("What the test sample leaves open, in %", _sample),
    "radii": ("All methods and radii, test error in %: 10 epochs", lambda r: levels(r, "radii", "test")),
    "held-out": ("Methods that read held-out losses, test error in %", lambda r: levels(r, "held-out", "test")),
    "long-tail-100": (
        "Long tail 100:1, around the training mix, test error in %",
        lambda r: levels(r, "long-tail-100", "test"),
    ),
    "long-tail-100-uniform": (
        "Long tail 100:1, around the uniform mix, test error in %",
        lambda r: levels(r, "long-tail-100", "test", "uniform"),
    ),
    "long-tail-10": (
        "Long tail 10:1, around the training mix, test error in %",
        lambda r: levels(r, "long-tail-10", "test"),
    ),
    "long-tail-10-uniform": (
        "Long tail 10:1, around the uniform mix, test error in %",
        lambda r: levels(r, "long-tail-10", "test", "uniform"),
    ),
    "lower-rate": (
        "What breaks at ERM's learning rate, at 0.1 instead: test error in %",
        lambda r: levels(r, "lower-rate", "test"),
    ),
    "radius": ("A trained radius and what it comes to, in %: 10 epochs", radius_table),
    "weights": ("How many times its own share a class counts", weights),
    "learning": ("Test error of ERM's hardest and easiest classes, in %", learning),
    "frequency": ("Frequency and error of the classes, ERM, seed 0", frequency),
    "clock": ("Clock time of a run", clock),
    "fixed": ("FIXED and the distribution that it trains on, test error in % and in points", fixed_targets),
    "ablation": ("AdvShift, one factor at a time, test error in %", _ablation),
    "plankton": ("Plankton, around the training mix, test error in %", lambda r: levels(r, "plankton", "test")),
    "wide": ("A wide network, test error in %", lambda r: levels(r, "wide", "test")),
    "wide-train": ("A wide network, training error in %", lambda r: levels(r, "wide", "train_full")),
    "candidates": ("Our own candidates, in %: one run each", _candidates),
    "linear-digits": (
        "Linear models on long-tailed digits, around the training mix, test error in %",
        lambda r: levels(r, "linear-digits", "test"),
    ),
    "linear-digits-paired": (
        "Linear models on long-tailed digits, points less than ERM, paired by seed, 95 % interval",
        lambda r: differences(r, "linear-digits"),
    ),
    "linear-digits-sample": (
        "Linear models on long-tailed digits: what the test sample leaves open",
        lambda r: paired_sample(r, "linear-digits"),
    ),
    "linear-reuters52": (
        "Linear models on Reuters-52, around the training mix, test error in %",
        lambda r: levels(r, "linear-reuters52", "test"),
    ),
    "linear-reuters52-paired": (
        "Linear models on Reuters-52, points less than ERM, paired by seed, 95 % interval",
        lambda r: differences(r, "linear-reuters52"),
    ),
    "linear-reuters52-sample": (
        "Linear models on Reuters-52: what the test sample leaves open",
        lambda r: paired_sample(r, "linear-reuters52"),
    ),
    "saddle": ("The min-max problem of a linear model, solved exactly and by training", saddle),
    "fine-tune": (
        "Five gentle epochs at the end: error in % on tuning images; on test images, points less than ERM of 20 epochs",
        _fine_tuned,
    ),
    "beyond": ("The chosen candidate, test error in %", lambda r: levels(r, "beyond", "test")),
    "tuning": ("What was tuned, on the tuning images, in %: 5 epochs, one seed", _tuning),
}


def write_tables(records: Records) -> str:
    """All tables whose runs are recorded, under their titles, each between comments by which a page can include it."""
    made = made_tables(records)
    return "\n".join(
        f"<!-- {name} -->\n\n**{title}**\n\n{text}\n<!-- end of {name} -->\n" for name, (title, text) in made.items()
    )


def made_tables(records: Records) -> dict[str, tuple[str, str]]:
    """Title and text of every table whose runs are recorded, by name."""
    made = {}
    for name, (title, make) in TABLES.items():
        try:
            made[name] = (title, make(records))
        except (InputError, NotYetError):
            continue
    return made
