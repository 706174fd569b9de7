"""Records as an audit would write them, from simulated data with the real sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta as beta_distribution

from advshift.audit.record import AuditRecord
from advshift.sets import SETS, UncertaintySet

RADII = (0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
HOSTILE = (
    "<script>document.title = 'owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</script><script>document.title='owned'</script>",
    "n" * 300,
    "雪の結晶 ❄️ 🐈‍⬛",
    "مرحبا بالعالم",
    "$\\frac{1}{2$ [red]x[/]",
    "{{ 7 * 7 }}{% raw %}",
    "a\x00b\x1b[31mc\n\td",
    "",
)


def make_record(
    classes: int = 10,
    models: Sequence[str] = ("erm", "advshift"),
    *,
    examples: int = 100,
    kind: str = "kl",
    radii: Sequence[float] = RADII,
    labels: Sequence[Any] | None = None,
    seed: int = 0,
    **changes: Any,
) -> AuditRecord:
    """Simulate models whose class errors are drawn from a beta distribution, on a long-tailed reference."""
    generator = np.random.default_rng(seed)
    labels = list(labels or [f"class {number:03d}" for number in range(classes)])
    reference = np.geomspace(1.0, 0.05, classes)
    reference /= reference.sum()
    counts = generator.poisson(examples * classes * reference) + 1
    errors = generator.beta(1.5, 4.0, classes)
    audits = []
    for number, name in enumerate(models):
        found = generator.binomial(counts, errors * (1.0 - 0.12 * number))
        audits.append(_model(name, labels, found, counts, reference, SETS[kind], list(radii), generator))
    tree = {
        "version": "0.1.0",
        "created": "2026-03-01T12:00:00Z",
        "command": "advshift audit erm.csv advshift.csv --html report.html",
        "seed": seed,
        "confidence": 0.95,
        "metric": {"name": "error", "higher_is_worse": True},
        "set": {"name": kind, "parameters": {}},
        "reference": {"source": "empirical", "classes": labels, "distribution": reference},
        "inputs": [
            {"model": name, "split": "test", "path": f"{name}.csv", "rows": int(counts.sum()), "sha256": "0f" * 32}
            for name in models
        ],
        "models": audits,
        "comparisons": _comparisons(audits),
        "warnings": [
            {"code": "reference-empirical", "message": "The reference is the mix of these data."},
            {"code": "interval-guaranteed", "message": "From radius 1.5 on the guaranteed bound is shown."},
        ],
    }
    return AuditRecord.model_validate(tree | changes)


def _set(kind: type[UncertaintySet], radius: float) -> UncertaintySet:
    return kind(radius) if kind.name in ("kl", "chi2", "tv", "reverse-kl", "frequency-cap", "top-k") else kind()


def _model(
    name: str,
    labels: list[Any],
    found: np.ndarray,
    counts: np.ndarray,
    reference: np.ndarray,
    kind: type[UncertaintySet],
    radii: list[float],
    generator: np.random.Generator,
) -> dict[str, Any]:
    risks = found / counts
    lower = np.nan_to_num(beta_distribution.ppf(0.025, found, counts - found + 1))
    upper = np.nan_to_num(beta_distribution.ppf(0.975, found + 1, counts - found), nan=1.0)
    union = np.nan_to_num(beta_distribution.ppf(1 - 0.05 / len(risks), found + 1, counts - found), nan=1.0)
    resampled = generator.binomial(counts, risks, size=(60, len(risks))) / counts
    curve = []
    for radius in radii:
        worst = _set(kind, radius).worst_case(np.stack([risks, union]), np.stack([reference, reference]))
        values = _set(kind, radius).value(resampled, np.broadcast_to(reference, resampled.shape))
        plug_in, spread = float(worst.value[0]), 1.96 * float(values.std())
        debiased = 2 * plug_in - float(values.mean())
        trusted = radius < 1.5
        guaranteed = float(worst.value[1])
        curve.append(
            {
                "radius": radius,
                "plug_in": plug_in,
                "debiased": debiased if trusted else None,
                "lower": debiased - spread if trusted else plug_in - spread,
                "upper": debiased + spread if trusted else guaranteed,
                "interval": "debiased" if trusted else "guaranteed",
                "cross_fitted": plug_in - 0.01,
                "guaranteed_upper": guaranteed,
                "slack": bool(worst.multiplier[0] == 0),
                "converged": True,
                "max_ratio": float((worst.distribution[0] / reference).max()),
                "distribution": worst.distribution[0],
            }
        )
    weights = curve[len(curve) // 2]["distribution"]
    target = 0.5
    return {
        "name": name,
        "split": "test",
        "average": float(reference @ risks),
        "worst_class": {"class": labels[int(risks.argmax())], "value": float(risks.max())},
        "classes": [
            {
                "class": label,
                "count": int(counts[index]),
                "risk": risks[index],
                "lower": lower[index],
                "upper": upper[index],
                "reference_share": reference[index],
                "marginal": weights[index],
            }
            for index, label in enumerate(labels)
        ],
        "curve": curve,
        "breaking_points": [
            {"target": target, "radius": SETS["kl"](0.0).breaking_point(risks, reference, target)},
            {"target": 1.5, "radius": np.inf},
        ],
    }


def _comparisons(audits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "first": audits[0]["name"],
            "second": other["name"],
            "radius": ours["radius"],
            "difference": theirs["plug_in"] - ours["plug_in"],
            "lower": theirs["plug_in"] - ours["plug_in"] - 0.01,
            "upper": theirs["plug_in"] - ours["plug_in"] + 0.01,
        }
        for other in audits[1:]
        for ours, theirs in zip(audits[0]["curve"], other["curve"], strict=True)
    ]


@pytest.fixture(scope="session")
def make() -> Callable[..., AuditRecord]:
    return make_record


@pytest.fixture(scope="session")
def small() -> AuditRecord:
    return make_record(10)


@pytest.fixture(scope="session")
def middle() -> AuditRecord:
    return make_record(100)


@pytest.fixture(scope="session")
def large() -> AuditRecord:
    return make_record(1000, examples=50)


@pytest.fixture(scope="session")
def hostile() -> AuditRecord:
    """Names that try to break out of the page."""
    return make_record(
        len(HOSTILE),
        HOSTILE[:3],
        labels=HOSTILE,
        command="advshift audit '</script><b>'",
        warnings=[{"code": "<b>", "message": "<img src=x onerror=alert(1)>"}],
    )


@pytest.fixture(scope="session")
def bare() -> AuditRecord:
    """Everything that may be missing is missing, and numbers are negative."""
    share = [0.5, 0.5]
    model = {
        "name": "a",
        "average": None,
        "classes": [
            {"class": 0, "count": 0, "reference_share": 0.5},
            {"class": 1, "count": 3, "risk": -2.5, "reference_share": 0.5},
        ],
        "curve": [{"radius": 0}, {"radius": 0.1, "plug_in": -1.25}, {"radius": "inf", "converged": False}],
        "breaking_points": [{"target": -0.5, "radius": None}],
    }
    return AuditRecord.model_validate(
        {
            "version": "0.1.0",
            "created": "2026-03-01T12:00:00Z",
            "confidence": 0.9,
            "metric": {"name": "utility", "higher_is_worse": False},
            "set": {"name": "kl"},
            "reference": {"source": "uniform", "classes": [0, 1], "distribution": share},
            "models": [model],
        }
    )
