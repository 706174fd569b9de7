"""What the figures share: mean curves with bands, axes, legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from advshift.report.style import Series, Theme, finish, percent_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TAUS", "curve_axes", "draw_band", "legend"]

TAUS = np.concatenate([np.linspace(0.0, 0.5, 11), np.linspace(0.6, 3.0, 25), [3.5, 4.0]])


def draw_band(
    axes: Axes,
    xs: Float[np.ndarray, " numbers"],
    values: Sequence[Float[np.ndarray, " numbers"]],
    look: Series,
    label: str,
) -> None:
    """Draw the mean over seeds, and a standard deviation on either side where there are several."""
    stacked = np.stack(list(values))
    mean = stacked.mean(axis=0)
    axes.plot(xs, mean, color=look.colour, linestyle=look.line, linewidth=1.8, label=label)
    if len(stacked) > 1:
        spread = stacked.std(axis=0, ddof=1)
        axes.fill_between(xs, mean - spread, mean + spread, color=look.colour, alpha=0.18, linewidth=0)


def curve_axes(axes: Axes, theme: Theme, *, split: str, relative: bool, title: str = "") -> None:
    """Label axes of worst-case curves."""
    percent_axis(axes.yaxis, signed=relative)
    where = {"test": "test images", "train_full": "training images", "validation": "tuning images"}[split]
    what = "worst case less ERM's\n(points)" if relative else "worst-case error"
    finish(axes, theme, x="radius τ of the KL ball (nats)", y=f"{what}, {where}", title=title)


def legend(axes: Axes, theme: Theme, **options: Any) -> None:
    """A legend without a frame."""
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, **options)
