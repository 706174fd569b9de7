"""The report's pictures as one matplotlib figure, for notebooks and papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from advshift.audit.record import AuditRecord
from advshift.report import classes, curves, mixes
from advshift.report.selection import three_mixes
from advshift.report.style import Theme, figure, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

Draw = Callable[["Axes", AuditRecord, Theme], None]


def plot(record: AuditRecord, theme: str = "light") -> Figure:
    """Draw an audit as one figure: the worst-case curves, the classes' risks and the first model's worst mixes.

    Parameters
    ----------
    record
        What the audit found.
    theme
        `"light"` or `"dark"`.
    """
    colours = theme_named(theme)
    panels = _panels(record)
    made, axes = figure(colours, max(len(panels), 1))
    for one, (title, draw) in zip(axes, panels, strict=False):
        draw(one, record, colours)
        one.set_title(title, color=colours.ink, loc="left", fontsize=12)
    if len(record.models) > 1 and panels:
        handles, labels = axes[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink)
    return made


def _panels(record: AuditRecord) -> list[tuple[str, Draw]]:
    panels: list[tuple[str, Draw]] = []
    if curves.drawable(record):
        panels.append(("Worst case", curves.draw_absolute))
    if curves.drawable(record) and len(record.models) > 1:
        panels.append(("Against the first model", curves.draw_relative))
    if any(len(classes.known_risks(model)) for model in record.models):
        panels.append(("Classes", classes.draw_risks))
    if record.models and three_mixes(record, record.models[0]):
        panels.append(("Worst mixes", lambda axes, record, theme: mixes.draw_mixes(axes, record, 0, theme)))
    return panels
