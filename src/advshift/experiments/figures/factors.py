"""AdvShift with one factor changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advshift.errors import InputError
from advshift.experiments.ablation import RADII_OF_FACTORS, ablated, factor_name, factors_of
from advshift.experiments.figures.common import legend
from advshift.experiments.records import Record
from advshift.experiments.selection import runs_of
from advshift.experiments.worst_case import curve
from advshift.report.style import Theme, figure, finish, percent_axis, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_clipping", "draw_factors"]

CLIPPING = ("clip-0.5", "clip-1", "plain", "clip-5", "clip-none", "stabiliser-0", "stabiliser-0.01", "neither")


def draw_clipping(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Clipping and stabiliser at two radii: the error and the worst case at radius 1, less ERM's."""
    known = {radius: factors_of(records, radius) for radius in RADII_OF_FACTORS}
    shown = {r: [f for f in CLIPPING if f == "plain" or f in names] for r, names in known.items()}
    if all(names == ["plain"] for names in shown.values()):
        raise InputError("no finished run of the group 'ablation' is recorded")
    made, panels = figure(theme, panels=2)
    for axes, (radius, names) in zip(panels, shown.items(), strict=True):
        _dots(axes, records, theme, names, radius)
    legend(panels[0], theme)
    return made


def draw_factors(records: Mapping[str, Record], theme: Theme) -> Figure:
    """Every other factor at radius 0.1."""
    rest = [factor for factor in factors_of(records, 0.1) if factor not in CLIPPING]
    if not rest:
        raise InputError("no finished run of the group 'ablation' beside clip and stabiliser is recorded")
    made, (axes,) = figure(theme)
    _dots(axes, records, theme, ["plain", *rest], 0.1)
    legend(axes, theme)
    return made


def _dots(axes: Axes, records: Mapping[str, Record], theme: Theme, factors: list[str], trained: float) -> None:
    axes.axvline(0.0, color=theme.faint, linewidth=1.2)
    for number, radius in enumerate((0.0, 1.0)):
        look = series(theme, number)
        base = _mean(runs_of(records, "radii", "erm"), radius)
        values = [_mean(ablated(records, factor, trained), radius) - base for factor in factors]
        axes.plot(
            values,
            range(len(factors)),
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            label=f"τ = {radius:g}",
        )
    axes.set_yticks(range(len(factors)), [factor_name(factor) for factor in factors], fontsize=9)
    percent_axis(axes.xaxis, signed=True)
    finish(axes, theme, x="test error less ERM's (points)", y="", title=f"r = {trained:g}")


def _mean(runs: list[Record], radius: float) -> float:
    return float(np.mean([curve(run, "test", [radius])[0] for run in runs]))
