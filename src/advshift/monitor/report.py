"""One report of a monitor: everything that is known after some examples, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.monitor.alarm import Alarm, AlarmState, Raised
from advshift.monitor.settings import Settings
from advshift.monitor.source import SourceModel
from advshift.numerics.divergences import divergence
from advshift.posthoc import expected_performance
from advshift.types import Array, PriorEstimate

__all__ = ["SCHEMA", "divergence_interval", "estimated", "evidence", "header"]

SCHEMA = "advshift.monitor/1"
DRAWS = 400


def header(source: SourceModel, settings: Settings, version: str, details: dict[str, Any]) -> dict[str, Any]:
    """The first line of a log: what all the others are measured against."""
    risks = np.bincount(source.labels, weights=source.wrong) / source.counts
    return {
        "schema": SCHEMA,
        "kind": "start",
        "version": version,
        "classes": list(source.classes),
        "training": source.training.tolist(),
        "class_errors": risks.tolist(),
        "training_error": float(risks @ source.training),
        "outputs": "predictions" if source.hard else "probabilities",
        "source_rows": len(source.labels),
        "settings": settings.to_dict(),
        **details,
    }


def estimated(source: SourceModel, settings: Settings, found: PriorEstimate) -> dict[str, Any]:
    """The mix with its interval, how far it is from training, and the error that is to be expected there."""
    reach = _quantile(settings.confidence) * np.nan_to_num(found.standard_errors)
    value, lower, upper = divergence_interval(found, source.training, settings.set_name, settings.confidence)
    error = expected_performance(found, source.wrong, source.labels, confidence=settings.confidence)
    return {
        "effective": found.target_size,
        "shares": found.prior.tolist(),
        "lower": np.clip(found.prior - reach, 0.0, 1.0).tolist(),
        "upper": np.clip(found.prior + reach, 0.0, 1.0).tolist(),
        "divergence": {"value": _plain(value), "lower": _plain(lower), "upper": _plain(upper)},
        **_inside(settings.radius, value, lower, upper),
        "error": {"value": error.value, "lower": error.low, "upper": error.high},
        "audited": _audited(settings, value),
    }


def divergence_interval(
    found: PriorEstimate, training: Float[Array, " classes"], set_name: str, confidence: float
) -> tuple[float, float, float]:
    """The divergence of an estimate from training, with an interval.

    Noise only adds to a divergence, so the upper limit is a quantile of the divergences of draws around the estimate,
    and the lower one is at least as far below the estimate as that is above it: careful on both sides. Where the
    training mix is in the estimate's confidence region, the lower limit is zero.
    """
    assert found.covariance is not None
    values, vectors = np.linalg.eigh(found.covariance)
    noise = np.random.default_rng(0).standard_normal((DRAWS, len(values))) * np.sqrt(np.maximum(values, 0.0))
    drawn = np.maximum(found.prior + noise @ vectors.T, 0.0)
    drawn /= drawn.sum(axis=1, keepdims=True)
    value = float(divergence(set_name, found.prior, training, check=False))
    spread = divergence(set_name, drawn, training, check=False)
    low, high = (float(np.quantile(spread, level)) for level in (0.5 - 0.5 * confidence, 0.5 + 0.5 * confidence))
    upper = max(high, value)
    lower = low if upper == math.inf else min(2.0 * value - upper, low)
    if _may_be(found.prior - training, values, vectors, confidence):
        lower = 0.0
    return value, max(0.0, lower), upper


def _may_be(moved: Array, values: Array, vectors: Array, confidence: float) -> bool:
    """Whether a difference is within the noise with this covariance, by Wald's statistic."""
    from scipy.special import chdtri

    seen = values > 1e-9 * max(float(values.max()), 1e-300)
    statistic = float((((vectors.T @ moved)[seen]) ** 2 / values[seen]).sum())
    return statistic <= float(chdtri(max(int(seen.sum()), 1), 1.0 - confidence))


def _inside(radius: float | None, value: float, lower: float, upper: float) -> dict[str, Any]:
    """Whether the mix is within the radius, and whether the interval leaves no doubt."""
    if radius is None:
        return {"radius": None, "inside": None, "certain": None}
    return {"radius": _plain(radius), "inside": value <= radius, "certain": upper <= radius or lower > radius}


def _audited(settings: Settings, value: float) -> dict[str, Any] | None:
    """The smallest audited radius that holds the estimate, and the worst case that the audit found there."""
    if settings.audited is None:
        return None
    pairs = sorted(zip(settings.audited.radii, settings.audited.worst, strict=True))
    found = next((pair for pair in pairs if pair[0] >= value), None)
    if found is None:
        return {"radius": None, "worst_case": None, "metric": settings.audited.metric}
    return {"radius": _plain(found[0]), "worst_case": found[1], "metric": settings.audited.metric}


def evidence(alarm: Alarm, state: AlarmState, raised: Sequence[Raised]) -> dict[str, Any]:
    """The alarms since the last report, and how near the next one is."""
    return {
        "alarms": [one._asdict() for one in raised],
        "test": {"log_evidence": _plain(alarm.log_test(state)), "alarm": state.test_alarm or None},
        "detector": {
            "log_evidence": _plain(alarm.log_detector(state)),
            "alarms": state.alarms,
            "last": state.last_alarm or None,
        },
    }


def _plain(number: float) -> float | str | None:
    """Strict JSON has neither infinity nor nan."""
    if math.isnan(number) or number == -math.inf:
        return None
    return "inf" if number == math.inf else float(number)


def _quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * confidence))
