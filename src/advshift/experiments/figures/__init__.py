"""The figures of the reproduction, each from recorded runs alone; nothing here trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from advshift.errors import InputError
from advshift.experiments.figures.adversaries import draw_adversary, draw_radius_obtained
from advshift.experiments.figures.classes import draw_classes, draw_frequency, draw_gap, draw_violins
from advshift.experiments.figures.curves import (
    draw_common,
    draw_fine_tuned,
    draw_headline,
    draw_methods,
    draw_radii,
    draw_trade_off,
    draw_values,
)
from advshift.experiments.figures.factors import draw_clipping, draw_factors
from advshift.experiments.figures.linear import draw_linear
from advshift.experiments.records import Record
from advshift.registry import nearest
from advshift.report.style import THEMES, Theme, write_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw_figures"]

Records = Mapping[str, Record]

FIGURES: dict[str, Callable[[Records, Theme], "Figure"]] = {
    "headline": draw_headline,
    "radii": draw_radii,
    "methods": draw_methods,
    "violins": draw_violins,
    "adversary": draw_adversary,
    "clipping": draw_clipping,
    "factors": draw_factors,
    "frequency": draw_frequency,
    "common": draw_common,
    "values": draw_values,
    "radius-obtained": draw_radius_obtained,
    "classes": draw_classes,
    "gap": draw_gap,
    "trade-off": draw_trade_off,
    "fine-tuned": draw_fine_tuned,
    "linear": draw_linear,
}


def draw_figures(
    records: Records, folder: Path, names: list[str] | None = None, tell: Callable[[str], None] = lambda line: None
) -> int:
    """Draw figures in both themes; one whose runs are not recorded is named and left out.

    Parameters
    ----------
    records
        By key.
    folder
        Where the SVG files go.
    names
        Which figures; all by default.
    tell
        Is told a line for each.
    """
    for name in names or []:
        if name not in FIGURES:
            raise InputError(f"unknown figure {name!r}{nearest(name, FIGURES)} (known: {', '.join(FIGURES)})")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for name in names or FIGURES:
        try:
            for theme_name, theme in THEMES.items():
                made = FIGURES[name](records, theme)
                write_svg(made, folder / f"reproduce-{name}-{theme_name}.svg")
        except InputError as error:
            tell(f"{name}: left out, {error}")
            continue
        drawn += 1
        tell(f"{name}: drawn")
    return drawn
