"""A watch in words: one line per report, from its record alone."""

from __future__ import annotations

from typing import Any

__all__ = ["beginning", "columns", "sentence"]

MOVED = 3  # classes that a line names
WIDTHS = (24, 8, 24)  # of the columns between the place in the stream and the classes
COUNTED, TIMED = 12, 19  # the width of a number of examples, and of a time


def beginning(header: dict[str, Any]) -> str:
    """Say what is watched, and what the alarms mean."""
    settings = header["settings"]
    radius = "" if settings["radius"] is None else f"; radius {settings['radius']:.4g} ({settings['set_name']})"
    return (
        f"{len(header['classes'])} classes, {header['source_rows']:,} labelled source rows, "
        f"error {_percent(header['training_error'])} at the training mix{radius}. "
        f"Alarms: 'change' comes by chance once in {settings['run_length']:,.0f} examples or less often, "
        f"'ever' with a chance of at most {settings['alpha']:g} in all."
    )


def columns(header: dict[str, Any]) -> str:
    """Name the columns of the lines."""
    place = _place(header, "until" if header["time"] else "examples")
    names = (f"{header['settings']['set_name']} from training", "radius", "error to expect")
    return "  ".join([place, *_padded(names), "most moved classes"])


def sentence(header: dict[str, Any], report: dict[str, Any]) -> str:
    """Write a report in a line."""
    place = _place(header, report["time"] or f"{report['examples']:,}")
    if report.get("shares") is None:
        return f"{place}  too few examples for an estimate{_alarms(report)}"
    distance, error = report["divergence"], report["error"]
    fields = (
        f"{_number(distance['value'])} ({_number(distance['lower'])} to {_number(distance['upper'])})",
        _inside(report),
        f"{_percent(error['value'])} ({_percent(error['lower'])} to {_percent(error['upper'])})",
    )
    return "  ".join([place, *_padded(fields), _moved(header, report)]).rstrip() + _alarms(report)


def _place(header: dict[str, Any], text: str) -> str:
    return f"{text:<{TIMED if header['time'] else COUNTED}}"


def _padded(fields: tuple[str, ...]) -> list[str]:
    return [f"{field:<{width}}" for field, width in zip(fields, WIDTHS, strict=True)]


def _moved(header: dict[str, Any], report: dict[str, Any]) -> str:
    """The classes whose intervals leave out their share in training, those that moved most first."""
    rows = zip(header["classes"], header["training"], report["shares"], report["lower"], report["upper"], strict=True)
    moved = [(abs(now - then), name, now, now - then) for name, then, now, low, high in rows if not low <= then <= high]
    moved.sort(key=lambda one: -one[0])
    named = [f"{name} {_percent(now)} ({100 * change:+.0f})" for _, name, now, change in moved[:MOVED]]
    more = [f"{len(moved) - MOVED} more"] if len(moved) > MOVED else []
    return ", ".join([*named, *more]) or "none"


def _inside(report: dict[str, Any]) -> str:
    if report["inside"] is None:
        return "-"
    return (
        ("inside" if report["inside"] else "OUTSIDE")
        if report["certain"]
        else ("inside?" if report["inside"] else "OUTSIDE?")
    )


def _alarms(report: dict[str, Any]) -> str:
    parts = []
    changes = [one for one in report["alarms"] if one["form"] == "detector"]
    if changes:
        times = "" if len(changes) == 1 else f" ({len(changes)} times)"
        parts.append(f"change at example {changes[0]['example']:,}{times}, seen since {changes[0]['since']:,}")
    if any(one["form"] == "test" for one in report["alarms"]):
        parts.append("not the source's mix any more (test 'ever')")
    return f"  ALARM: {'; '.join(parts)}" if parts else ""


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100.0 * share:.1f} %"


def _number(value: float | str | None) -> str:
    if value is None:
        return "?"
    return value if isinstance(value, str) else f"{value:.3g}"
