"""The worst case against the radius: absolute with its bands, and relative to the first model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.audit.record import AuditRecord, CurvePoint, ModelRecord
from advshift.report.selection import comparison_at, estimate, titles
from advshift.report.style import Series, Theme, caption, finish, percent_axis, series
from advshift.report.words import Words, plain, ratio_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_absolute", "draw_relative", "drawable"]

MOST_TICKS = 7
RATIO_SCALES = ("frequency-cap", "top-k")


def drawable(record: AuditRecord) -> bool:
    """Whether some model has a curve: more than one radius with a known worst case."""
    return any(len([point for point in model.curve if estimate(point) is not None]) > 1 for model in record.models)


def draw_absolute(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw each model's estimate (line), plug-in value (dots) and shown interval (band) over the radius."""
    positions = _positions(record)
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        look = series(theme, number)
        places = [positions[point.radius] for point in model.curve]
        trusted = [point.debiased if point.interval == "debiased" else None for point in model.curve]
        axes.plot(places, _numbers([point.plug_in for point in model.curve]), ":", color=look.colour, linewidth=1.3)
        _band(axes, model.curve, places, look.colour)
        line = trusted if any(value is not None for value in trusted) else [estimate(point) for point in model.curve]
        _line(axes, places, _numbers(line), look, title)
    _radius_ticks(axes, record, positions)
    _ratio_ticks(axes, record, positions, theme)
    words = Words(record)
    if words.share:
        percent_axis(axes.yaxis)
    finish(axes, theme, x=_radius_label(words), y=f"worst-case {caption(words.metric)}")


def _line(axes: Axes, places: Sequence[float], values: np.ndarray, look: Series, title: str) -> None:
    style = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
    axes.plot(places, values, label=caption(title), markersize=4, linewidth=1.8, **style)


def _band(axes: Axes, curve: Sequence[CurvePoint], places: Sequence[float], colour: str) -> None:
    """Fill the de-biased interval; the guaranteed one is hatched, for it means something else."""
    lower = _numbers([point.plug_in if point.lower is None else point.lower for point in curve])
    upper = _numbers([point.upper for point in curve])
    debiased = np.array([point.interval == "debiased" for point in curve], dtype=bool)
    guaranteed = np.array([point.interval == "guaranteed" for point in curve], dtype=bool)
    axes.fill_between(places, lower, upper, where=list(debiased), color=colour, alpha=0.2, linewidth=0)
    hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": "//", "alpha": 0.5, "linewidth": 0}
    axes.fill_between(places, lower, upper, where=list(guaranteed), **hatched)


def draw_relative(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw the other models' worst case less the first one's, with the paired interval where it is known."""
    positions = _positions(record)
    first = record.models[0]
    axes.axhline(0.0, color=theme.faint, linewidth=1.2)
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        if number == 0:
            continue
        look = series(theme, number)
        rows = [_difference(record, first, model, point) for point in model.curve]
        places = [positions[point.radius] for point in model.curve]
        middle, lower, upper = (_numbers([row[column] for row in rows]) for column in range(3))
        axes.fill_between(places, lower, upper, color=look.colour, alpha=0.2, linewidth=0)
        _line(axes, places, middle, look, title)
    _radius_ticks(axes, record, positions)
    words = Words(record)
    if words.share:
        percent_axis(axes.yaxis, signed=True)
    unit = " (points)" if words.share else ""
    finish(axes, theme, x=_radius_label(words), y=f"difference to the first model{unit}")


def _difference(
    record: AuditRecord, first: ModelRecord, second: ModelRecord, point: CurvePoint
) -> tuple[float | None, float | None, float | None]:
    found = comparison_at(record, first, second, point.radius)
    if found is not None:
        return found.difference, found.lower, found.upper
    ours = next((estimate(other) for other in first.curve if other.radius == point.radius), None)
    theirs = estimate(point)
    return (None if ours is None or theirs is None else theirs - ours), None, None


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    """Numbers to draw; what is unknown or infinite leaves a gap."""
    known = [math.nan if value is None or math.isinf(value) else value for value in values]
    return np.array(known, dtype=np.float64)


def _positions(record: AuditRecord) -> dict[float, float]:
    """Where each radius stands: risk grows like the square root of a ball's radius, so the axis does as well."""
    radii = sorted({point.radius for model in record.models for point in model.curve})
    ratio = record.uncertainty_set.name in RATIO_SCALES
    finite = {radius: _place(radius, ratio=ratio) for radius in radii if radius < math.inf}
    ends = (min(finite.values(), default=0.0), max(finite.values(), default=0.0))
    return finite | {math.inf: ends[1] + 0.12 * ((ends[1] - ends[0]) or 1.0)}


def _place(radius: float, *, ratio: bool) -> float:
    return math.log(max(radius, 1e-300)) if ratio else math.sqrt(max(radius, 0.0))


def _radius_ticks(axes: Axes, record: AuditRecord, positions: dict[float, float]) -> None:
    places = _thinned(record, positions)
    axes.set_xticks([positions[radius] for radius in places], [plain(radius) for radius in places])
    if record.uncertainty_set.name == "top-k":
        axes.invert_xaxis()


def _thinned(record: AuditRecord, positions: dict[float, float]) -> list[float]:
    """The radii of the curves, less those that stand too close to another; both ends are kept."""
    radii = sorted({point.radius for model in record.models for point in model.curve}, key=lambda one: positions[one])
    space = (positions[radii[-1]] - positions[radii[0]]) / MOST_TICKS
    kept = [radii[0]]
    for radius in radii[1:-1]:
        place = positions[radius]
        if place - positions[kept[-1]] >= space and positions[radii[-1]] - place >= space:
            kept.append(radius)
    return kept + radii[1:][-1:]


def _ratio_ticks(axes: Axes, record: AuditRecord, positions: dict[float, float], theme: Theme) -> None:
    """Say along the top what the radii mean: how many times as frequent the first model's most favoured class is."""
    if record.uncertainty_set.name in RATIO_SCALES:
        return
    ratios = {point.radius: point.max_ratio for point in record.models[0].curve if point.max_ratio is not None}
    shown = [radius for radius in _thinned(record, positions) if radius in ratios]
    if not shown:
        return
    top = axes.secondary_xaxis("top")
    top.set_xticks(
        [positions[radius] for radius in shown], [f"×{ratio_number(ratios[radius] or 1)}" for radius in shown]
    )
    top.tick_params(colors=theme.faint, labelcolor=theme.faint, labelsize=9, length=0)
    top.spines["top"].set_visible(False)
    top.set_xlabel("most favoured class, times as frequent", color=theme.faint, fontsize=9)


def _radius_label(words: Words) -> str:
    return words.radius_name if words.kind in RATIO_SCALES else f"{words.radius_name} of the {words.set_name}"
