"""An audit from Python: the function behind `advshift.audit(...)`, and what it returns."""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advshift.audit.assemble import Question, assemble
from advshift.audit.estimates import EmptyClass
from advshift.audit.feared import feared_mixes
from advshift.audit.labels import Label, as_labels
from advshift.audit.metrics import as_metric
from advshift.audit.readers import Examples, Options, read_arrays
from advshift.audit.reading import Input, Reading
from advshift.audit.record import AuditRecord
from advshift.audit.references import Reference, reference_of
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError, require
from advshift.numerics.backend import as_numpy
from advshift.types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AuditResult", "audit", "audit_statistics"]


class AuditResult:
    """What an audit found: `record` holds everything, the methods show it.

    In a notebook the result shows its report.
    """

    def __init__(self, record: AuditRecord) -> None:
        self.record = record

    def __repr__(self) -> str:
        models = ", ".join(model.name for model in self.record.models)
        return f"AuditResult({self.record.metric.name} of {models}; set {self.record.uncertainty_set.name})"

    def to_frame(self) -> Any:
        """The curves as a pandas DataFrame: one row per model and radius, without the distributions."""
        pandas = require("pandas", "AuditResult.to_frame", "dataframe")
        return pandas.DataFrame(curve_rows(self.record))

    def to_json(self, path: str | os.PathLike[str] | None = None, *, full: bool = False) -> str:
        """Return the record as strict JSON, and save it where a path is given.

        Parameters
        ----------
        path
            Where to save it, whole or not at all.
        full
            Whether to keep the worst mixes even with more than 1,000 classes.
        """
        if path is not None:
            self.record.write(path, full=full)
        return self.record.to_json(full=full)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one offline HTML page, and save it where a path is given."""
        from advshift import report
        from advshift.files import write_atomically

        page = report.html(self.record)
        if path is not None:
            write_atomically(path, page)
        return page

    def plot(self, theme: str = "light") -> Figure:
        """Draw the curves, the classes' risks and the worst mixes as a matplotlib figure."""
        from advshift.report import plot

        return plot(self.record, theme)

    def _repr_html_(self) -> str:
        # A frame of its own keeps the page's styles from the notebook's, and the notebook's from the page.
        page = html.escape(self.to_html())
        return f'<iframe srcdoc="{page}" title="advshift audit" width="100%" height="800" loading="lazy"></iframe>'


def curve_rows(record: AuditRecord) -> list[dict[str, Any]]:
    """The curves as rows of plain values, as tables and CSV have them."""
    return [
        {"model": model.name, "metric": record.metric.name, **point.model_dump(exclude={"distribution"})}
        for model in record.models
        for point in model.curve
    ]


def curve_csv(record: AuditRecord) -> str:
    """The curves as CSV; unknown numbers are empty."""
    rows = curve_rows(record)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def audit(
    labels: Any,
    predictions: Any = None,
    reference: Any = None,
    *,
    probabilities: Any = None,
    losses: Any = None,
    classes: Sequence[Label] | None = None,
    ids: Any = None,
    metric: str | None = None,
    set: str | None = None,  # noqa: A002 - the command's word
    radii: ArrayLike | None = None,
    max_ratio: ArrayLike | None = None,
    ranges: Mapping[str, Any] | None = None,
    costs: Any = None,
    bounds: tuple[float | int, float | int] | None = None,
    targets: ArrayLike | None = None,
    common: bool = False,
    confidence: float = 0.95,
    empty_class: EmptyClass = "worst",
    renormalise: bool = False,
    seed: int = 0,
) -> AuditResult:
    """Find how bad classifiers can get when the mix of classes moves.

    Arrays may be NumPy arrays, lists, pandas Series or tensors. To compare models on the same examples, give a mapping
    from their names to arrays.

    Parameters
    ----------
    labels
        The true class of each example: whole numbers or text.
    predictions
        The predicted classes; an array with two axes is taken for probabilities.
    reference
        The mix around which the mix moves: `"empirical"` (the default: the shares in `labels`), `"uniform"`, a mapping
        from classes to shares or counts, or shares in the order of the sorted classes.
    probabilities
        One row per example, one column per class.
    losses
        One number per example, higher being worse.
    classes
        The classes in the order of the columns of the probabilities; other labels are then faults.
    ids
        A name for each example, which decides its fold.
    metric
        `error`, `top-5`, `log-loss`, `brier`, `cost` or `loss`; by default the first that the arrays suffice for.
    set, radii, max_ratio, ranges
        The mixes that are feared: an uncertainty set and its radii; or "no class more than so many times as frequent";
        or, for the set `box`, the `lower` and `upper` shares of the sorted classes.
    costs
        For the metric `cost`: a mapping from (label, prediction) to a cost, or a square array over the sorted classes.
    bounds
        What the losses cannot leave, if there is such a range; a guaranteed bound needs it.
    targets
        Risks for which the breaking point is wanted.
    common
        Whether to judge every model under the first one's worst mixes too.
    confidence
        Of intervals and bounds.
    empty_class
        What is assumed of a class without examples that the reference gives mass to: `worst`, `average`, `exclude`.
    renormalise
        Whether rows of probabilities may have any positive sum.
    seed
        Of the folds and of whatever is drawn at random.

    >>> result = advshift.audit([0, 0, 0, 1], [0, 0, 0, 0], max_ratio=2)
    >>> result.record.models[0].curve[0].plug_in
    0.5
    """
    own = tuple(classes) if classes is not None else None
    named = costs if costs is None or isinstance(costs, Mapping) else _cost_pairs(costs, labels, own)
    options = Options(metric=metric, costs=named, bounds=bounds, classes=own, seed=seed, renormalise=renormalise)
    reading = read_arrays(_models(labels, predictions, probabilities, losses, ids), options)
    question = _question(
        reading,
        reference,
        mixes=(set, _numbers(radii), _numbers(max_ratio), None if ranges is None else dict(ranges)),
        confidence=confidence,
        empty_class=empty_class,
        targets=_numbers(targets),
        common=common,
        seed=seed,
    )
    return AuditResult(assemble(reading, *question))


def audit_statistics(
    statistics: ClassStatistics,
    reference: Any = None,
    *,
    metric: str = "error",
    set: str | None = None,  # noqa: A002 - the command's word
    radii: ArrayLike | None = None,
    max_ratio: ArrayLike | None = None,
    bounds: tuple[float | int, float | int] | None = None,
    targets: ArrayLike | None = None,
    confidence: float = 0.95,
    empty_class: EmptyClass = "worst",
    seed: int = 0,
) -> AuditResult:
    """Audit statistics that were merged from several machines; each of their values is a model.

    Parameters
    ----------
    statistics
        All models' statistics, on the same examples.
    metric
        What the values are.
    reference, set, radii, max_ratio, bounds, targets, confidence, empty_class, seed
        As in `audit`.

    >>> statistics = advshift.audit.ClassStatistics(["model"])
    >>> statistics.update([0, 0, 0, 1], {"model": [0, 0, 0, 1]})
    >>> advshift.results.audit_statistics(statistics, max_ratio=2).record.models[0].curve[0].plug_in
    0.5
    """
    measured = as_metric(metric, bounds=bounds, columns=(metric,))
    inputs = [Input(name, int(statistics.count.sum())) for name in statistics.values]
    reading = Reading(statistics.values, (statistics,), measured, inputs)
    question = _question(
        reading,
        reference,
        mixes=(set, _numbers(radii), _numbers(max_ratio), None),
        confidence=confidence,
        empty_class=empty_class,
        targets=_numbers(targets),
        seed=seed,
    )
    return AuditResult(assemble(reading, *question))


def _question(reading: Reading, reference: Any, *, mixes: Any, **rest: Any) -> tuple[Reference, Question]:
    """Settle the reference, which may need the data's classes, and then the mixes, which may need the reference."""
    counts = sum(one.over(reading.classes).count for one in reading.statistics)
    centre = reference_of(reference, reading.classes, counts)
    name, radii, ratios, ranges = mixes
    carrying = int(np.count_nonzero(centre.distribution))
    return centre, Question(feared=feared_mixes(name, radii, ratios, classes=carrying, ranges=ranges), **rest)


def _numbers(value: ArrayLike | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        return tuple(np.atleast_1d(as_numpy(value)).astype(np.float64).tolist())
    except (TypeError, ValueError):
        raise InputError(f"expected a number or several; got {value!r}") from None


def _models(labels: Any, predictions: Any, probabilities: Any, losses: Any, ids: Any) -> list[Examples]:
    """Give each model its arrays; a mapping names several."""
    given = {"predictions": predictions, "probabilities": probabilities, "losses": losses}
    given = {role: value for role, value in given.items() if value is not None}
    if not given:
        raise InputError("give predictions, probabilities or losses")
    names = next((list(value) for value in given.values() if isinstance(value, Mapping)), ["model"])
    models = []
    for name in names:
        arrays = {role: value[name] if isinstance(value, Mapping) else value for role, value in given.items()}
        if "predictions" in arrays and np.ndim(as_numpy(arrays["predictions"])) == 2:
            arrays.setdefault("probabilities", arrays.pop("predictions"))
        models.append(Examples(str(name), labels, ids=ids, **arrays))
    return models


def _cost_pairs(costs: Any, labels: Any, classes: Sequence[Label] | None) -> dict[tuple[Label, Label], float]:
    known = list(classes) if classes is not None else np.unique(as_labels(labels)).tolist()
    matrix = as_numpy(costs)
    if matrix.shape != (len(known), len(known)):
        raise InputError(
            f"the costs must be a square array over the {len(known)} classes, labels in rows; got {matrix.shape}"
        )
    return {
        (label, guess): float(matrix[row, column])
        for row, label in enumerate(known)
        for column, guess in enumerate(known)
    }
