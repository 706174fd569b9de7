"""Linear models: what every method gains or loses against ERM, without a shift and in the worst case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advshift.experiments.figures.common import legend
from advshift.experiments.linear_methods import METHODS
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of, seeds_of
from advshift.experiments.worst_case import curve, paired
from advshift.report.style import Theme, figure, finish, percent_axis, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_linear"]

PANELS = (("linear-digits", "long-tailed digits"), ("linear-reuters52", "Reuters-52"))
APART = 0.16  # of a row, between the two radii


def draw_linear(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Test error less ERM's at radii 0 and 1: paired means over seeds, with their 95 % intervals."""
    made, panels = figure(theme, panels=2)
    made.set_size_inches(made.get_figwidth(), 5.2)
    methods = [method for method in METHODS if method != "erm"]
    for axes, (group, title) in zip(panels, PANELS, strict=True):
        axes.axvline(0.0, color=theme.faint, linewidth=1.2)
        for number, radius in enumerate((0.0, 1.0)):
            _row(axes, records, theme, group, methods, number, radius)
        axes.set_yticks(range(len(methods)), [name_of(method) for method in methods], fontsize=9)
        axes.invert_yaxis()
        percent_axis(axes.xaxis, signed=True)
        finish(axes, theme, x="test error less ERM's (points)", y="", title=title)
    legend(panels[0], theme, loc="lower right")
    return made


def _row(
    axes: Axes,
    records: Mapping[str, Record],
    theme: Theme,
    group: str,
    methods: list[str],
    number: int,
    radius: float,
) -> None:
    def values(method: str) -> dict[int, float]:
        return seeds_of(runs_of(records, group, method), lambda run: float(curve(run, "test", [radius])[0]))

    found = [paired(values(method), values("erm")) for method in methods]
    means = np.array([summary.mean for summary in found])
    spans = np.array([[s.mean - s.lower, s.upper - s.mean] for s in found]).T
    look = series(theme, number)
    axes.errorbar(
        means,
        np.arange(len(methods)) + APART * (2 * number - 1),
        xerr=spans,
        color=look.colour,
        marker=look.marker,
        markersize=4,
        linestyle="none",
        label=f"τ = {radius:g}",
    )
