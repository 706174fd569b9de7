"""From statistics to the record of an audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from advshift import __version__
from advshift.audit.estimates import EmptyClass, Estimates, Model, class_limits, compare, estimate, model_of
from advshift.audit.feared import Feared
from advshift.audit.reading import Reading, Warned
from advshift.audit.record import AuditRecord
from advshift.audit.references import Reference
from advshift.errors import InputError

__all__ = ["Question", "assemble"]

SHOWN = 5  # classes that a warning names


@dataclass(frozen=True)
class Question:
    """What is asked of an audit.

    Attributes
    ----------
    feared
        The mixes.
    confidence
        Of intervals and bounds.
    empty_class
        What is assumed of a class that the reference gives mass to, and that has no examples.
    targets
        Risks for which the breaking point is wanted; None asks for twice the first model's average.
    common
        Whether every model is also judged under the worst mixes for the first one.
    seed
        Of whatever is drawn at random.
    """

    feared: Feared
    confidence: float = 0.95
    empty_class: EmptyClass = "worst"
    targets: tuple[float, ...] | None = None
    common: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise InputError(f"the confidence must be between 0 and 1, such as 0.95; got {self.confidence:g}")


def assemble(reading: Reading, reference: Reference, question: Question, command: str | None = None) -> AuditRecord:
    """Answer the question from what was read."""
    classes, shares, notices = _aligned(reading, reference)
    models = []
    for k, name in enumerate(reading.models):
        statistics, column = reading.of_model(k)
        aligned = statistics.over(classes)
        models.append(model_of(name, aligned, column, shares, reading.metric.bounds, question.empty_class))
    notices += _empty_classes(models, shares, question)
    found = [
        estimate(
            model,
            question.feared,
            confidence=question.confidence,
            generator=np.random.default_rng([question.seed, k]),
        )
        for k, model in enumerate(models)
    ]
    targets = question.targets if question.targets is not None else _default_targets(models[0])
    warnings = [*reading.warnings, *notices, *_unique(found)]
    return AuditRecord.model_validate(
        {
            "version": __version__,
            "created": datetime.now(UTC),
            "command": command,
            "seed": question.seed,
            "confidence": question.confidence,
            "metric": {"name": reading.metric.name, "higher_is_worse": True},
            "set": {"name": question.feared.name, "parameters": _parameters(question.feared)},
            "reference": {"source": reference.source, "classes": list(classes), "distribution": shares.tolist()},
            "inputs": [
                {"model": one.model, "path": one.path, "rows": one.rows, "sha256": one.sha256} for one in reading.inputs
            ],
            "models": [
                _model_fields(model, estimates, question, targets, found[0])
                for model, estimates in zip(models, found, strict=True)
            ],
            "comparisons": _comparisons(models, question) if reading.paired else [],
            "warnings": [{"code": one.code, "message": one.message} for one in warnings],
        }
    )


def _aligned(reading: Reading, reference: Reference) -> tuple[tuple[Any, ...], Any, list[Warned]]:
    """The classes of the data and of the reference together, and the reference's share of each."""
    known = set(reference.classes)
    classes = reading.classes
    kinds = {isinstance(label, str) for label in (*classes, *reference.classes)}
    if len(kinds) > 1:
        raise InputError(
            f"the reference ({reference.source}) and the data write classes differently: {reference.classes[0]!r} and "
            f"{classes[0]!r}; write both as whole numbers or both as text"
        )
    counts = sum(one.over(classes).count for one in reading.statistics)
    unknown = [label for label, count in zip(classes, counts, strict=True) if count and label not in known]
    if unknown:
        raise InputError(
            f"the data have examples of {_listed(unknown)}, which the reference ({reference.source}) does not name; "
            "add a row for each (a share of 0 will do), or leave these examples out"
        )
    every = tuple(sorted({*classes, *reference.classes}))
    share = dict(zip(reference.classes, reference.distribution.tolist(), strict=True))
    return every, np.array([share.get(label, 0.0) for label in every]), []


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(repr(label) for label in labels[:SHOWN])
    return (
        ("class " if len(labels) == 1 else "classes ")
        + shown
        + (f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else "")
    )


def _empty_classes(models: Sequence[Model], shares: Any, question: Question) -> list[Warned]:
    empty = [
        label
        for k, label in enumerate(models[0].statistics.classes)
        if shares[k] > 0 and any(model.statistics.count[k] == 0 for model in models)
    ]
    if not empty:
        return []
    assumed = {
        "worst": "taken to be the worst possible, or the worst seen where values have no bound",
        "average": "taken to be the average of the others",
        "exclude": "left out, as if the reference gave it no mass",
    }[question.empty_class]
    return [
        Warned(
            "empty-class",
            f"The reference gives mass to {_listed(empty)} without any example, so the risk there is unknown; it is "
            f"{assumed} (--empty-class worst, average or exclude).",
        )
    ]


def _default_targets(model: Model) -> tuple[float, ...]:
    """Twice the average, or half the way up to the highest that the metric can be, where that is nearer."""
    if model.average <= 0:
        return ()
    highest = math.inf if model.sample.bounds is None else model.sample.bounds[1]
    return (min(2.0 * model.average, (model.average + highest) / 2.0),)


def _unique(found: Sequence[Estimates]) -> list[Warned]:
    """The estimates' warnings, each once."""
    return list(dict.fromkeys(warning for estimates in found for warning in estimates.warnings))


def _parameters(feared: Feared) -> dict[str, Any]:
    return {name: np.asarray(values).tolist() for name, values in feared.ranges.items()}


def _model_fields(
    model: Model, estimates: Estimates, question: Question, targets: Sequence[float], first: Estimates
) -> dict[str, Any]:
    known = np.flatnonzero(model.statistics.count > 0)
    worst = int(known[np.argmax(model.risks[known])])
    return {
        "name": model.name,
        "average": model.average,
        "worst_class": {"class": model.statistics.classes[worst], "value": float(model.risks[worst])},
        "classes": _class_fields(model, estimates, question),
        "curve": [_point_fields(model, estimates, question, k, first) for k in range(len(question.feared.radii))],
        "breaking_points": _breaking_points(model, question, targets),
    }


def _class_fields(model: Model, estimates: Estimates, question: Question) -> list[dict[str, Any]]:
    marginal = estimates.plug_in.distribution[_headline(model, estimates)]
    count = model.statistics.count
    lower, upper = class_limits(model, question.confidence)
    return [
        {
            "class": label,
            "count": int(count[k]),
            "risk": float(model.risks[k]) if count[k] else None,
            "lower": float(lower[k]) if count[k] else None,
            "upper": float(upper[k]) if count[k] else None,
            "reference_share": float(model.reference[k]),
            "marginal": float(marginal[k]),
        }
        for k, label in enumerate(model.statistics.classes)
    ]


def _headline(model: Model, estimates: Estimates) -> int:
    """The radius to speak of first: where the most favoured class is about twice as frequent."""
    ratios = np.array([_largest_ratio(row, model.reference) for row in estimates.plug_in.distribution])
    finite = np.where(np.isfinite(ratios), np.maximum(ratios, 1.0), 1e300)
    distance = np.abs(np.log(finite / 2.0))
    moved = finite > 1.0 + 1e-9
    return int(np.argmin(np.where(moved, distance, np.inf)))


def _largest_ratio(distribution: Any, reference: Any) -> float:
    if (distribution[reference <= 0] > 0).any():
        return math.inf
    inside = reference > 0
    return float((distribution[inside] / reference[inside]).max())


def _point_fields(model: Model, estimates: Estimates, question: Question, k: int, first: Estimates) -> dict[str, Any]:
    worst, point, radius = estimates.plug_in, estimates.points[k], question.feared.radii[k]
    return {
        "radius": radius,
        "plug_in": float(worst.value[k]),
        "debiased": point.debiased,
        "lower": point.lower,
        "upper": point.upper,
        "interval": point.interval,
        "cross_fitted": float(estimates.cross_fitted[k]),
        "guaranteed_upper": point.guaranteed_upper,
        "slack": bool(worst.multiplier[k] == 0.0 and radius > question.feared.centre),
        "converged": bool(worst.converged[k]),
        "max_ratio": _largest_ratio(worst.distribution[k], model.reference),
        "distribution": worst.distribution[k].tolist(),
        "common": float(first.plug_in.distribution[k] @ model.risks) if question.common else None,
    }


def _comparisons(models: Sequence[Model], question: Question) -> list[dict[str, Any]]:
    """The first model against each of the others."""
    return [
        {
            "first": models[0].name,
            "second": model.name,
            "radius": radius,
            "difference": found.difference,
            "lower": found.lower,
            "upper": found.upper,
        }
        for model in models[1:]
        for radius, found in zip(
            question.feared.radii,
            compare(models[0], model, question.feared, confidence=question.confidence),
            strict=True,
        )
    ]


def _breaking_points(model: Model, question: Question, targets: Sequence[float]) -> list[dict[str, Any]]:
    if not question.feared.has_radius:
        return []
    feared = question.feared.at([question.feared.radii[-1]])
    found = np.atleast_1d(feared.breaking_point(model.risks, model.reference, np.array(targets)))
    return [{"target": float(target), "radius": float(radius)} for target, radius in zip(targets, found, strict=True)]
