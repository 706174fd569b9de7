"""What adversaries do in training: the weights of classes over the epochs, and the radius that they really reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advshift.experiments.figures.common import legend
from advshift.experiments.protocol import RADII
from advshift.experiments.records import Record
from advshift.experiments.selection import name_of, runs_of
from advshift.experiments.worst_case import curve
from advshift.report.style import Theme, figure, finish, log_axis, percent_axis, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_adversary", "draw_radius_obtained", "reached"]


def draw_adversary(records: Mapping[str, Record], theme: Theme) -> Figure:
    """How many times its own share each class counts, epoch by epoch (paper's figure 4)."""
    made, panels = figure(theme, panels=2)
    for axes, method in zip(panels, ("advshift", "exact-late"), strict=True):
        _weights(axes, runs_of(records, "main", method)[0], theme, name_of(method))
    legend(panels[0], theme)
    return made


def _weights(axes: Axes, run: Record, theme: Theme, title: str) -> None:
    weights = run.arrays["distribution"] / run.reference
    epochs = run.arrays["epochs"][: len(weights)]
    order = np.argsort(run.risks("train_full"))
    parts = (("hardest 10 classes", order[-10:]), ("middle 10", order[45:55]), ("easiest 10", order[:10]))
    for number, (label, classes) in enumerate(parts):
        look = series(theme, number)
        chosen = weights[:, classes]
        axes.fill_between(epochs, chosen.min(axis=1), chosen.max(axis=1), color=look.colour, alpha=0.2, linewidth=0)
        axes.plot(epochs, chosen.mean(axis=1), color=look.colour, linestyle=look.line, label=label)
    axes.set_xticks([epoch for epoch in epochs if epoch % 4 == 0])
    finish(axes, theme, x="epoch", y="weight of a class π/p (times)", title=title)


def reached(run: Record) -> float:
    """The mean divergence of the adversary from the training distribution over the last half of the epochs (nats)."""
    mixes = run.arrays["distribution"].astype(float)
    mixes = mixes[len(mixes) // 2 :]
    ratio = np.where(mixes > 0, mixes / run.reference, 1.0)
    return float((mixes * np.log(ratio)).sum(axis=1).mean())


def draw_radius_obtained(records: Mapping[str, Record], theme: Theme) -> Figure:
    """The radius that was asked for against the divergence that was reached, and against the worst case obtained."""
    made, (left, right) = figure(theme, panels=2)
    left.plot(RADII, RADII, color=theme.faint, linewidth=1.2, label="as asked for")
    for number, kind in enumerate(("advshift", "exact")):
        look = series(theme, number)
        style = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "markersize": 5}
        runs = [runs_of(records, "radii", f"{kind}-{radius:g}") for radius in RADII]
        left.plot(RADII, [np.mean([reached(run) for run in group]) for group in runs], label=name_of(kind), **style)
        values = [np.mean([curve(run, "test", [1.0])[0] for run in group]) for group in runs]
        right.plot(RADII, values, label=name_of(kind), **style)
    erm = np.mean([curve(run, "test", [1.0])[0] for run in runs_of(records, "radii", "erm")])
    right.axhline(erm, color=theme.faint, linewidth=1.2)
    right.annotate("ERM", (RADII[0], erm), xytext=(0, 4), textcoords="offset points", color=theme.ink, fontsize=9)
    left.set_yscale("log")
    for axes in (left, right):
        log_axis(axes)
        axes.set_xticks(RADII, [f"{radius:g}" for radius in RADII])
    percent_axis(right.yaxis)
    finish(left, theme, x="trained radius r (nats)", y="KL(π ‖ p) reached (nats)")
    finish(right, theme, x="trained radius r (nats)", y="worst-case error at τ = 1,\ntest images")
    legend(left, theme)
    return made
