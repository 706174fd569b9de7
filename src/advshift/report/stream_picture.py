"""The picture of a watch, from its log alone: the mix over time, its divergence against the radius, the error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.errors import InputError
from advshift.report.style import Theme, caption, figure, finish, percent_axis, series, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_stream", "read_log"]

CLASSES = (0, 1, 2, 4, 5)  # the series of the classes that are drawn
ALARM = 3  # the series of alarms
SCHEMA = "advshift.monitor/1"
SIZE = (8.6, 9.0)  # inches


def read_log(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a log: its first record, and the reports; a last line that is still being written is left out."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError(f"cannot read {str(path)!r}: {reason}; give a log that --log wrote") from None
    *lines, _ = text.split("\n")
    try:
        records = [json.loads(line) for line in lines]
    except ValueError:
        records = []
    if not records or not isinstance(records[0], dict) or records[0].get("schema") != SCHEMA:
        raise InputError(f"{str(path)!r} is not a log of advshift monitor; give a file that --log wrote")
    reports = [record for record in records[1:] if record.get("shares") is not None]
    if not reports:
        raise InputError(f"{str(path)!r} holds no report with an estimate yet; wait for the first one")
    return records[0], reports


def plot_stream(header: dict[str, Any], reports: Sequence[dict[str, Any]], theme: str = "light") -> Figure:
    """Draw a watch.

    Parameters
    ----------
    header, reports
        What `read_log` returned.
    theme
        `"light"` or `"dark"`.
    """
    colours = theme_named(theme)
    made, axes = figure(colours, 3, columns=1)
    made.set_size_inches(*SIZE)
    places, name = _places(reports)
    _draw_shares(axes[0], header, reports, places, colours)
    _draw_divergence(axes[1], header, reports, places, colours)
    _draw_error(axes[2], header, reports, places, colours)
    left = len(header["classes"]) - len(CLASSES)
    others = f"; {left} classes that moved less are left out" if left > 0 else ""
    titles = (
        f"Label distribution (dotted: in training{others})",
        f"{_divergence_name(header)} from training",
        "Error to expect",
    )
    for one, title, label in zip(axes, titles, ("share", _unit(header), "error rate"), strict=True):
        _mark_alarms(one, reports, places, colours)
        finish(one, colours, x=name if one is axes[-1] else "", y=label)
        one.set_title(title, color=colours.ink, loc="left", fontsize=12, pad=11)
        one.set_xlim(places[0], places[-1] if len(places) > 1 else None)
        _legend(one, colours)
    if isinstance(places[0], datetime):
        _date_axis(axes)
    return made


def _places(reports: Sequence[dict[str, Any]]) -> tuple[list[Any], str]:
    """Where each report stands: at its time if all have one in ISO 8601, else at its number of examples."""
    try:
        times = [datetime.fromisoformat(str(report["time"])) for report in reports]
        zoned = [one if one.tzinfo else one.replace(tzinfo=UTC) for one in times]
    except ValueError:
        return [report["examples"] for report in reports], "examples"
    return list(zoned), "time (UTC)"


def _date_axis(axes: Sequence[Axes]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for one in axes:
        locator: Any = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
        one.xaxis.set_major_locator(locator)
        one.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]


def _draw_shares(
    axes: Axes, header: dict[str, Any], reports: Sequence[dict[str, Any]], places: list[Any], theme: Theme
) -> None:
    """Draw the classes that moved most, each with its interval and its share in training."""
    shares = np.array([report["shares"] for report in reports])
    lower, upper = (np.array([report[name] for report in reports]) for name in ("lower", "upper"))
    training = np.array(header["training"])
    moved = np.abs(shares - training).max(axis=0)
    for number, column in zip(CLASSES, np.argsort(-moved, kind="stable").tolist(), strict=False):
        look = series(theme, number)
        axes.fill_between(places, lower[:, column], upper[:, column], color=look.colour, alpha=0.15, linewidth=0)
        label = caption(str(header["classes"][column]))
        axes.plot(places, shares[:, column], color=look.colour, linestyle=look.line, linewidth=1.7, label=label)
        axes.axhline(training[column], color=look.colour, linewidth=0.9, linestyle=":")
    axes.set_ylim(bottom=0.0)
    percent_axis(axes.yaxis)


def _draw_divergence(
    axes: Axes, header: dict[str, Any], reports: Sequence[dict[str, Any]], places: list[Any], theme: Theme
) -> None:
    _band(axes, [report["divergence"] for report in reports], places, theme, 0, "estimate, with its interval")
    radius = header["settings"]["radius"]
    if radius is not None:
        axes.axhline(radius, color=theme.ink, linewidth=1.3, linestyle=(0, (6, 2)), label=f"radius {radius:.4g}")
        axes.set_ylim(0.0, max(axes.get_ylim()[1], 1.15 * radius))
    axes.set_ylim(bottom=0.0)


def _draw_error(
    axes: Axes, header: dict[str, Any], reports: Sequence[dict[str, Any]], places: list[Any], theme: Theme
) -> None:
    _band(axes, [report["error"] for report in reports], places, theme, 1, "at the estimated mix")
    axes.axhline(header["training_error"], color=theme.faint, linewidth=1.2, linestyle=":", label="at the training mix")
    axes.set_ylim(bottom=0.0)
    percent_axis(axes.yaxis)


def _band(
    axes: Axes, found: Sequence[dict[str, Any]], places: list[Any], theme: Theme, number: int, label: str
) -> None:
    look = series(theme, number)
    value, lower, upper = (np.array([_finite(one[name]) for one in found]) for name in ("value", "lower", "upper"))
    axes.fill_between(places, lower, upper, color=look.colour, alpha=0.2, linewidth=0)
    axes.plot(places, value, color=look.colour, linewidth=1.8, label=label)


def _finite(value: float | str | None) -> float:
    return value if isinstance(value, float) else float("nan")


def _mark_alarms(axes: Axes, reports: Sequence[dict[str, Any]], places: list[Any], theme: Theme) -> None:
    """Mark the reports in which the detector rang, and more heavily the one in which the test did."""
    colour = series(theme, ALARM).colour
    for form, marker, width, label in (("detector", "v", 0.8, "alarm: change"), ("test", "D", 1.6, "alarm: ever")):
        chosen = [
            place
            for place, report in zip(places, reports, strict=True)
            if any(one["form"] == form for one in report["alarms"])
        ]
        for place in chosen:
            axes.axvline(place, color=colour, linewidth=width, alpha=0.4, zorder=1.5)
        if chosen:
            look: dict[str, Any] = {"color": colour, "linestyle": "none", "clip_on": False, "zorder": 5}
            axes.plot(chosen, [1.0] * len(chosen), marker, transform=axes.get_xaxis_transform(), label=label, **look)


def _legend(axes: Axes, theme: Theme) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9, labelcolor=theme.ink, frameon=False)


def _divergence_name(header: dict[str, Any]) -> str:
    names = {
        "kl": "KL divergence",
        "reverse-kl": "Reverse KL",
        "chi2": "Chi-square divergence",
        "tv": "Total variation",
    }
    return names[header["settings"]["set_name"]]


def _unit(header: dict[str, Any]) -> str:
    return "nats" if header["settings"]["set_name"].endswith("kl") else "divergence"
