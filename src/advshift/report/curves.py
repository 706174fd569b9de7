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

__all__ = ["draw_absolute", "draw_common", "draw_relative", "drawable", "positions_of"]

MOST_TICKS = 7
MOST_HATCHED = 2  # models up to which hatched bands stay apart
RATIO_SCALES = ("frequency-cap", "top-k")


def drawable(record: AuditRecord) -> bool:
    """Whether some model has a curve: more than one radius with a known worst case."""
    return any(len([point for point in model.curve if estimate(point) is not None]) > 1 for model in record.models)


def draw_absolute(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw each model's estimate (line), plug-in value (dots) and shown interval (band) over the radius."""
    positions = positions_of(record)
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        look = series(theme, number)
        places = [positions[point.radius] for point in model.curve]
        plug_in = _numbers([point.plug_in for point in model.curve])
        debiased = _numbers([point.debiased if point.interval == "debiased" else None for point in model.curve])
        axes.plot(places, plug_in, linestyle=":", color=look.colour, linewidth=1.3)
        _hollow(axes, places, np.where(np.isnan(debiased), plug_in, np.nan), look, theme)
        _bands(axes, model.curve, places, look, hatched=len(record.models) <= MOST_HATCHED)
        _line(axes, places, debiased, look, title)
    _radius_ticks(axes, record, positions)
    _ratio_ticks(axes, record, positions, theme)
    words = Words(record)
    if words.share:
        percent_axis(axes.yaxis)
    finish(axes, theme, x=words.axis, y=f"worst-case {caption(words.metric)}")


def _line(axes: Axes, places: Sequence[float], values: np.ndarray, look: Series, title: str) -> None:
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
    axes.plot(places, values, label=caption(title), markersize=4, linewidth=1.8, **style)


def _hollow(axes: Axes, places: Sequence[float], values: np.ndarray, look: Series, theme: Theme) -> None:
    """Mark plug-in values that stand alone."""
    style: dict[str, Any] = {
        "linestyle": "none",
        "marker": look.marker,
        "color": look.colour,
        "markerfacecolor": theme.paper,
    }
    axes.plot(places, values, markersize=4.5, **style)


def _bands(axes: Axes, curve: Sequence[CurvePoint], places: Sequence[float], look: Series, *, hatched: bool) -> None:
    """Fill the de-biased interval; the guaranteed one is outlined and hatched, for it means something else."""
    lower = _numbers([point.plug_in if point.lower is None else point.lower for point in curve])
    upper = _numbers([point.upper for point in curve])
    debiased = [point.interval == "debiased" for point in curve]
    guaranteed = [point.interval == "guaranteed" for point in curve]
    axes.fill_between(places, lower, upper, where=debiased, color=look.colour, alpha=0.2, linewidth=0)
    axes.plot(places, np.where(guaranteed, upper, np.nan), color=look.colour, linestyle=look.line, linewidth=0.9)
    if hatched:
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": look.colour, "hatch": "//", "alpha": 0.5}
        axes.fill_between(places, lower, upper, where=guaranteed, linewidth=0, **style)


def draw_relative(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw the other models' worst case less the first one's, with the paired interval where it is known."""
    positions = positions_of(record)
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
    finish(axes, theme, x=words.axis, y=f"less the first model{unit}")


def draw_common(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw every model under one adversary: the mixes that are worst for the first model."""
    positions = positions_of(record)
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        places = [positions[point.radius] for point in model.curve]
        _line(axes, places, _numbers([point.common for point in model.curve]), series(theme, number), title)
    _radius_ticks(axes, record, positions)
    words = Words(record)
    if words.share:
        percent_axis(axes.yaxis)
    finish(axes, theme, x=words.axis, y=f"{caption(words.metric)}, common mix")


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


def positions_of(record: AuditRecord) -> dict[float, float]:
    """Where each radius stands: risk grows like the square root of a ball's radius, so the axis does as well."""
    radii = sorted({point.radius for model in record.models for point in model.curve})
    ratio = record.uncertainty_set.name in RATIO_SCALES
    finite = {radius: _place(radius, ratio=ratio) for radius in radii if radius < math.inf}
    low, high = min(finite.values(), default=0.0), max(finite.values(), default=0.0)
    return finite | {radius: high + 0.12 * ((high - low) or 1.0) for radius in radii if radius == math.inf}


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
