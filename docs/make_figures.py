"""Draw the pictures of the uncertainty sets: three classes on a triangle, the set, and its worst case.

    python docs/make_figures.py

Every label distribution of three classes is a point of the triangle. A set's outline is found by the set itself: its
worst case in each of many directions is a point of its edge.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from advshift.report.style import THEMES, Theme, figure, series, write_svg
from advshift.sets import (
    Box,
    ChiSquareBall,
    FrequencyCap,
    KLBall,
    ReverseKLBall,
    Simplex,
    TopK,
    TotalVariationBall,
    UncertaintySet,
)

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
REFERENCE = np.array([0.5, 0.3, 0.2])
RISKS = np.array([0.05, 0.15, 0.40])
NAMES = ("easy class\nerror 5 %", "middling class\nerror 15 %", "hard class\nerror 40 %")

PICTURES: dict[str, UncertaintySet] = {
    "kl": KLBall(0.1),
    "reverse-kl": ReverseKLBall(0.1),
    "chi2": ChiSquareBall(0.1),
    "tv": TotalVariationBall(0.2),
    "frequency-cap": FrequencyCap(1.6),
    "top-k": TopK(1.5),
    "simplex": Simplex(),
    "box": Box([0.3, 0.1, 0.1], [0.6, 0.5, 0.4]),
}


def outline(uncertainty_set: UncertaintySet) -> np.ndarray:
    """The edge of a set, as points of the plane: the worst case in every direction, in the order of the angles."""
    angles = np.linspace(0.0, 2.0 * np.pi, 720, endpoint=False) + 1e-4
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    points = uncertainty_set.worst_case(directions @ CORNERS.T, REFERENCE).distribution @ CORNERS
    return np.concatenate([points, points[:1]])


def draw(axes: Axes, uncertainty_set: UncertaintySet, theme: Theme) -> None:
    """One triangle: level lines of the risk, the set, its centre and its worst case."""
    axes.set_axis_off()
    axes.set_aspect("equal")
    corners = np.concatenate([CORNERS, CORNERS[:1]])
    grid = np.array([[a, b, 1 - a - b] for a in np.linspace(0, 1, 60) for b in np.linspace(0, 1 - a, 60)])
    plane = grid @ CORNERS
    levels = axes.tricontour(
        *plane.T, grid @ RISKS, levels=np.arange(0.1, 0.4, 0.05), colors=[theme.faint], linewidths=0.5
    )
    axes.clabel(levels, fmt=lambda level: f"{100 * level:.0f} %", fontsize=8, colors=theme.faint)
    axes.plot(*corners.T, color=theme.faint, linewidth=1.2)
    blue, orange = series(theme, 0), series(theme, 1)
    axes.fill(*outline(uncertainty_set).T, facecolor=blue.colour, alpha=0.25)
    axes.plot(*outline(uncertainty_set).T, color=blue.colour, linewidth=1.8, label="the set")
    worst = uncertainty_set.worst_case(RISKS, REFERENCE)
    centre, target = REFERENCE @ CORNERS, worst.distribution @ CORNERS
    axes.plot(*centre, "o", color=theme.ink, markersize=7, label=f"reference: {100 * REFERENCE @ RISKS:.1f} %")
    axes.plot(*target, "s", color=orange.colour, markersize=8, label=f"worst case: {100 * worst.value:.1f} %")
    if not np.allclose(centre, target):
        axes.annotate(
            "", target, centre, arrowprops={"arrowstyle": "->", "color": theme.ink, "shrinkA": 6, "shrinkB": 6}
        )
    for corner, name, place in zip(
        CORNERS, NAMES, (("left", "top"), ("right", "top"), ("center", "bottom")), strict=True
    ):
        shift = -0.03 if place[1] == "top" else 0.03
        axes.text(corner[0], corner[1] + shift, name, ha=place[0], va=place[1], color=theme.ink, fontsize=9)
    axes.legend(loc="upper left", bbox_to_anchor=(0.72, 1.0), frameon=False, labelcolor=theme.ink, fontsize=9)
    axes.set_xlim(-0.05, 1.45)


def picture(uncertainty_set: UncertaintySet, theme: Theme) -> Figure:
    """The figure of one set."""
    made, (axes,) = figure(theme)
    draw(axes, uncertainty_set, theme)
    return made


def main() -> None:
    """Write every picture in both themes."""
    folder = Path(__file__).parent / "images"
    folder.mkdir(exist_ok=True)
    for name, uncertainty_set in PICTURES.items():
        for theme_name, theme in THEMES.items():
            write_svg(picture(uncertainty_set, theme), folder / f"set-{name}-{theme_name}.svg")
    print(f"{2 * len(PICTURES)} pictures in {folder}")


if __name__ == "__main__":
    main()
