"""The record of an estimate: everything that was found of a target's label distribution, as JSON with a schema.

The rules are those of the audit's record: strict JSON, `"inf"` for infinity, `null` for what is unknown, every digit;
keys may be added within a major version, so a reader skips those that it does not know.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import AwareDatetime, Field, model_validator

from advshift.audit.fields import Count, Fraction, Label, Number, Part, Text, Unknown
from advshift.audit.record import Notice
from advshift.audit.references import Around, reference_of_counts
from advshift.audit.strict import Kind
from advshift.files import write_atomically
from advshift.posthoc import ConfidenceBall
from advshift.posthoc.ball import ball_of
from advshift.types import PriorEstimate

__all__ = ["SCHEMA", "EstimateRecord", "holds_estimate"]

SCHEMA = "advshift.estimate/1"
KIND = Kind("estimate", SCHEMA, "advshift estimate --json")
# What goes on to an audit:
DOUBTS = ("not-label-shift", "doubtful-label-shift", "untested", "singular", "not-converged", "few-rows")
LARGEST_SAVED = 300  # classes up to which the covariance is saved without being asked for

Shares = list[Fraction]


class FileRecord(Part):
    """A file that was read."""

    path: Text
    rows: Count
    sha256: str | None = None


class CalibrationRecord(Part):
    """`softmax(scale ∘ log f + bias)`: what the probabilities went through before the estimate."""

    name: Text
    scale: list[float]
    bias: list[float]


class MethodRecord(Part):
    """How the estimate was made. `outputs`: whether the files hold probabilities or predicted classes alone."""

    name: Text
    calibration: CalibrationRecord | None = None
    covariance: Literal["asymptotic", "bootstrap"]
    outputs: Literal["probabilities", "predictions"]


class EstimatedClass(Part):
    """One class: its share of both sides, and what the model does with it on the source.

    `model_share` is the source's share as the estimator sees it, by which a correction divides. `predicted` is the
    share of the target that the model predicts as this class, `expected` what the nearest label shift would make it,
    `p_value` that of their difference, adjusted for testing all classes.
    """

    label: Label = Field(alias="class")
    examples: Count
    source: Fraction
    model_share: Fraction
    estimate: Fraction
    lower: Fraction
    upper: Fraction
    standard_error: float
    predicted: Fraction
    expected: Unknown = None
    p_value: Unknown = None
    accuracy: Fraction

    @property
    def ratio(self) -> float:
        """How many times as frequent the class is estimated to have become."""
        return self.estimate / self.source


class DivergenceRecord(Part):
    """How far the estimate is from the source's own mix. `chance`: whether the confidence ball holds that mix."""

    kl: Number
    tv: Number
    max_ratio: Number
    favoured: Label
    chance: bool


class DiagnosticsRecord(Part):
    """Whether the estimate can be trusted: the confusion matrix's condition, and what re-weighting leaves."""

    condition: Unknown
    rank: Count
    never_predicted: list[Label]
    effective_sample_size: Number
    largest_weight: Number
    converged: bool
    iterations: Count


class ShiftTestRecord(Part):
    """The test of label shift itself; `deviating` are the predicted classes that do not fit at `level`."""

    statistic: Number
    degrees: Count
    p_value: Fraction
    level: Fraction
    deviating: list[Label]


class ExpectedRecord(Part):
    """An accuracy to expect on the target, with its interval."""

    value: Fraction
    lower: Fraction
    upper: Fraction


class PerformanceRecord(Part):
    """Accuracies: on the source's labels, and expected on the target, as it is and with corrected predictions.

    `confidence` is the mean of the largest probability on the target, which promises the accuracy only of a calibrated
    model.
    """

    source: Fraction
    target: ExpectedRecord
    corrected: ExpectedRecord | None = None
    confidence: Unknown = None


class BallRecord(Part):
    """A ball that holds the true label distribution with the record's confidence: its centre, and a radius per set."""

    centre: Shares
    radii: dict[str, Number]


class EstimateRecord(Part):
    """Everything that is known of a target's label distribution."""

    schema_name: str = Field(default=SCHEMA, alias="schema")
    version: str
    created: AwareDatetime
    command: Text | None = None
    seed: int | None = None
    confidence: Fraction
    source: FileRecord
    target: FileRecord
    method: MethodRecord
    classes: list[EstimatedClass] = Field(min_length=2)
    covariance: list[list[float]] | None = None
    divergence: DivergenceRecord
    diagnostics: DiagnosticsRecord
    shift_test: ShiftTestRecord | None = None
    performance: PerformanceRecord
    ball: BallRecord
    warnings: list[Notice] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_share_a_class(self) -> EstimateRecord:
        if len(self.ball.centre) != len(self.classes):
            raise ValueError(f"{len(self.classes)} classes but a ball with {len(self.ball.centre)}")
        if not abs(sum(entry.estimate for entry in self.classes) - 1.0) < 1e-6:
            raise ValueError("the estimated shares do not sum to one")
        return self

    @property
    def labels(self) -> tuple[int | str, ...]:
        """The classes in the order of the probabilities' columns."""
        return tuple(entry.label for entry in self.classes)

    @property
    def prior(self) -> Any:
        """The estimated label distribution."""
        return np.array([entry.estimate for entry in self.classes])

    @property
    def model_prior(self) -> Any:
        """The source's label distribution, as the estimator sees it."""
        return np.array([entry.model_share for entry in self.classes])

    @property
    def estimate(self) -> PriorEstimate:
        """The estimate, for `expected_performance`, `correct_probabilities` and `confidence_ball`."""
        return PriorEstimate(
            prior=self.prior,
            source=self.model_prior,
            covariance=None if self.covariance is None else np.array(self.covariance),
            replicates=None,
            converged=self.diagnostics.converged,
            iterations=self.diagnostics.iterations,
            source_size=self.source.rows,
            target_size=self.target.rows,
            method=self.method.name,
        )

    def confidence_ball(self, set: str = "kl") -> ConfidenceBall:  # noqa: A002 - the command's word
        """The ball around the estimate that holds the true label distribution with the record's confidence."""
        return ball_of(np.array(self.ball.centre), self.ball.radii, set, self.confidence)

    def around(self, source: str) -> Around:
        """The estimate as the centre of an audit; `source` names its file."""
        centre = dict(zip(self.labels, self.ball.centre, strict=True))
        doubts = tuple((notice.code, notice.message) for notice in self.warnings if notice.code in DOUBTS)
        return Around(reference_of_counts(centre, source), self.ball.radii, self.confidence, self.target.rows, doubts)

    def to_objective_options(self, *, set: str | None = None) -> dict[str, Any]:  # noqa: A002 - the command's word
        """What to give to `RobustObjective`, whose classes must be in the order of `labels`.

        Parameters
        ----------
        set
            None: importance weights for the estimated mix. `"kl"`, `"reverse-kl"`, `"chi2"` or `"tv"`: the worst case
            over the ball that holds the true mix.
        """
        return (self.estimate if set is None else self.confidence_ball(set)).to_objective_options()

    def to_json(self, *, full: bool = False) -> str:
        """Write strict JSON on one line; the covariance of many classes is left out unless `full`."""
        tree = self.model_dump(mode="json")
        if len(self.classes) > LARGEST_SAVED and not full:
            tree["covariance"] = None
        return json.dumps(tree, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "the record") -> EstimateRecord:
        """Read what `to_json` wrote; `source` names the file in error messages."""
        return KIND.parse(cls, text, source)

    def write(self, path: str | os.PathLike[str], *, full: bool = False) -> None:
        """Save the record as JSON, whole or not at all."""
        write_atomically(path, self.to_json(full=full))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> EstimateRecord:
        """Read a record that `write` saved."""
        return KIND.read(cls, path)


def holds_estimate(file: str) -> bool:
    """Whether a file begins as a saved estimate does."""
    try:
        with Path(file).open("rb") as opened:
            return b'"advshift.estimate/' in opened.read(200)
    except OSError:
        return False
