"""One look for every figure of the project: themes, series, axes, and SVG that follows the page's theme.

Colours are told apart by people with any colour vision, and never carry a meaning alone: a series has a line style
and a marker as well. Figures are made without pyplot, so no global state is touched and no window opens.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from advshift.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "THEMES",
    "Series",
    "Theme",
    "caption",
    "css_variables",
    "dots",
    "figure",
    "finish",
    "log_axis",
    "percent_axis",
    "series",
    "theme_named",
    "to_svg",
    "write_svg",
]

ThemeName = Literal["light", "dark"]


class Theme(NamedTuple):
    """The colours of a page and its figures; in SVG each becomes a CSS variable."""

    paper: str
    ink: str
    faint: str
    grid: str
    series: tuple[str, ...]


# Lines stand on their paper with a contrast of at least 3:1, and the first four stay apart for every kind of vision.
THEMES: dict[str, Theme] = {
    "light": Theme(
        paper="#ffffff",
        ink="#1b1f24",
        faint="#59636e",
        grid="#dfe3e8",
        series=("#0064c8", "#c44e00", "#005c3a", "#a8508c", "#8a6100", "#4a4f57"),
    ),
    "dark": Theme(
        paper="#14181d",
        ink="#e8ebee",
        faint="#9ba6b2",
        grid="#333b45",
        series=("#6aa9ff", "#ff8a3d", "#66e08a", "#f2b6d8", "#e6c229", "#b8c0c9"),
    ),
}
LINES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (7, 2, 1.5, 2)), (0, (3, 1.2)), (0, (7, 1.5, 1.5, 1.5, 1.5, 1.5)))
SHAPES = {
    "o": "M14.2 5a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0-5.6 0",
    "s": "M14.4 2.4h5.2v5.2h-5.2z",
    "^": "M17 1.8l3.3 5.7h-6.6z",
    "D": "M17 1.4l3.6 3.6l-3.6 3.6l-3.6-3.6z",
    "v": "M17 8.2l3.3-5.7h-6.6z",
    "P": "M16 2h2v2h2v2h-2v2h-2v-2h-2v-2h2z",
    "X": "M14.6 2.6l4.8 4.8M19.4 2.6l-4.8 4.8",
}
MARKERS = tuple(SHAPES)
SIZE = (4.8, 3.3)  # inches of one picture
LONG = 1000  # letters above which a path is written to a tenth of a point


class Series(NamedTuple):
    """How one model is drawn everywhere."""

    colour: str
    line: Any
    marker: str

    @property
    def dashes(self) -> str:
        """The line style as SVG has it."""
        return "none" if self.line == "-" else " ".join(f"{1.8 * length:g}" for length in self.line[1])

    @property
    def shape(self) -> str:
        """The marker as an SVG path around the point (17, 5)."""
        return SHAPES[self.marker]


def theme_named(name: str) -> Theme:
    """Return a theme, or say which there are."""
    if name not in THEMES:
        raise InputError(f"unknown theme {name!r} (known: {', '.join(THEMES)})")
    return THEMES[name]


def series(theme: Theme, number: int) -> Series:
    """Return the look of series `number`: colours, lines and markers repeat with different periods."""
    colours = theme.series
    return Series(colours[number % len(colours)], LINES[number % len(LINES)], MARKERS[number % len(MARKERS)])


def css_variables(theme: Theme) -> dict[str, str]:
    """Return the theme's colours by the names of their CSS variables."""
    named = {field: getattr(theme, field) for field in ("paper", "ink", "faint", "grid")}
    return named | {f"series-{number + 1}": colour for number, colour in enumerate(theme.series)}


@contextmanager
def _settings(more: dict[str, Any] | None = None) -> Iterator[None]:
    """Settings that matplotlib only takes globally, for a moment; symbols missing from its font are the page's."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {"font.size": 11, "hatch.linewidth": 0.7} | (more or {})
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def figure(theme: Theme, panels: int = 1, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Make a figure with so many empty, styled axes, side by side from the left."""
    from matplotlib.figure import Figure

    across = min(panels, columns)
    down = -(-panels // across)
    with _settings():
        made = Figure(figsize=(SIZE[0] * across, SIZE[1] * down), layout="constrained", facecolor=theme.paper)
        axes = [made.add_subplot(down, across, number + 1) for number in range(panels)]
    for one in axes:
        _dress(one, theme)
    return made, axes


def _dress(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor(theme.paper)
    axes.grid(visible=True, color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)
    axes.tick_params(colors=theme.faint, labelcolor=theme.ink, labelsize=10)


def finish(axes: Axes, theme: Theme, *, x: str, y: str, title: str = "") -> None:
    """Label the axes; a title is for figures that stand alone."""
    axes.set_xlabel(x, color=theme.ink, fontsize=11)
    axes.set_ylabel(y, color=theme.ink, fontsize=11)
    if title:
        axes.set_title(title, color=theme.ink, loc="left", fontsize=12)


def caption(text: str, longest: int = 28) -> str:
    """Shorten a name, and keep matplotlib from reading it as mathematics or as hidden."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return short.replace("$", r"\$").lstrip("_")


def dots(axes: Axes, points: np.ndarray, *, colour: str, size: float) -> None:
    """Draw many dots as one path of points with round ends: a fraction of the size that markers take in SVG."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not len(points):
        return
    codes = [Path.MOVETO, Path.LINETO] * len(points)
    path = Path(np.repeat(points, 2, axis=0), codes)
    path.should_simplify = False
    look = {"facecolor": "none", "edgecolor": colour, "linewidth": size, "alpha": 0.6, "capstyle": "round"}
    axes.add_patch(PathPatch(path, **look))
    axes.update_datalim(points)
    axes.autoscale_view()


def log_axis(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with few ticks in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.minorticks_off()


def percent_axis(axis: Any, *, signed: bool = False) -> None:
    """Write the ticks of an axis of fractions in per cent, or in signed points."""
    from matplotlib.ticker import FuncFormatter

    def written(value: float, _: int) -> str:
        number = round(100.0 * value, 6)
        sign = "+" if signed and number > 0 else ""
        return f"{sign}{number:g}".replace("-", "−") + ("" if signed else " %")

    axis.set_major_formatter(FuncFormatter(written))


def write_svg(made: Figure, path: Path) -> None:
    """Save a figure as SVG whose bytes depend on what it shows alone."""
    with _settings({"svg.hashsalt": path.stem}):
        made.savefig(path, metadata={"Date": None})


def to_svg(draw: Callable[[Theme], Figure], *, name: str, title: str, description: str) -> str:
    """Draw a figure and return inline SVG whose colours are CSS variables, with a title and a description.

    Parameters
    ----------
    draw
        Takes a theme and returns the figure.
    name
        Sets the picture's ids apart from those of the others on the page.
    title, description
        What a reader who does not see the picture is told.
    """
    theme = THEMES["light"]
    buffer = io.StringIO()
    with _settings({"svg.fonttype": "none", "svg.hashsalt": name}):
        draw(theme).savefig(buffer, format="svg", metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())
    _simplify(root, name)
    _describe(root, name, title, description)
    return _with_variables(ET.tostring(root, encoding="unicode"), theme)


def _simplify(root: ET.Element, name: str) -> None:
    """Drop namespaces, metadata, styles that would leak into the page, and digits that nobody sees."""
    text = " ".join(value for element in root.iter() for value in element.attrib.values())
    used = set(re.findall(r"#([\w-]+)", text))
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        kept = {key.rpartition("}")[2]: value for key, value in parent.attrib.items()}
        if "id" in kept and kept["id"] not in used:
            del kept["id"]
        shorter = {key: _shorter(key, value, name) for key, value in kept.items()}
        parent.attrib = {key: value for key, value in shorter.items() if value}
        parent.text, parent.tail = (parent.text or "").strip() or None, None
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    _flatten(root)


def _flatten(parent: ET.Element) -> None:
    """Put the content of groups that say nothing in their place."""
    children: list[ET.Element] = []
    for child in parent:
        _flatten(child)
        silent = child.tag in ("g", "defs") and not child.attrib
        children += list(child) if silent and (child.tag == "g" or not len(child)) else [child]
    parent[:] = children


def _shorter(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "style":
        value = re.sub(r"font-family: [^;]+; ?", "", value)
    value = re.sub(r"url\(#([\w-]+)\)", rf"url(#{name}-\1)", value)
    if key == "href":
        value = value.replace("#", f"#{name}-", 1)
    digits = 1 if len(value) > LONG else 2
    value = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.{digits}f}".rstrip("0").rstrip("."), value)
    if key == "transform":
        value = re.sub(r"rotate\(-?0 [^)]*\) ?", "", value)
    return _shorter_path(value) if key == "d" else value


def _shorter_path(path: str) -> str:
    """The same path in fewer letters; a line to where it starts is a dot."""
    path = re.sub(r"\s*([A-Za-z])\s*", r"\1", re.sub(r"\s+", " ", path))
    return re.sub(r"M(\S+ \S+?)L\1(?![\d.])", r"M\1h0", path)


def _describe(root: ET.Element, name: str, title: str, description: str) -> None:
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    labels = {"title": title, "desc": description}
    for position, (tag, text) in enumerate(labels.items()):
        element = ET.Element(tag, {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(position, element)
    root.attrib |= {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria-labelledby": " ".join(f"{name}-{tag}" for tag in labels),
    }


def _with_variables(svg: str, theme: Theme) -> str:
    for variable, colour in css_variables(theme).items():
        svg = svg.replace(f": {colour}", f": var(--{variable})")
    return svg
