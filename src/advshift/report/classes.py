"""The classes: how their risks are spread, and whether rare classes fare worse."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.audit.record import AuditRecord, ModelRecord
from advshift.report.selection import titles
from advshift.report.style import Series, Theme, caption, dots, finish, log_axis, percent_axis, series
from advshift.report.words import Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_frequency", "draw_risks", "every", "has_frequencies", "known_risks"]

MOST_DOTS = 3000  # classes that are drawn one by one
MOST_HISTOGRAMS = 3  # models whose histograms can be read on top of each other


def known_risks(model: ModelRecord) -> np.ndarray:
    """The risks of the classes for which one is known."""
    return np.array([entry.risk for entry in model.classes if entry.risk is not None and math.isfinite(entry.risk)])


def draw_risks(axes: Axes, record: AuditRecord, theme: Theme) -> None:
    """Draw how the classes' risks are spread: a histogram of few models, cumulative curves of many."""
    words = Words(record)
    cumulative = len(record.models) > MOST_HISTOGRAMS
    pooled = np.concatenate([known_risks(model) for model in record.models])
    edges = _edges(pooled, share=words.share)
    for number, (model, title) in enumerate(zip(record.models, titles(record), strict=True)):
        look, risks = series(theme, number), known_risks(model)
        if cumulative:
            _cumulative(axes, risks, look, title)
        else:
            _histogram(axes, risks, edges, look, title)
            if model.average is not None:
                axes.axvline(model.average, color=look.colour, linestyle=look.line, linewidth=1.0)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True)
    if words.share:
        percent_axis(axes.xaxis)
    y = "classes with at most this" if cumulative else "number of classes"
    finish(axes, theme, x=f"{caption(words.metric)} of a class", y=y)


def _histogram(axes: Axes, risks: np.ndarray, edges: np.ndarray, look: Series, title: str) -> None:
    counts, _ = np.histogram(risks, edges)
    axes.stairs(counts, edges, color=look.colour, linestyle=look.line, linewidth=1.8, label=caption(title))
    axes.stairs(counts, edges, color=look.colour, alpha=0.12, fill=True)


def _cumulative(axes: Axes, risks: np.ndarray, look: Series, title: str) -> None:
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "drawstyle": "steps-post"}
    axes.plot(np.sort(risks), np.arange(1, len(risks) + 1), linewidth=1.5, label=caption(title), **style)


def _edges(values: np.ndarray, *, share: bool) -> np.ndarray:
    """Equal bins over what occurs: more of them for more classes, with round edges for shares."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    bins = int(np.clip(2.0 * len(values) ** 0.4, 8, 40))
    if not share:
        return np.linspace(low, high if high > low else low + 1.0, bins + 1)
    width = next((width for width in (0.002, 0.005, 0.01, 0.02, 0.025, 0.05) if (high - low) / width <= bins), 0.1)
    first, last = math.floor(low / width), max(math.ceil(high / width), math.floor(low / width) + 1)
    return width * np.arange(first, last + 1)


def has_frequencies(record: AuditRecord) -> bool:
    """Whether the classes' shares differ, so that a picture of risk against them says something."""
    shares = [share for share in record.reference.distribution if share > 0]
    return len(shares) > 1 and max(shares) > 1.001 * min(shares)


def every(model: ModelRecord) -> int:
    """One of how many classes is drawn, in order of their shares, where there are too many to draw."""
    return -(-len(model.classes) // MOST_DOTS)


def draw_frequency(axes: Axes, record: AuditRecord, number: int, theme: Theme) -> None:
    """Draw the classes of one model as dots: their share of the reference, and their risk."""
    model = record.models[number]
    pairs = [
        (entry.reference_share, entry.risk)
        for entry in model.classes
        if entry.risk is not None and math.isfinite(entry.risk) and entry.reference_share > 0
    ]
    points = np.array(sorted(pairs), dtype=np.float64).reshape(-1, 2)[:: every(model)]
    size = 6.0 if len(points) <= 30 else 4.5 if len(points) <= 300 else 3.0
    dots(axes, points, colour=series(theme, number).colour, size=size)
    words = Words(record)
    if len(points) and points[:, 0].max() > 8 * points[:, 0].min():
        log_axis(axes)
    percent_axis(axes.xaxis)
    if words.share:
        percent_axis(axes.yaxis)
    finish(axes, theme, x="share of the reference mix", y=f"{caption(words.metric)} of the class")
