"""AdvShift with one factor changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advshift.errors import InputError
from advshift.experiments.figures.common import legend, runs_of
from advshift.experiments.records import Record
from advshift.experiments.worst_case import curve
from advshift.report.style import Theme, figure, finish, percent_axis, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_clipping", "draw_factors"]

CLIPPING = ("clip-0.5", "clip-1", "plain", "clip-5", "clip-none", "stabiliser-0", "stabiliser-0.01", "neither")


def draw_clipping(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Clipping and stabiliser at two radii: the worst case at radius 1 less ERM's."""
    made, panels = figure(theme, panels=2)
    for axes, radius in zip(panels, ("0.1", "0.5"), strict=True):
        _bars(axes, records, theme, [f"{factor}@{radius}" for factor in CLIPPING], f"r = {radius}")
    legend(panels[0], theme)
    return made


def draw_factors(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Every other factor at radius 0.1."""
    names = {
        str(record.about["method"])
        for record in records.values()
        if record.about["group"] == "ablation" and str(record.about["method"]).endswith("@0.1")
    }
    rest = sorted(names - {f"{factor}@0.1" for factor in CLIPPING if factor != "plain"})
    if not rest:
        raise InputError("no finished run of the group 'ablation' is recorded")
    made, (axes,) = figure(theme)
    _bars(axes, records, theme, rest, "r = 0.1")
    legend(axes, theme)
    return made


def _bars(axes: Axes, records: Mapping[str, Record], theme: Theme, methods: list[str], title: str) -> None:
    base = {radius: _mean(runs_of(records, "ablation", "erm"), radius) for radius in (0.0, 1.0)}
    shown = [method for method in methods if _has(records, method)]
    if not shown:
        raise InputError(f"no finished run of {methods[0]!r} and its kin is recorded")
    axes.axvline(0.0, color=theme.faint, linewidth=1.2)
    for number, radius in enumerate((0.0, 1.0)):
        look = series(theme, number)
        values = [_mean(runs_of(records, "ablation", method), radius) - base[radius] for method in shown]
        axes.plot(
            values, range(len(shown)), color=look.colour, marker=look.marker, linestyle="none", label=f"τ = {radius:g}"
        )
    axes.set_yticks(range(len(shown)), [method.split("@")[0].replace("-", " ") for method in shown], fontsize=9)
    percent_axis(axes.xaxis, signed=True)
    finish(axes, theme, x="test error less ERM's (points)", y="", title=title)


def _has(records: Mapping[str, Record], method: str) -> bool:
    return any(r.about["group"] == "ablation" and r.about["method"] == method and r.finished for r in records.values())


def _mean(runs: list[Record], radius: float) -> float:
    return float(np.mean([curve(run, "test", [radius])[0] for run in runs]))
