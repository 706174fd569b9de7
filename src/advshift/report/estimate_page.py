"""One offline HTML file from an estimate's record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advshift.estimation.record import EstimateRecord
from advshift.report.estimate_pictures import MOST_ROWS, Draw, draw_accuracy, draw_fit, draw_mix
from advshift.report.estimate_words import EstimateWords, next_steps
from advshift.report.page import TEMPLATES, environment
from advshift.report.selection import readable
from advshift.report.style import THEMES, Theme, css_variables, figure, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["estimate_html"]


def estimate_html(record: EstimateRecord, *, saved: str | None = None, columns: Sequence[str] = ()) -> str:
    """Return an estimate's report as one HTML page, which asks for nothing beyond itself.

    Parameters
    ----------
    record
        What was found; the page shows it and computes nothing.
    saved, columns
        For the commands to type next: where the estimate was saved, and the options that named columns.
    """
    words = EstimateWords(record)
    return (
        environment()
        .get_template("estimate.html.j2")
        .render(
            record=record,
            words=words,
            pictures=_pictures(record),
            most=MOST_ROWS,
            steps=next_steps(record, saved, columns),
            themes={name: css_variables(theme) for name, theme in THEMES.items()},
            style=(TEMPLATES / "style.css").read_text(),
            provenance=_provenance(record, words),
        )
    )


def _pictures(record: EstimateRecord) -> dict[str, str]:
    table = "The numbers stand in the table of the classes."
    wanted: dict[str, tuple[Draw, str, str]] = {
        "mix": (draw_mix, "Share of each class in the source and, estimated, in the target", table),
        "accuracy": (draw_accuracy, "Accuracy on the source and expected on the target", "The answer has the numbers."),
        "fit": (draw_fit, "How often each class is predicted, and what the nearest label shift explains", table),
    }
    if record.shift_test is None:
        del wanted["fit"]
    return {name: _svg(record, name, *one) for name, one in wanted.items()}


def _svg(record: EstimateRecord, name: str, draw: Draw, title: str, description: str) -> str:
    def made(theme: Theme) -> Figure:
        whole, (axes,) = figure(theme)
        draw(axes, record, theme)
        return whole

    return to_svg(made, name=name, title=title, description=description)


def _provenance(record: EstimateRecord, words: EstimateWords) -> list[tuple[str, str]]:
    """Where the numbers come from, as pairs of a name and a text."""
    return [
        ("Method", words.method),
        ("Confidence", words.confidence),
        ("Seed", "–" if record.seed is None else str(record.seed)),
        ("Made", record.created.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("advshift", readable(record.version)),
        ("Command", "–" if record.command is None else readable(record.command)),
    ]
