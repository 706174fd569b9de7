"""The pictures of an estimate: the mix before and now, accuracies, and predictions against what explains them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.estimation.record import EstimatedClass, EstimateRecord
from advshift.report.estimate_words import moved_most
from advshift.report.selection import readable
from advshift.report.style import Theme, caption, figure, finish, percent_axis, series, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_ROWS", "PANELS", "draw_accuracy", "draw_fit", "draw_mix", "plot_estimate"]

MOST_ROWS = 16  # classes whose names fit beside each other
Draw = Callable[["Axes", EstimateRecord, Theme], None]


def plot_estimate(record: EstimateRecord, theme: str = "light") -> Figure:
    """Draw an estimate as one figure: the mix, the accuracies, and the fit of the predictions.

    Parameters
    ----------
    record
        What was found.
    theme
        `"light"` or `"dark"`.
    """
    colours = theme_named(theme)
    panels = [(title, draw) for title, draw in PANELS.items() if title != FIT or record.shift_test is not None]
    made, axes = figure(colours, len(panels), columns=len(panels))
    for one, (title, draw) in zip(axes, panels, strict=True):
        draw(one, record, colours)
        one.set_title(title, color=colours.ink, loc="left", fontsize=12)
    return made


def draw_mix(axes: Axes, record: EstimateRecord, theme: Theme) -> None:
    """Draw each class's share in the source and in the target, the latter with its interval."""
    entries = moved_most(record, MOST_ROWS)
    places = _rows(axes, entries)
    source, target = (np.array([getattr(entry, side) for entry in entries]) for side in ("source", "estimate"))
    look = series(theme, 0)
    axes.hlines(places, np.minimum(source, target), np.maximum(source, target), color=theme.grid, linewidth=4)
    _intervals(axes, places, entries, look.colour)
    _hollow(axes, source, places, theme, "source")
    axes.plot(target, places, linestyle="none", marker="o", markersize=6, color=look.colour, label="target, estimated")
    _legend(axes, theme)
    percent_axis(axes.xaxis)
    axes.set_xlim(left=0)
    finish(axes, theme, x="share of the examples", y="class")


def draw_fit(axes: Axes, record: EstimateRecord, theme: Theme) -> None:
    """Draw how often each class is predicted on the target, and how often the nearest label shift would have it so."""
    entries = moved_most(record, MOST_ROWS)
    places = _rows(axes, entries)
    predicted = np.array([entry.predicted for entry in entries])
    expected = np.array([entry.expected or 0.0 for entry in entries])
    named = [] if record.shift_test is None else record.shift_test.deviating
    deviates = np.array([entry.label in named for entry in entries])
    axes.hlines(places, np.minimum(predicted, expected), np.maximum(predicted, expected), color=theme.grid, linewidth=4)
    _hollow(axes, expected, places, theme, "explained by label shift")
    fits, not_fits = series(theme, 0), series(theme, 1)
    axes.plot(predicted[~deviates], places[~deviates], "o", markersize=6, color=fits.colour, label="predicted")
    if deviates.any():
        look: dict[str, Any] = {"marker": "X", "markersize": 8, "color": not_fits.colour, "label": "deviates"}
        axes.plot(predicted[deviates], places[deviates], linestyle="none", **look)
    _legend(axes, theme)
    percent_axis(axes.xaxis)
    axes.set_xlim(left=0)
    finish(axes, theme, x="share of the target rows", y="predicted class")


def draw_accuracy(axes: Axes, record: EstimateRecord, theme: Theme) -> None:
    """Draw the accuracy on the source, and those to expect on the target, with their intervals."""
    found = record.performance
    rows: list[tuple[str, float, float, float]] = [("on the source", found.source, found.source, found.source)]
    expected = {"on the target": found.target, "corrected": found.corrected}
    rows += [(name, one.value, one.lower, one.upper) for name, one in expected.items() if one is not None]
    if found.confidence is not None:
        rows.append(("average confidence", found.confidence, found.confidence, found.confidence))
    places = np.arange(len(rows))[::-1]
    for place, (name, value, lower, upper) in zip(places, rows, strict=True):
        colour = series(theme, 0).colour if lower < upper else theme.faint
        marker = "s" if name == "average confidence" else "o"
        axes.plot([lower, upper], [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="round")
        axes.plot([value], [place], marker=marker, markersize=7, color=colour)
    axes.set_yticks(places, [name for name, *_ in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    percent_axis(axes.xaxis)
    finish(axes, theme, x="accuracy", y="")


def _rows(axes: Axes, entries: list[EstimatedClass]) -> Any:
    """A row per class, from the top down."""
    places = np.arange(len(entries))[::-1]
    axes.set_yticks(places, [caption(readable(entry.label), 14) for entry in entries])
    axes.tick_params(axis="y", labelsize=9 if len(entries) <= 12 else 8)
    axes.set_ylim(-0.7, len(entries) - 0.3)
    return places


def _intervals(axes: Axes, places: Any, entries: list[EstimatedClass], colour: str) -> None:
    lower, upper = (np.array([getattr(entry, side) for entry in entries]) for side in ("lower", "upper"))
    axes.hlines(places, lower, upper, color=colour, linewidth=1.6)


def _hollow(axes: Axes, values: Any, places: Any, theme: Theme, label: str) -> None:
    look: dict[str, Any] = {"marker": "o", "markersize": 6.5, "color": theme.ink, "markerfacecolor": theme.paper}
    axes.plot(values, places, linestyle="none", label=label, **look)


def _legend(axes: Axes, theme: Theme) -> None:
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="best")


FIT = "Predictions"
PANELS: dict[str, Draw] = {"Mix": draw_mix, "Accuracy": draw_accuracy, FIT: draw_fit}
