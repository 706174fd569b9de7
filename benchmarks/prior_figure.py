"""The picture and the table of the estimators' errors against the size of the target, from saved records alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from advshift.report.style import THEMES, Theme, figure, finish, series, write_svg

__all__ = ["draw_records", "table"]

TITLES = {
    "digits": "digits",
    "reuters": "Reuters-52",
    "cifar100": "CIFAR-100",
    "simulated-few": "simulated",
    "simulated": "simulated",
}
SHOWN = {  # a label, and the methods of a record that it stands for
    "advshift auto": ("auto",),
    "QuaPy EMQ": ("quapy EMQ",),
    "QuaPy EMQ-BCTS": ("quapy EMQ-BCTS",),
    "QuaPy PACC": ("quapy PACC",),
    "best other peer": (),
}


def _records(folder: Path) -> dict[str, dict]:
    paths = {name: folder / "results" / f"benchmark-priors-{name}.json" for name in TITLES}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def table(folder: Path) -> str:
    """The table of the documentation: per cell the recommended estimator beside the best peer."""
    lines = [
        "| predictions | classes | labelled | target | draws | auto | best peer | its error | excess | upper 95 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, record in _records(folder).items():
        for cell in record["cells"]:
            entry, best = cell["methods"]["auto"], cell["best_peer"]
            shares = (f"{100 * entry[key]:+.1f} %".replace("-", "−") for key in ("excess", "excess_upper_95"))
            errors = (f"{entry['error']:.4f}", best, f"{cell['methods'][best]['error']:.4f}", *shares)
            sizes = (record["classes"], record["source"], cell["target"], record["draws"])
            lines.append(f"| {' | '.join([TITLES[name], *(f'{size:,}' for size in sizes), *errors])} |")
    return "\n".join(lines)


def draw_records(folder: Path) -> None:
    """Draw the records with targets of several sizes, in both themes."""
    records = {name: record for name, record in _records(folder).items() if len(record["cells"]) > 1}
    for name, theme in THEMES.items():
        write_svg(_picture(records, theme), folder / "images" / f"estimators-{name}.svg")


def _picture(records: dict[str, dict], theme: Theme) -> Figure:
    made, panels = figure(theme, panels=len(records))
    for axes, (name, record) in zip(panels, records.items(), strict=True):
        _draw(axes, record, theme)
        title = f"{TITLES[name]}, {record['classes']} classes"
        finish(axes, theme, x="rows of the target", y="mean L1 error", title=title)
    panels[0].legend(frameon=False, labelcolor=theme.ink, fontsize=8)
    return made


def _draw(axes: Axes, record: dict, theme: Theme) -> None:
    sizes = [cell["target"] for cell in record["cells"]]
    for number, (label, names) in enumerate(SHOWN.items()):
        values = [_error(cell, names) for cell in record["cells"]]
        if np.isfinite(values).any():
            look = series(theme, number)
            axes.plot(sizes, values, label=label, color=look.colour, linestyle=look.line, marker=look.marker)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()


def _error(cell: dict, names: tuple[str, ...]) -> float:
    """The smallest error of these methods, or of the peers that have no line of their own."""
    shown = {name for group in SHOWN.values() for name in group}
    others = names or tuple(name for name, entry in cell["methods"].items() if not entry["ours"] and name not in shown)
    return min((cell["methods"][name]["error"] for name in others if name in cell["methods"]), default=np.nan)
