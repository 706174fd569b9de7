"""The record of an audit: everything that it found, as JSON with a versioned schema.

The JSON is strict: no NaN, infinity is the string `"inf"`, what is unknown is `null`. Numbers keep every digit, and
shares, errors and confidences are fractions. Keys may be added within a major version, never renamed or removed, so a
reader skips the keys that it does not know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Literal

from pydantic import AwareDatetime, Field, model_validator

from advshift.audit.fields import Count, Fraction, Label, Number, Part, Text, Tree, Unknown
from advshift.audit.strict import Kind
from advshift.files import write_atomically

__all__ = [
    "SCHEMA",
    "AroundRecord",
    "AuditRecord",
    "BreakingPoint",
    "ClassRecord",
    "ComparisonRecord",
    "CurvePoint",
    "InputRecord",
    "MetricRecord",
    "ModelRecord",
    "Notice",
    "ReferenceRecord",
    "SetRecord",
    "WorstClass",
]

SCHEMA = "advshift.audit/1"
KIND = Kind("audit record", SCHEMA, "advshift audit --json")
LARGEST_SAVED = 1000  # classes up to which the distributions along the curves are saved without being asked for


class MetricRecord(Part):
    """What is averaged over the examples of a class."""

    name: Text
    higher_is_worse: bool = True


class SetRecord(Part):
    """The uncertainty set by its registered name, and its parameters apart from the radius."""

    name: Text
    parameters: Tree = Field(default_factory=dict)


class ReferenceRecord(Part):
    """The label distribution around which the mix moves, and where it came from."""

    source: Text
    classes: list[Label]
    distribution: list[Fraction]

    @model_validator(mode="after")
    def _one_share_a_class(self) -> ReferenceRecord:
        if len(self.classes) != len(self.distribution):
            raise ValueError(f"{len(self.classes)} classes but {len(self.distribution)} shares")
        return self


class AroundRecord(Part):
    """Where the reference is an estimate: how many rows it is made from, and how far from it the truth may be.

    With `confidence` the true mix is within `radius`; null for a set that has no such radius.
    """

    source: Text
    confidence: Fraction
    radius: Unknown = None
    rows: Count


class InputRecord(Part):
    """A file that was read, or arrays that were given (then without path and checksum)."""

    model: Text
    split: Text | None = None
    path: Text | None = None
    rows: Count
    sha256: str | None = None


class WorstClass(Part):
    """The class of highest risk."""

    label: Label = Field(alias="class")
    value: Unknown


class ClassRecord(Part):
    """One class of one model: its risk with the shown interval, and what an improvement of it is worth.

    `marginal` is the share of the class's risk in the worst case, that is its weight in the worst mix.
    """

    label: Label = Field(alias="class")
    count: Count
    risk: Unknown = None
    lower: Unknown = None
    upper: Unknown = None
    reference_share: Fraction
    marginal: Unknown = None


class CurvePoint(Part):
    """The worst case at one radius; `lower` and `upper` are the interval that is shown, of the kind `interval`.

    `common` is the risk under the mix that is worst for the first model, where that was asked for.
    """

    radius: Number
    plug_in: Unknown = None
    debiased: Unknown = None
    lower: Unknown = None
    upper: Unknown = None
    interval: Literal["debiased", "guaranteed"] | None = None
    cross_fitted: Unknown = None
    guaranteed_upper: Unknown = None
    slack: bool = False
    converged: bool = True
    max_ratio: Unknown = None
    distribution: list[Fraction] | None = None
    common: Unknown = None


class BreakingPoint(Part):
    """The smallest radius at which the worst case reaches a target; infinite if none does."""

    target: Number
    radius: Unknown


class ModelRecord(Part):
    """One model on one split. `average` is the risk at the reference."""

    name: Text
    split: Text | None = None
    average: Unknown
    worst_class: WorstClass | None = None
    classes: list[ClassRecord]
    curve: list[CurvePoint]
    breaking_points: list[BreakingPoint] = Field(default_factory=list)


class ComparisonRecord(Part):
    """The second model's worst case less the first one's, on the same examples."""

    first: Text
    second: Text
    radius: Number
    difference: Unknown
    lower: Unknown = None
    upper: Unknown = None


class Notice(Part):
    """Something that the reader must know to trust the numbers; the code is stable, the message is a sentence."""

    code: Text
    message: Text


class AuditRecord(Part):
    """Everything that an audit found.

    >>> record = AuditRecord(
    ...     version="0.1.0", created="2026-01-01T00:00:00Z", confidence=0.95, metric={"name": "error"},
    ...     set={"name": "kl"}, reference={"source": "uniform", "classes": ["cat"], "distribution": [1]}, models=[],
    ... )
    >>> AuditRecord.from_json(record.to_json()) == record
    True
    """

    schema_name: str = Field(default=SCHEMA, alias="schema")
    version: str
    created: AwareDatetime
    command: Text | None = None
    seed: int | None = None
    confidence: Fraction
    metric: MetricRecord
    uncertainty_set: SetRecord = Field(alias="set")
    reference: ReferenceRecord
    around: AroundRecord | None = None
    inputs: list[InputRecord] = Field(default_factory=list)
    models: list[ModelRecord]
    comparisons: list[ComparisonRecord] = Field(default_factory=list)
    warnings: list[Notice] = Field(default_factory=list)

    @model_validator(mode="after")
    def _distributions_fit(self) -> AuditRecord:
        classes = len(self.reference.classes)
        for point in self._points():
            if point.distribution is not None and len(point.distribution) != classes:
                raise ValueError(f"{classes} classes but a distribution of {len(point.distribution)}")
        return self

    def _points(self) -> Iterator[CurvePoint]:
        return (point for model in self.models for point in model.curve)

    def to_json(self, *, full: bool = False) -> str:
        """Write strict JSON on one line; above 1,000 classes the curve's distributions are left out unless `full`."""
        tree = self.model_dump(mode="json")
        if len(self.reference.classes) > LARGEST_SAVED and not full:
            for model in tree["models"]:
                for point in model["curve"]:
                    point["distribution"] = None
        return json.dumps(tree, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "the record") -> AuditRecord:
        """Read what `to_json` wrote; `source` names the file in error messages."""
        return KIND.parse(cls, text, source)

    def write(self, path: str | os.PathLike[str], *, full: bool = False) -> None:
        """Save the record as JSON, whole or not at all."""
        write_atomically(path, self.to_json(full=full))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> AuditRecord:
        """Read a record that `write` saved."""
        return KIND.read(cls, path)
