"""Class by class: errors over the epochs, against the frequency, and what training gains that testing does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.experiments.figures.common import legend
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of
from advshift.report.style import Theme, figure, finish, log_axis, percent_axis, series
from advshift.sets import KLBall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_classes", "draw_frequency", "draw_gap", "draw_violins"]

EPOCHS = (1, 2, 5, 10, 15, 20)
TIERS_OF_CLASSES = (("easiest fifth", slice(0, 20)), ("middle", slice(40, 60)), ("hardest fifth", slice(80, 100)))


def draw_violins(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Errors of the classes over the epochs, and the worst mixes of ERM and AdvShift (paper's figure 3)."""
    made, panels = figure(theme, panels=4)
    runs = {method: runs_of(records, "main", method)[0] for method in ("erm", "advshift")}
    for axes, split, where in zip(panels, ("train", "test"), ("training batches", "test images"), strict=False):
        for number, (method, run) in enumerate(runs.items()):
            _violins(axes, run, split, number, theme)
            axes.plot([], [], color=series(theme, number).colour, linewidth=6, alpha=0.6, label=name_of(method))
        axes.set_xticks(range(len(EPOCHS)), [str(epoch) for epoch in EPOCHS])
        percent_axis(axes.yaxis)
        finish(axes, theme, x="epoch", y=f"error of a class,\n{where}")
    legend(panels[0], theme)
    for axes, (method, run) in zip(panels[2:], runs.items(), strict=True):
        _mixes(axes, run, theme, name_of(method))
    legend(panels[2], theme)
    return made


def _violins(axes: Axes, run: Record, split: str, number: int, theme: Theme) -> None:
    rows = [list(run.arrays["epochs"]).index(epoch) for epoch in EPOCHS]
    values = [run.risks(split, row) for row in rows]
    places = np.arange(len(EPOCHS)) + 0.36 * (number - 0.5)
    parts = axes.violinplot(values, places, widths=0.34, showmedians=True, showextrema=False)
    for body in parts["bodies"]:  # type: ignore[attr-defined]
        body.set(facecolor=series(theme, number).colour, alpha=0.6, edgecolor="none")
    parts["cmedians"].set(color=theme.ink, linewidth=1.5)


def _mixes(axes: Axes, run: Record, theme: Theme, title: str) -> None:
    risks = run.risks("test")
    order = np.argsort(-risks, kind="stable")
    for number, radius in enumerate((1.0, 2.0, 3.0)):
        look = series(theme, number)
        mix = np.asarray(KLBall(radius).worst_case(risks, run.reference).distribution)[order]
        axes.plot(np.arange(1, len(mix) + 1), mix, color=look.colour, linestyle=look.line, label=f"τ = {radius:g}")
    axes.set_yscale("log")
    axes.set_ylim(1e-5, 1.0)
    log_axis(axes)
    finish(axes, theme, x="classes by test error, worst first", y="share in the worst mix", title=title)


def draw_frequency(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Training examples of a class against its test error, on long-tailed sets."""
    made, panels = figure(theme, panels=2)
    for axes, group in zip(panels, ("long-tail-100", "long-tail-10"), strict=True):
        for number, method in enumerate(("erm", "logit-adjusted", "advshift-0.5")):
            runs, look = runs_of(records, group, method), series(theme, number)
            counts, risks = runs[0].counts("train_full"), np.mean([run.risks("test") for run in runs], axis=0)
            style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": "none", "alpha": 0.7}
            axes.plot(
                counts, risks, markersize=3.5, label=f"{name_of(method)} (ρ = {_rank(counts, risks):.2f})", **style
            )
        log_axis(axes)
        percent_axis(axes.yaxis)
        title = f"long tail {group.removeprefix('long-tail-')}:1"
        finish(axes, theme, x="training images of a class", y="test error of the class", title=title)
        axes.set_yticks(np.linspace(0.0, 1.0, 6))
        axes.set_ylim(0.0, 1.4)  # room for the legend above the points
        legend(axes, theme, loc="upper right")
    return made


def _rank(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation."""
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def draw_classes(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Who gains and who loses: each class's test error less ERM's, against ERM's."""
    made, panels = figure(theme, panels=2)
    base = np.mean([run.risks("test") for run in runs_of(records, "main", "erm")], axis=0)
    for axes, method in zip(panels, ("advshift", "exact-late"), strict=True):
        change = np.mean([run.risks("test") for run in runs_of(records, "main", method)], axis=0) - base
        look = series(theme, 1)
        axes.axhline(0.0, color=theme.faint, linewidth=1.2)
        axes.plot(base, change, color=look.colour, marker="o", markersize=4, linestyle="none", alpha=0.7)
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis, signed=True)
        finish(axes, theme, x="ERM's test error of a class", y="change (points)", title=name_of(method))
    return made


def draw_gap(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Test error less training error, for easy, middling and hard classes of ERM."""
    made, (axes,) = figure(theme)
    methods = ("erm", "exact", "exact-late", "advshift", "agnostic")
    order = np.argsort(np.mean([run.risks("train_full") for run in runs_of(records, "main", "erm")], axis=0))
    for number, (name, part) in enumerate(TIERS_OF_CLASSES):
        gaps = [
            [
                float((run.risks("test") - run.risks("train_full"))[order[part]].mean())
                for run in runs_of(records, "main", m)
            ]
            for m in methods
        ]
        look = series(theme, number)
        places = np.arange(len(methods)) + 0.16 * (number - 1)
        axes.errorbar(
            places,
            [np.mean(gap) for gap in gaps],
            [float(np.std(gap, ddof=1)) if len(gap) > 1 else 0.0 for gap in gaps],
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            capsize=3,
            label=name,
        )
    axes.set_xticks(range(len(methods)), [name_of(method).replace(" adversary", "") for method in methods], fontsize=9)
    percent_axis(axes.yaxis, signed=True)
    axes.set_ylim(0.0, 0.2)
    finish(axes, theme, x="", y="test error less training error\n(points)")
    legend(axes, theme, ncols=3, loc="upper center")
    return made
