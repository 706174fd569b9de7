"""One offline HTML file from an audit's record. The page asks for nothing beyond itself and reads without scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advshift.audit.record import AroundRecord, AuditRecord, ClassRecord, CurvePoint, ModelRecord
from advshift.files import write_atomically
from advshift.report import classes, curves, mixes
from advshift.report.selection import (
    estimate,
    first_to_fix,
    gains,
    readable,
    three_mixes,
    titles,
    unmoved,
    worst_classes,
)
from advshift.report.style import THEMES, Theme, css_variables, figure, series, to_svg
from advshift.report.words import Words, ratio_number

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["environment", "html", "write_html"]

TEMPLATES = Path(__file__).parent / "templates"
MOST_GAINS = 10
MOST_CLASSES = 12
Draw = Callable[["Axes", AuditRecord, Theme], None]
MOST_DETAILED = 6  # models that get pictures and tables of their own; the curves show all


def write_html(record: AuditRecord, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, whole or not at all."""
    write_atomically(path, html(record))


def html(record: AuditRecord) -> str:
    """Return an audit's report as one HTML page.

    Parameters
    ----------
    record
        What the audit found; the page shows it and computes nothing.
    """
    words = Words(record)
    return (
        environment()
        .get_template("audit.html.j2")
        .render(
            record=record,
            words=words,
            models=[_model(record, words, number) for number in range(len(record.models))],
            detailed=MOST_DETAILED,
            pictures=_pictures(record, words),
            themes={name: css_variables(theme) for name, theme in THEMES.items()},
            style=(TEMPLATES / "style.css").read_text(),
            script=(TEMPLATES / "slider.js").read_text(),
            slider=_slider(record, words),
            provenance=_provenance(record, words),
            ratio_number=ratio_number,
            estimate=estimate,
            has_common=_has_common(record),
            intervals={point.interval for model in record.models for point in model.curve},
        )
    )


def environment() -> Environment:
    """What renders the templates: everything is escaped, and an unknown name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters["readable"] = readable
    return made


def _model(record: AuditRecord, words: Words, number: int) -> dict[str, Any]:
    """What the page says of one model."""
    model = record.models[number]
    look = series(THEMES["light"], number)
    return {
        "number": number,
        "model": model,
        "title": titles(record)[number],
        "answer": words.answer(model),
        "worst_class": words.worst_class(model),
        "breaking_points": [words.breaking_point(model, broken) for broken in model.breaking_points],
        "comparison": words.comparison(record.models[0], model) if number else None,
        "mixes": [_mix(record, words, model, point) for point in three_mixes(record, model)],
        "worst": _bars(words, worst_classes(record, model, MOST_CLASSES)),
        "fix": first_to_fix(record, model, MOST_GAINS),
        "fix_at": _radius_of_marginals(record, words, model),
        "has_intervals": any(entry.lower is not None or entry.upper is not None for entry in model.classes),
        "unknown": sum(entry.risk is None for entry in model.classes),
        "every": classes.every(model),
        "colour": f"var(--series-{number % len(THEMES['light'].series) + 1})",
        "dashes": look.dashes,
        "shape": look.shape,
    }


def _mix(record: AuditRecord, words: Words, model: ModelRecord, point: CurvePoint) -> dict[str, Any]:
    """A worst mix as the page and its slider show it: everything is text and widths by now."""
    found = gains(record, model, point, MOST_GAINS)
    widest = max([max(gain.before, gain.after) for gain in found], default=1.0)
    return {
        "radius": words.plain_radius(point),
        "words": words.radius(point),
        "value": words.value(estimate(point)),
        "interval": words.interval(point),
        "rows": [
            [
                gain.label,
                "new" if gain.ratio is None else f"×{ratio_number(gain.ratio)}",
                f"{words.share_of(gain.before)} → {words.share_of(gain.after)}",
                words.value(gain.risk),
                "–" if gain.adds is None else words.bare(gain.adds),
                round(100.0 * gain.before / widest, 1),
                round(100.0 * gain.after / widest, 1),
            ]
            for gain in found
        ],
    }


def _slider(record: AuditRecord, words: Words) -> str:
    """Every worst mix of every model, as JSON that is safe inside a script element."""
    points = [
        [
            _mix(record, words, model, point)
            for point in model.curve
            if point.distribution is not None and not unmoved(record, point)
        ]
        for model in record.models[:MOST_DETAILED]
    ]
    text = json.dumps(points, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _bars(words: Words, entries: list[ClassRecord]) -> list[dict[str, Any]]:
    """The worst classes with the places of their dots and intervals on a common scale, in per cent of its width."""
    ends = [value for entry in entries for value in (entry.lower, entry.risk, entry.upper) if value is not None]
    low, high = min([0.0, *ends]), max([*ends, 0.0])
    width = (high - low) or 1.0

    def place(*values: float | None) -> float:
        known = next((value for value in values if value is not None), low)
        return round(100.0 * (known - low) / width, 1)

    return [
        {
            "entry": entry,
            "dot": place(entry.risk),
            "start": place(entry.lower, entry.risk),
            "end": place(entry.upper, entry.risk),
            "interval": words.span(entry.lower, entry.upper),
        }
        for entry in entries
    ]


def _radius_of_marginals(record: AuditRecord, words: Words, model: ModelRecord) -> str | None:
    """Where on the curve the marginal effects were taken: their mix is one of the curve's."""
    effects = {entry.label: entry.marginal for entry in model.classes}
    wanted = [effects.get(label) or 0.0 for label in record.reference.classes]
    for point in model.curve:
        if point.distribution is not None and all(
            abs(ours - theirs) < 1e-9 for ours, theirs in zip(wanted, point.distribution, strict=True)
        ):
            return words.radius(point)
    return None


def _pictures(record: AuditRecord, words: Words) -> dict[str, Any]:
    """Every picture as inline SVG; what cannot be drawn is left out."""
    shown = range(min(len(record.models), MOST_DETAILED))
    names = titles(record)
    risks = any(len(classes.known_risks(model)) for model in record.models)
    return {
        **_curves(record, words),
        "risks": _risks(record, words) if risks else "",
        "frequency": [
            _frequency(record, words, number, names[number])
            for number in shown
            if risks and classes.has_frequencies(record)
        ],
        "mixes": [
            (number, _mixes(record, number, names[number]))
            for number in shown
            if three_mixes(record, record.models[number])
        ],
    }


def _curves(record: AuditRecord, words: Words) -> dict[str, str]:
    """The curves: each model under its own adversary, against the first, and all under the first one's adversary."""
    worst = f"Worst-case {words.metric}"
    titled: dict[str, tuple[Draw, str, bool]] = {
        "absolute": (curves.draw_absolute, f"{worst} over the {words.radius_name}", True),
        "relative": (curves.draw_relative, f"{worst} less that of the first model", len(record.models) > 1),
        "common": (curves.draw_common, f"{words.metric} under the first model's worst mixes", _has_common(record)),
    }
    drawn = curves.drawable(record)
    return {
        name: _svg(draw, record, name, title, "The numbers stand in a table.") if wanted and drawn else ""
        for name, (draw, title, wanted) in titled.items()
    }


def _has_common(record: AuditRecord) -> bool:
    return any(point.common is not None for model in record.models for point in model.curve)


def _risks(record: AuditRecord, words: Words) -> str:
    return _svg(
        classes.draw_risks,
        record,
        "risks",
        f"How many classes have which {words.metric}",
        "The worst classes stand in a table.",
    )


def _frequency(record: AuditRecord, words: Words, number: int, name: str) -> str:
    return _svg(
        lambda axes, record, theme: classes.draw_frequency(axes, record, number, theme),
        record,
        f"frequency{number}",
        f"Share of the reference mix against {words.metric}, for each class, {name}",
        "The worst classes stand in a table.",
    )


def _mixes(record: AuditRecord, number: int, name: str) -> str:
    return _svg(
        lambda axes, record, theme: mixes.draw_mixes(axes, record, number, theme),
        record,
        f"mixes{number}",
        f"Share that the worst classes hold, in the reference and in three worst mixes, {name}",
        "The tables of the mixes hold the classes that gain most.",
    )


def _svg(draw: Draw, record: AuditRecord, name: str, title: str, description: str) -> str:
    def made(theme: Theme) -> Figure:
        whole, (axes,) = figure(theme)
        draw(axes, record, theme)
        return whole

    return to_svg(made, name=name, title=title, description=description)


def _provenance(record: AuditRecord, words: Words) -> list[tuple[str, str]]:
    """Where the numbers come from, as pairs of a name and a text."""
    parameters = record.uncertainty_set.parameters
    return [
        ("Metric", f"{words.metric}, {'higher' if record.metric.higher_is_worse else 'lower'} is worse"),
        ("Set of mixes", words.set_name),
        *[(f"Parameter {readable(name)}", _short(value)) for name, value in parameters.items()],
        *([] if record.around is None else [("Estimate", _around(record.around, words))]),
        ("Reference", f"{readable(record.reference.source)}, {len(record.reference.classes):,} classes"),
        ("Confidence", words.confidence),
        ("Seed", "–" if record.seed is None else str(record.seed)),
        ("Made", record.created.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("advshift", readable(record.version)),
        ("Command", "–" if record.command is None else readable(record.command)),
    ]


def _around(around: AroundRecord, words: Words) -> str:
    radius = (
        ""
        if around.radius is None
        else f", {100 * around.confidence:g} % confidence of radius {words.number(around.radius)}"
    )
    return f"{readable(around.source)}, {around.rows:,} unlabelled examples{radius}"


def _short(value: Any, longest: int = 200) -> str:
    text = readable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
