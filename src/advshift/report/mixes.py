"""The worst mixes: how much of the population the worst classes hold, at three radii."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.audit.record import AuditRecord
from advshift.report.selection import three_mixes
from advshift.report.style import Theme, finish, percent_axis, series
from advshift.report.words import Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_mixes"]

LOOKS: tuple[tuple[Any, float], ...] = (
    (":", 1.2),
    ((0, (6, 2)), 1.4),
    ((0, (7, 2, 1.5, 2)), 1.7),
    ("-", 2.0),
)  # the reference, then three radii


def draw_mixes(axes: Axes, record: AuditRecord, number: int, theme: Theme) -> None:
    """Draw, for the reference and three worst mixes, the share that the classes hold, counted from the worst one."""
    model, words = record.models[number], Words(record)
    order = _worst_first(record, number)
    mixes = [("reference", record.reference.distribution)]
    mixes += [(words.plain_radius(point), point.distribution or []) for point in three_mixes(record, model)]
    colour = series(theme, number).colour
    for index, (label, mix) in enumerate(mixes):
        held = np.concatenate([[0.0], np.cumsum(np.array(mix)[order])])
        line, width = LOOKS[index]
        look: dict[str, Any] = {"color": theme.faint if index == 0 else colour, "linestyle": line, "linewidth": width}
        axes.plot(np.arange(len(held)), held, label=label, **look)
    percent_axis(axes.yaxis)
    axes.set_xlim(0, len(order))
    axes.set_ylim(0, 1.02)
    _legend(axes, theme)
    finish(axes, theme, x="classes, counted from the worst", y="share of the mix held")


def _worst_first(record: AuditRecord, number: int) -> np.ndarray:
    risks = {entry.label: entry.risk for entry in record.models[number].classes}
    sign = -1.0 if record.metric.higher_is_worse else 1.0
    keys = [risks.get(label) for label in record.reference.classes]
    return np.argsort([np.inf if key is None else sign * key for key in keys], kind="stable")


def _legend(axes: Axes, theme: Theme) -> None:
    legend = axes.legend(loc="lower right", fontsize=10, labelcolor=theme.ink, facecolor=theme.paper, framealpha=0.85)
    legend.get_frame().set_edgecolor("none")
