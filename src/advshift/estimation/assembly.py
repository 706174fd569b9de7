"""From the outputs on both sides to the record of an estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from advshift import __version__
from advshift.audit.labels import Label
from advshift.audit.readers.outputs import Outputs, named_classes
from advshift.errors import InputError
from advshift.estimation.choosing import Confusion, chosen_calibration, chosen_method, confusion_of, make_estimator
from advshift.estimation.notices import warnings_of
from advshift.estimation.record import EstimateRecord
from advshift.numerics.divergences import divergence
from advshift.posthoc import Performance, correct_probabilities, expected_performance
from advshift.posthoc.ball import confidence_radii
from advshift.priors import Calibration, PriorEstimator, ShiftTest, shift_test
from advshift.types import Array, PriorEstimate

__all__ = ["Question", "assemble", "smoothed"]

LEVEL = 0.05  # at which a predicted class is said to deviate
FEWEST = 5  # rows of a predicted class from which its own p-value, a chi-square limit, means something
REPLICATES = 100  # of the bootstrap that stands in for a degenerate covariance


@dataclass(frozen=True)
class Question:
    """What is asked of an estimate.

    Attributes
    ----------
    method
        The name of an estimator; None takes one that suits the outputs.
    calibration
        `auto`, `none`, or the name of a calibration.
    confidence
        Of intervals and of the ball.
    bootstrap
        The number of bootstrap replicates; 0 takes the asymptotic covariance.
    seed
        Of whatever is drawn at random.
    """

    method: str | None = None
    calibration: str = "auto"
    confidence: float = 0.95
    bootstrap: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        chosen_method(self.method, hard=False)
        chosen_calibration(self.calibration, "em", rows=0, classes=2, hard=False)
        if not 0.0 < self.confidence < 1.0:
            raise InputError(f"the confidence must be between 0 and 1, such as 0.95; got {self.confidence:g}")
        if self.bootstrap < 0 or self.bootstrap == 1:
            raise InputError(f"the bootstrap needs 2 replicates or more, or 0 for none; got {self.bootstrap}")
        if self.seed < 0:
            raise InputError(f"the seed must be a whole number from 0 up; got {self.seed}")


class _Found(NamedTuple):
    """What the record is made of."""

    source: Outputs
    target: Outputs
    estimate: PriorEstimate
    estimator: PriorEstimator
    confusion: Confusion
    test: ShiftTest | None


def assemble(source: Outputs, target: Outputs, question: Question, command: str | None = None) -> EstimateRecord:
    """Estimate the target's label distribution, test the assumption, and say what follows.

    Parameters
    ----------
    source, target
        The labelled outputs, and those without labels, in the same classes.
    question
        How to estimate.
    command
        The command line, for the record.
    """
    labels = _check(source, target)
    method = chosen_method(question.method, hard=source.hard)
    calibration = chosen_calibration(
        question.calibration, method, rows=source.rows, classes=len(source.classes), hard=source.hard
    )
    confusion = confusion_of(source, method)
    estimator = make_estimator(method, calibration, source.hard, question.bootstrap, question.seed)
    estimate = estimator.fit(source.probabilities, labels).estimate(target.probabilities)
    if not question.bootstrap and _is_degenerate(estimate):
        estimator = make_estimator(method, calibration, source.hard, REPLICATES, question.seed)
        estimate = estimator.fit(source.probabilities, labels).estimate(target.probabilities)
        estimate = replace(estimate, source_influence=None)  # degenerate where the asymptotic covariance is
    test = None if source.hard else shift_test(source.probabilities, labels, target.probabilities, seed=question.seed)
    found = _Found(source, target, estimate, estimator, confusion, test)
    return EstimateRecord.model_validate(_fields(found, question) | {"command": command})


def _check(source: Outputs, target: Outputs) -> Any:
    """The source's labels, if an estimate can be made at all."""
    if source.labels is None:
        raise InputError(f"{source.name} has no labels, which an estimate needs of its source")
    absent = [label for label, count in zip(source.classes, source.counts, strict=True) if count == 0]
    if absent:
        raise InputError(
            f"{source.name} has no example of {named_classes(absent)}, for which there is a probability; leave "
            "that column out of both files, or add labelled examples"
        )
    if target.rows < 2:
        raise InputError(f"{target.name} has one row, and a label distribution cannot be estimated from one; give more")
    return source.labels


def _fields(found: _Found, question: Question) -> dict[str, Any]:
    source, target, estimate = found.source, found.target, found.estimate
    centre, radii = confidence_radii(estimate, confidence=question.confidence, seed=question.seed)
    shares = source.counts / source.rows
    diagnostics = {
        "condition": found.confusion.condition,
        "rank": found.confusion.rank,
        "never_predicted": list(found.confusion.never),
        "effective_sample_size": estimate.diagnostics["effective_sample_size"],
        "largest_weight": estimate.diagnostics["largest_weight"],
        "converged": bool(estimate.converged),
        "iterations": int(estimate.iterations),
    }
    test = _test_fields(found.test, source.classes, target.rows)
    fields = {
        "version": __version__,
        "created": datetime.now(UTC),
        "seed": question.seed,
        "confidence": question.confidence,
        "source": {"path": source.name, "rows": source.rows, "sha256": source.sha256},
        "target": {"path": target.name, "rows": target.rows, "sha256": target.sha256},
        "method": {
            "name": estimate.method,
            "calibration": _calibration_fields(found.estimator.calibrator),
            "covariance": found.estimator.covariance,
            "outputs": "predictions" if source.hard else "probabilities",
        },
        "classes": _class_fields(found, question.confidence),
        "covariance": estimate.covariance,
        "divergence": _divergence(estimate.prior, shares, source.classes, centre, radii["kl"]),
        "diagnostics": diagnostics,
        "shift_test": test,
        "performance": _performance(found, question.confidence),
        "ball": {"centre": centre, "radii": radii},
    }
    return fields | {"warnings": warnings_of(source, target, estimate, found.confusion, test)}


def _calibration_fields(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    return {
        "name": calibration.name,
        "scale": np.atleast_1d(calibration.scale).tolist(),
        "bias": np.asarray(calibration.bias).tolist(),
    }


def _class_fields(found: _Found, confidence: float) -> list[dict[str, Any]]:
    source, target, estimate, test = found.source, found.target, found.estimate, found.test
    errors = estimate.standard_errors
    reach = float(ndtri(0.5 + 0.5 * confidence)) * errors
    predicted = _shares_predicted(target.probabilities)
    return [
        {
            "class": label,
            "examples": int(source.counts[k]),
            "source": float(source.counts[k] / source.rows),
            "model_share": float(estimate.source[k]),
            "estimate": float(estimate.prior[k]),
            "lower": float(max(estimate.prior[k] - reach[k], 0.0)),
            "upper": float(min(estimate.prior[k] + reach[k], 1.0)),
            "standard_error": float(errors[k]),
            "predicted": float(predicted[k]),
            "expected": None if test is None else float(test.expected[k]),
            "p_value": None if test is None else float(test.class_p_values[k]),
            "accuracy": float(found.confusion.recalls[k]),
        }
        for k, label in enumerate(source.classes)
    ]


def _shares_predicted(rows: Float[Array, "examples classes"]) -> Float[Array, " classes"]:
    return np.bincount(rows.argmax(axis=1), minlength=rows.shape[1]) / len(rows)


def _divergence(prior: Any, shares: Any, classes: tuple[Label, ...], centre: Any, radius: float) -> dict[str, Any]:
    ratios = prior / shares
    favoured = int(np.argmax(ratios))
    return {
        "kl": float(divergence("kl", prior, shares)),
        "tv": float(divergence("tv", prior, shares)),
        "max_ratio": float(ratios[favoured]),
        "favoured": classes[favoured],
        "chance": bool(float(divergence("kl", shares, centre)) <= radius),
    }


def _is_degenerate(estimate: PriorEstimate) -> bool:
    """Whether a class that is all but absent has a larger standard error than the largest class has a share.

    The asymptotic covariance takes no notice of bounds, and where no row of the target speaks of a class its variance
    grows without limit.
    """
    absent = estimate.prior * estimate.target_size < 0.5
    return bool((estimate.standard_errors[absent] > estimate.prior.max()).any())


def _test_fields(test: ShiftTest | None, classes: tuple[Label, ...], rows: int) -> dict[str, Any] | None:
    """The test, and the deviating classes; one of few rows is not judged by itself."""
    if test is None:
        return None
    judged = np.maximum(test.observed, test.expected) * rows >= FEWEST
    return {
        "statistic": test.statistic,
        "degrees": test.degrees,
        "p_value": test.p_value,
        "level": LEVEL,
        "deviating": [classes[k] for k in test.deviating(LEVEL) if judged[k]],
    }


def smoothed(prior: Any, source: Any, size: int) -> Any:
    """The estimate with one example's worth of the source: a sample does not rule a class out."""
    return (size * prior + source) / (size + 1.0)


def _performance(found: _Found, confidence: float) -> dict[str, Any]:
    """The accuracy on the source, and what to expect on the target: as it is, and with corrected predictions."""
    rows, labels, estimate = found.source.probabilities, found.source.labels, found.estimate
    right: Bool[Array, " examples"] = rows.argmax(axis=1) == labels
    fields: dict[str, Any] = {
        "source": float(right.mean()),
        "target": _expected_fields(expected_performance(estimate, right, labels, confidence=confidence)),
    }
    if found.source.hard:
        return fields
    calibrator = found.estimator.calibrator
    moved = smoothed(estimate.prior, estimate.source, estimate.target_size)
    corrected = correct_probabilities(rows if calibrator is None else calibrator(rows), estimate.source, moved)
    right = corrected.argmax(axis=1) == labels
    return fields | {
        "corrected": _expected_fields(expected_performance(estimate, right, labels, confidence=confidence)),
        "confidence": float(found.target.probabilities.max(axis=1).mean()),
    }


def _expected_fields(found: Performance) -> dict[str, Any]:
    return {"value": min(max(found.value, 0.0), 1.0), "lower": found.low, "upper": found.high}
