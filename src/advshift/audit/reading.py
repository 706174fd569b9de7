"""What readers hand to the audit: statistics per model, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advshift.audit.folds import FOLDS
from advshift.audit.labels import Label
from advshift.audit.metrics import Metric
from advshift.audit.statistics import ClassStatistics

__all__ = ["Input", "Options", "Reading", "Warned"]


@dataclass(frozen=True)
class Input:
    """A file that was read, or arrays that were given."""

    model: str
    rows: int
    path: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Warned:
    """Something that the reader of an audit must know; the code is stable, the message is a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class Options:
    """How examples are read, whatever they come in.

    Attributes
    ----------
    metric
        What to average; None takes the error where there are predictions or probabilities, else the loss.
    costs
        The cost of each prediction (second) for each label (first), for the metric `cost`.
    bounds
        What the values of a column cannot leave.
    classes
        The classes, where they are known beforehand: other labels are then faults.
    folds, seed
        For the hash that deals examples to folds.
    renormalise
        Whether probabilities need not sum to one.
    """

    metric: str | None = None
    costs: Mapping[tuple[Label, Label], float] | None = None
    bounds: tuple[float | int, float | int] | None = None
    classes: tuple[Label, ...] | None = None
    folds: int = FOLDS
    seed: int = 0
    renormalise: bool = False


@dataclass
class Reading:
    """Statistics of one or several models.

    Attributes
    ----------
    models
        Their names.
    statistics
        One for all models, with a value for each, if they were run on the same examples; else one for each model.
    metric
        What was averaged.
    inputs, notices, warnings
        What was read, what was found in it (for the reader's information), and what must be known.
    """

    models: tuple[str, ...]
    statistics: tuple[ClassStatistics, ...]
    metric: Metric
    inputs: list[Input] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)

    @property
    def paired(self) -> bool:
        """Whether all models were run on the same examples, one by one."""
        return len(self.statistics) == 1

    def of_model(self, model: int) -> tuple[ClassStatistics, int]:
        """The statistics that hold a model, and its column in them."""
        return (self.statistics[0], model) if self.paired else (self.statistics[model], 0)

    @property
    def classes(self) -> tuple[Label, ...]:
        """All classes of all models."""
        merged = ClassStatistics(["_"], classes=[c for one in self.statistics for c in one.classes])
        return merged.classes
