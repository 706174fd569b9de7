"""What of a record is shown: which radii, which classes, in which order. Nothing is estimated here."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from advshift.audit.record import AuditRecord, ClassRecord, ComparisonRecord, CurvePoint, ModelRecord

__all__ = [
    "Gain",
    "comparison_at",
    "estimate",
    "first_to_fix",
    "gains",
    "headline",
    "is_share",
    "readable",
    "three_mixes",
    "titles",
    "unmoved",
    "worst_classes",
]

EVERYDAY_RATIOS = (1.5, 2.0, 5.0)  # how many times as frequent the most favoured class is in the three mixes shown
SHARES = ("error", "accuracy", "recall", "rate")


class Gain(NamedTuple):
    """One class in a worst mix: its shares, how many times as frequent it is, and what it adds to the risk."""

    label: str
    before: float
    after: float
    ratio: float | None
    risk: float | None
    adds: float | None


def is_share(record: AuditRecord) -> bool:
    """Whether the metric is a share of examples, so that per cent and points are its units."""
    values = [entry.risk for model in record.models for entry in model.classes if entry.risk is not None]
    named = any(word in record.metric.name.lower() for word in SHARES)
    return named and all(0.0 <= value <= 1.0 for value in values)


def readable(label: object) -> str:
    """A label as text that cannot disturb a page or a terminal: control characters become visible."""
    text = "".join(
        f"\\x{ord(character):02x}" if unicodedata.category(character) in ("Cc", "Cs") else character
        for character in str(label)
    )
    return text if text.strip() else "(no name)"


def titles(record: AuditRecord) -> list[str]:
    """One name per model, with its split where the splits differ."""
    splits = {model.split for model in record.models}
    shown = [readable(model.name) for model in record.models]
    if len(splits) == 1:
        return shown
    return [
        f"{name} ({readable(model.split)})" if model.split else name
        for name, model in zip(shown, record.models, strict=True)
    ]


def estimate(point: CurvePoint) -> float | None:
    """The number that stands for the worst case: de-biased where that is trusted, else the plug-in."""
    trusted = point.interval == "debiased" and point.debiased is not None
    return point.debiased if trusted else point.plug_in


def unmoved(record: AuditRecord, point: CurvePoint) -> bool:
    """Whether the set holds little more than its centre at this radius."""
    if point.max_ratio is not None:
        return point.max_ratio <= 1.0 + 1e-9
    return point.radius == (1.0 if record.uncertainty_set.name == "frequency-cap" else 0.0)


def headline(record: AuditRecord, model: ModelRecord) -> CurvePoint | None:
    """The point to speak of first: where the first model's most favoured class is about twice as frequent.

    Around an estimate it is the radius within which the true mix lies.
    """
    if record.around is not None:
        within = [point for point in model.curve if point.radius == record.around.radius]
        if within and estimate(within[0]) is not None:
            return within[0]
    known = [point for point in _moved(record, record.models[0]) if estimate(point) is not None]
    found = _at_ratios(record, model, (2.0,), known)
    return next((point for point in found if estimate(point) is not None), None)


def three_mixes(record: AuditRecord, model: ModelRecord) -> list[CurvePoint]:
    """Up to three points with distributions, from a small to a large shift; the same radii for every model."""
    moved = [point for point in _moved(record, record.models[0]) if point.distribution is not None]
    chosen = _at_ratios(record, model, EVERYDAY_RATIOS, moved)
    return [point for point in chosen if point.distribution is not None]


def _moved(record: AuditRecord, model: ModelRecord) -> list[CurvePoint]:
    return [point for point in model.curve if not unmoved(record, point)]


def _at_ratios(
    record: AuditRecord, model: ModelRecord, ratios: Sequence[float], candidates: list[CurvePoint]
) -> list[CurvePoint]:
    """The model's points at the radii at which the candidates come nearest to some ratios, each taken once."""
    left = list(candidates)
    radii = [left.pop(_nearest(left, ratio)).radius for ratio in ratios if left]
    return [point for point in _moved(record, model) if point.radius in radii]


def _nearest(points: Sequence[CurvePoint], ratio: float) -> int:
    """Which point's largest ratio is nearest; the middle one where none is known."""
    distances = [
        math.inf if point.max_ratio is None else abs(math.log(max(point.max_ratio, 1e-300) / ratio)) for point in points
    ]
    return len(points) // 2 if min(distances) == math.inf else int(np.argmin(distances))


def gains(record: AuditRecord, model: ModelRecord, point: CurvePoint, most: int) -> list[Gain]:
    """The classes that gain the largest shares in a worst mix, from the largest gain down."""
    if point.distribution is None:
        return []
    before, after = np.asarray(record.reference.distribution), np.asarray(point.distribution)
    risks = {entry.label: entry.risk for entry in model.classes}
    order = [index for index in np.argsort(before - after, kind="stable")[:most] if after[index] > before[index]]
    return [_gain(record.reference.classes[index], float(before[index]), float(after[index]), risks) for index in order]


def _gain(label: int | str, before: float, after: float, risks: dict[int | str, float | None]) -> Gain:
    risk = risks.get(label)
    ratio = after / before if before > 0 else None
    return Gain(readable(label), before, after, ratio, risk, None if risk is None else after * risk)


def worst_classes(record: AuditRecord, model: ModelRecord, most: int) -> list[ClassRecord]:
    """The classes of worst risk, worst first; classes of unknown risk are left out."""
    known = [entry for entry in model.classes if entry.risk is not None]
    return sorted(known, key=lambda entry: _badness(record, entry.risk), reverse=True)[:most]


class Fix(NamedTuple):
    """A class to improve, and what the worst case loses to first order if it becomes as good as the best class."""

    entry: ClassRecord
    saves: float


def first_to_fix(record: AuditRecord, model: ModelRecord, most: int) -> list[Fix]:
    """The classes that the worst case would gain most from, the best opportunity first."""
    known = [
        (entry, entry.marginal, entry.risk) for entry in model.classes if entry.marginal and entry.risk is not None
    ]
    best = min((_badness(record, risk) for _, _, risk in known), default=0.0)
    fixes = [Fix(entry, effect * (_badness(record, risk) - best)) for entry, effect, risk in known]
    return sorted((fix for fix in fixes if fix.saves > 0), key=lambda fix: fix.saves, reverse=True)[:most]


def _badness(record: AuditRecord, risk: float | None) -> float:
    value = 0.0 if risk is None else risk
    return value if record.metric.higher_is_worse else -value


def comparison_at(
    record: AuditRecord, first: ModelRecord, second: ModelRecord, radius: float
) -> ComparisonRecord | None:
    """The paired comparison of two models at a radius, if the record has one."""
    found: Iterable[ComparisonRecord] = (
        entry
        for entry in record.comparisons
        if (entry.first, entry.second, entry.radius) == (first.name, second.name, radius)
    )
    return next(iter(found), None) if first.split == second.split else None
