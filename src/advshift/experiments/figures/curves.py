"""Worst-case error against the radius: the headline, AdvShift's radii, all methods, and what a value is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from advshift.audit.intervals import class_sample, worst_case_intervals
from advshift.audit.intervals.cross_fit import cross_fitted_value, split_ones
from advshift.errors import InputError
from advshift.experiments.figures.common import TAUS, curve_axes, draw_band, legend
from advshift.experiments.protocol import RADII
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of, seeds_of
from advshift.experiments.tabulating import methods_of
from advshift.experiments.worst_case import curve
from advshift.report.style import Theme, figure, finish, percent_axis, series
from advshift.sets import KLBall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "draw_common",
    "draw_fine_tuned",
    "draw_headline",
    "draw_methods",
    "draw_radii",
    "draw_trade_off",
    "draw_values",
]

MAIN = ("erm", "advshift", "exact", "exact-late", "agnostic")
OTHERS = ("tilted", "group-dro", "class-cvar")
FOLDS, REPETITIONS = 10, 10
FARTHEST = 0.1  # of error without shift that a candidate may cost to be drawn
PLACES = {  # of names that do not stand to the right of their points: offsets, and the side that is next to the point
    **dict.fromkeys(("averaged", "late 0.1", "gently, 0.1"), (-6, -3, "right")),
    "late 0.3": (6, -9, "left"),
    "slow 0.3": (0, -12, "center"),
    "later 0.1": (0, 6, "left"),
    "gently, 0.2": (-4, -12, "center"),
    "gently, 0.2, after 15": (5, 1, "left"),
}


def draw_headline(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Errors of the classes (paper's figure 1, left), and worst-case error against the radius (right)."""
    made, (left, right) = figure(theme, panels=2)
    edges = np.linspace(0.0, 1.0, 21)
    for number, method in enumerate(("erm", "advshift", "exact-late")):
        runs, look = runs_of(records, "main", method), series(theme, number)
        risks = np.concatenate([run.risks("test") for run in runs])
        heights = np.histogram(risks, edges)[0] / len(runs)
        left.stairs(heights, edges, color=look.colour, linestyle=look.line, linewidth=1.8, label=name_of(method))
    finish(left, theme, x="error of a class, test images", y="classes (mean over seeds)")
    percent_axis(left.xaxis)
    legend(left, theme)
    for number, method in enumerate(MAIN):
        values = seeds_of(runs_of(records, "main", method), lambda run: curve(run, "test", TAUS)).values()
        draw_band(right, TAUS, list(values), series(theme, number), name_of(method))
    curve_axes(right, theme, split="test", relative=False)
    legend(right, theme, loc="lower right")
    return made


def draw_radii(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Worst-case error less ERM's for AdvShift's radii, on training and on test images (paper's figure 2)."""
    made, panels = figure(theme, panels=2)
    for axes, split in zip(panels, ("train_full", "test"), strict=True):
        _relative(axes, records, theme, "radii", [f"advshift-{radius:g}" for radius in RADII], split)
    legend(panels[1], theme, ncols=2, loc="upper right")
    return made


def draw_methods(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Worst-case error less ERM's for all methods: the main comparison above, the ten-epoch one below."""
    made, panels = figure(theme, panels=4)
    for row, (group, methods) in enumerate((("main", MAIN[1:]), ("radii", ("exact-late", "agnostic", *OTHERS)))):
        for column, split in enumerate(("train_full", "test")):
            _relative(panels[2 * row + column], records, theme, group, methods, split)
        legend(panels[2 * row + 1], theme)
    return made


def draw_fine_tuned(records: Mapping[str, Record], theme: Theme) -> Figure:
    """What five epochs more after ERM change, plain and against an adversary, on training and on test images."""
    made, panels = figure(theme, panels=2)
    for axes, split in zip(panels, ("train_full", "test"), strict=True):
        _relative(axes, records, theme, "fine-tune", methods_of(records, "fine-tune"), split, base="post-hoc")
    legend(panels[1], theme, loc="lower left")
    return made


def _relative(
    axes: Axes,
    records: Mapping[str, Record],
    theme: Theme,
    group: str,
    methods: Sequence[str],
    split: str,
    base: str | None = None,
) -> None:
    """Worst cases of a group's methods less those of ERM, of the same group or of another."""
    erm = seeds_of(runs_of(records, base or group, "erm"), lambda run: curve(run, split, TAUS))
    axes.axhline(0.0, color=theme.faint, linewidth=1.2)
    for number, method in enumerate(methods):
        found = seeds_of(runs_of(records, group, method), lambda run: curve(run, split, TAUS))
        values = [found[seed] - erm[seed] for seed in sorted(found.keys() & erm.keys())]
        if values:
            draw_band(axes, TAUS, values, series(theme, number + 1), name_of(method))
    curve_axes(axes, theme, split=split, relative=True)


def draw_common(records: Mapping[str, Record], theme: Theme) -> Figure:
    """The unnormalised versions: each method's own worst case, and every method under ERM's."""
    made, (left, right) = figure(theme, panels=2)
    adversaries = {
        seed: KLBall(TAUS).worst_case(run.risks("test"), run.reference).distribution
        for seed, run in seeds_of(runs_of(records, "main", "erm"), lambda run: run).items()
    }
    for number, method in enumerate(MAIN):
        runs, look = runs_of(records, "main", method), series(theme, number)
        own = [curve(run, "test", TAUS) for run in runs]
        common = [np.asarray(adversaries[int(run.about["seed"])] @ run.risks("test")) for run in runs]
        draw_band(left, TAUS, own, look, name_of(method))
        draw_band(right, TAUS, common, look, name_of(method))
    curve_axes(left, theme, split="test", relative=False, title="each under its own adversary")
    curve_axes(right, theme, split="test", relative=False, title="all under ERM's adversary")
    legend(left, theme, loc="lower right")
    return made


def draw_values(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Plug-in, de-biased, cross-fitted and guaranteed values of one run side by side, for two methods."""
    made, panels = figure(theme, panels=2)
    radii = np.array([0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0])
    for axes, method in zip(panels, ("erm", "exact-late"), strict=True):
        _values(axes, runs_of(records, "main", method)[0], radii, theme, name_of(method))
    legend(panels[0], theme, loc="lower right")
    return made


def _values(axes: Axes, run: Record, radii: np.ndarray, theme: Theme, title: str) -> None:
    counts, errors = run.counts("test").astype(float), run.errors("test").astype(float)
    points = worst_case_intervals(class_sample(counts, errors, binary=True), run.reference, KLBall(radii))
    generator = np.random.default_rng(0)
    dealt, ones = split_ones(errors, counts, FOLDS, generator)
    crossed = cross_fitted_value(
        dealt, ones, run.reference, KLBall(radii), repetitions=REPETITIONS, generator=generator
    )
    blue, orange, green, pink = (series(theme, number) for number in range(4))
    known = np.array([[p.radius, p.debiased, p.lower, p.upper] for p in points if p.interval == "debiased"], float)
    at, middle, lower, upper = known.T
    axes.fill_between(at, lower, upper, color=blue.colour, alpha=0.2, linewidth=0)
    axes.plot(at, middle, color=blue.colour, marker="o", markersize=4, label="de-biased, 95 % interval")
    axes.plot(radii, [point.plug_in for point in points], color=orange.colour, linestyle=orange.line, label="plug-in")
    axes.plot(radii, crossed, color=green.colour, linestyle=green.line, label="cross-fitted")
    axes.plot(
        radii,
        np.array([point.guaranteed_upper for point in points], float),
        color=pink.colour,
        linestyle=pink.line,
        label="guaranteed",
    )
    curve_axes(axes, theme, split="test", relative=False, title=title)


def draw_trade_off(records: Mapping[str, Record], theme: Theme) -> Figure:
    """The error without a shift against the worst case at radius 1, of every candidate on the tuning images."""
    found = [record for record in records.values() if record.about["group"] == "candidates" and record.finished]
    if not found:
        raise InputError("no finished run of the group 'candidates' is recorded")
    base = next(record for record in found if record.about["method"] == "erm")
    kinds: dict[str, dict[str, np.ndarray]] = {"one run": {}, "fine-tuned after ERM": _fine_tuned(records)}
    for record in found:
        kind = "one run" if record.about["start_from"] is None else "fine-tuned after ERM"
        name = name_of(str(record.about["method"])).replace(", r = ", " ")
        kinds[kind][name] = _tuned(record) - _tuned(base)
    made, (axes,) = figure(theme)
    for number, (kind, points) in enumerate(kinds.items()):
        look = series(theme, number)
        near = {name: point for name, point in points.items() if point[0] <= FARTHEST}
        xs, ys = zip(*near.values(), strict=True) if near else ((), ())
        axes.plot(xs, ys, color=look.colour, marker=look.marker, markersize=6, linestyle="none", label=kind)
        for name, point in near.items():
            _name(axes, theme, name, point)
    percent_axis(axes.xaxis, signed=True)
    percent_axis(axes.yaxis, signed=True)
    axes.axvline(0.01, color=theme.faint, linewidth=1.0, linestyle="--")
    axes.margins(x=0.15, y=0.1)
    finish(axes, theme, x="error without shift less ERM's (points)", y="worst case at τ = 1\nless ERM's (points)")
    legend(axes, theme, loc="upper right")
    return made


def _fine_tuned(records: Mapping[str, Record]) -> dict[str, np.ndarray]:
    """The gentle fine-tuning less the models that it began with, mean over seeds."""
    methods = {str(r.about["method"]) for r in records.values() if r.about["group"] == "fine-tune" and r.finished}
    if not methods:
        return {}
    before = seeds_of(runs_of(records, "post-hoc", "erm"), _tuned)
    found = {}
    for method in sorted(methods):
        after = seeds_of(runs_of(records, "fine-tune", method), _tuned)
        name = "gently, " + name_of(method).replace("exact adversary, r = ", "").replace(" epochs", "")
        found[name] = np.mean([after[seed] - before[seed] for seed in after], axis=0)
    return found


def _tuned(run: Record) -> np.ndarray:
    return curve(run, "validation", [0.0, 1.0])


def _name(axes: Axes, theme: Theme, name: str, point: np.ndarray) -> None:
    """Write a name beside a point; elsewhere where names would meet."""
    x, y, side = PLACES.get(name, (6, -3, "left"))
    axes.annotate(
        name,
        (float(point[0]), float(point[1])),
        xytext=(x, y),
        textcoords="offset points",
        fontsize=8,
        color=theme.ink,
        ha=side,
    )
