"""The latest report in Prometheus' text format, for a node exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["exposition"]

PREFIX = "advshift_monitor"


def exposition(header: dict[str, Any], report: dict[str, Any]) -> str:
    """Write the metrics of a report.

    >>> text = exposition({"classes": ["a"]}, {"examples": 5, "number": 1, "bad_lines": 0, "detector": {"alarms": 2}})
    >>> print(text.splitlines()[2])
    advshift_monitor_examples_total 5
    """
    lines: list[str] = []
    for name, kind, text, samples in _metrics(header, report):
        known = [(label, value) for label, value in samples if value is not None]
        if known:
            lines += [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} {kind}"]
            lines += [f"{PREFIX}_{name}{label} {_number(value)}" for label, value in known]
    return "\n".join(lines) + "\n"


def _metrics(header: dict[str, Any], report: dict[str, Any]) -> Iterator[tuple[str, str, str, list[tuple[str, Any]]]]:
    detector, test = report.get("detector", {}), report.get("test", {})
    yield "examples_total", "counter", "Predictions taken in.", [("", report["examples"])]
    yield "bad_lines_total", "counter", "Lines that were no prediction.", [("", report.get("bad_lines"))]
    yield "reports_total", "counter", "Reports made.", [("", report["number"])]
    for name, text in (
        ("shares", "Estimated share of a class."),
        ("lower", "Lower limit of a class's share."),
        ("upper", "Upper limit of a class's share."),
    ):
        pairs = zip(header["classes"], report.get(name) or [], strict=False)
        full = "share" if name == "shares" else f"share_{name}"
        yield full, "gauge", text, [(f'{{class="{_escaped(str(label))}"}}', value) for label, value in pairs]
    yield (
        "training_share",
        "gauge",
        "Share of a class in training.",
        [
            (f'{{class="{_escaped(str(label))}"}}', value)
            for label, value in zip(header["classes"], header.get("training", []), strict=False)
        ],
    )
    for part, text in (("divergence", "Divergence of the mix from training"), ("error", "Expected error rate")):
        found = report.get(part) or {}
        yield part, "gauge", f"{text}.", [("", found.get("value"))]
        yield f"{part}_lower", "gauge", f"{text}, lower limit.", [("", found.get("lower"))]
        yield f"{part}_upper", "gauge", f"{text}, upper limit.", [("", found.get("upper"))]
    yield "radius", "gauge", "Radius that the model was trained or audited for.", [("", report.get("radius"))]
    yield "inside_radius", "gauge", "1 while the estimated mix is inside the radius.", [("", report.get("inside"))]
    yield "alarms_total", "counter", "Alarms of the change detector.", [("", detector.get("alarms"))]
    yield "change_log_evidence", "gauge", "Log of the detector's value.", [("", detector.get("log_evidence"))]
    yield "test_alarm", "gauge", "1 once the test of any change ever has rung.", [("", bool(test.get("alarm")))]
    yield "test_log_evidence", "gauge", "Log of the test's value.", [("", test.get("log_evidence"))]


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "+Inf" if value == "inf" else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
