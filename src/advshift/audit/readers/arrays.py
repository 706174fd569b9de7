"""Examples in arrays: what Python hands over, and what NPZ and NPY files hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advshift.audit.labels import Label, as_labels
from advshift.audit.metrics import (
    Metric,
    as_metric,
    check_probabilities,
    values_of_predictions,
    values_of_probabilities,
)
from advshift.audit.reading import Input, Options, Reading, Warned
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy

__all__ = ["Examples", "read_arrays"]


@dataclass(frozen=True)
class Examples:
    """One model's examples as arrays; `name` and `source` are the model's and the file's."""

    name: str
    labels: Any
    predictions: Any = None
    probabilities: Any = None
    losses: Any = None
    ids: Any = None
    classes: tuple[Label, ...] | None = None
    source: str = "arrays"
    loss_name: str = "loss"


def read_arrays(models: Sequence[Examples], options: Options, inputs: Sequence[Input] = ()) -> Reading:
    """Turn arrays of one or several models into statistics."""
    metric = _metric(models[0], options)
    labels = [_labels(model, options) for model in models]
    values = [_values(model, own, metric, options) for model, own in zip(models, labels, strict=True)]
    rows = [Input(model.name, len(own)) for model, own in zip(models, labels, strict=True)]
    names = tuple(model.name for model in models)
    reading = Reading(names, (), metric, list(inputs) or rows)
    fault = _align(models, labels, values)
    if fault is None:
        reading.statistics = (_statistics(models[0], labels[0], np.stack(values, axis=-1), names, options),)
        return reading
    reading.warnings.append(Warned("unpaired", f"The models cannot be compared example by example: {fault}."))
    reading.statistics = tuple(
        _statistics(model, own, value[:, None], (model.name,), options)
        for model, own, value in zip(models, labels, values, strict=True)
    )
    return reading


def _metric(model: Examples, options: Options) -> Metric:
    guessed = model.predictions is not None or model.probabilities is not None
    name = options.metric or ("error" if guessed else model.loss_name)
    columns = () if model.losses is None else tuple({model.loss_name, "loss"})
    return as_metric(name, costs=options.costs, bounds=options.bounds, columns=columns)


def _labels(model: Examples, options: Options) -> Any:
    labels = as_labels(model.labels, f"the labels of {model.name}")
    if not len(labels):
        raise InputError(f"{model.name} has no examples; expected at least one label")
    if options.classes is not None:
        if any(isinstance(label, str) for label in options.classes):
            labels = labels.astype(str)
        _check_known(labels, options.classes, "label", model.name)
    return labels


def _check_known(labels: Any, classes: Sequence[Label], what: str, name: str) -> None:
    unknown = np.flatnonzero(~np.isin(labels, np.array(classes)))
    if unknown.size:
        row = int(unknown[0])
        shown = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
        raise InputError(
            f"{name}: example {row} (counted from 0) has the {what} {labels[row].item()!r}, which is not among the "
            f"classes {shown}"
        )


def _values(model: Examples, labels: Any, metric: Metric, options: Options) -> Any:
    if metric.kind == "column":
        return _checked_losses(model, len(labels))
    if metric.kind == "cost" or (metric.kind == "error" and model.predictions is not None):
        return values_of_predictions(metric, *_comparable(labels, _predictions(model, len(labels), options)))
    if model.probabilities is None:
        raise InputError(f"the metric {metric.name!r} needs probabilities; {model.name} has none")
    probabilities = as_numpy(model.probabilities).astype(np.float64)
    if probabilities.ndim != 2 or len(probabilities) != len(labels):
        raise InputError(
            f"the probabilities of {model.name} must have one row for each of the {len(labels)} labels and one column "
            f"per class; got shape {probabilities.shape}"
        )
    check_probabilities(probabilities, renormalise=options.renormalise, name=f"the probabilities of {model.name}")
    return values_of_probabilities(metric, probabilities, _codes(model, labels, probabilities.shape[1], options))


def _checked_losses(model: Examples, examples: int) -> Any:
    losses = as_numpy(model.losses)
    if losses.shape != (examples,) or losses.dtype.kind not in "fiub":
        raise InputError(
            f"the losses of {model.name} must be one number for each of the {examples} labels; "
            f"got shape {losses.shape} of dtype {losses.dtype}"
        )
    return losses.astype(np.float64)


def _predictions(model: Examples, examples: int, options: Options) -> Any:
    if model.predictions is None:
        raise InputError(f"{model.name} has no predictions, which this metric needs")
    predictions = as_labels(model.predictions, f"the predictions of {model.name}")
    if len(predictions) != examples:
        raise InputError(f"{model.name} has {len(predictions)} predictions for {examples} labels; give one for each")
    if options.classes is not None:
        if any(isinstance(label, str) for label in options.classes):
            predictions = predictions.astype(str)
        _check_known(predictions, options.classes, "prediction", model.name)
    return predictions


def _comparable(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Compare as text if one side is text."""
    if labels.dtype.kind == predictions.dtype.kind:
        return labels, predictions
    return labels.astype(str), predictions.astype(str)


def _codes(model: Examples, labels: Any, width: int, options: Options) -> Any:
    """The column of each true class among the probabilities."""
    classes = model.classes or options.classes
    if classes is None and labels.dtype.kind != "i":
        raise InputError(
            f"the labels of {model.name} are text, so it must be said which class each column of the probabilities is: "
            "give the classes in the order of the columns"
        )
    classes = tuple(range(width)) if classes is None else classes
    if len(classes) != width:
        raise InputError(f"{model.name} has {width} columns of probabilities for {len(classes)} classes")
    _check_known(labels, classes, "label", model.name)
    order = np.argsort(np.array(classes))
    return order[np.searchsorted(np.array(classes), labels, sorter=order)]


def _align(models: Sequence[Examples], labels: list[Any], values: list[Any]) -> str | None:
    """Put all models' examples in the first one's order; return why that cannot be done, if it cannot."""
    for k in range(1, len(models)):
        if models[0].ids is not None and models[k].ids is not None and models[k].ids is not models[0].ids:
            order = _order_by_id(models[0], models[k])
            labels[k], values[k] = labels[k][order], values[k][order]
        if not np.array_equal(labels[0], labels[k]):
            return f"the labels of {models[0].name} and {models[k].name} differ"
    return None


def _order_by_id(first: Examples, second: Examples) -> Any:
    """Where each of the first model's ids is among the second's."""
    place = {str(one): row for row, one in enumerate(as_numpy(second.ids).tolist())}
    wanted = [str(one) for one in as_numpy(first.ids).tolist()]
    known = set(wanted)
    lacking = [one for one in wanted if one not in place] or [one for one in place if one not in known]
    if lacking:
        raise InputError(
            f"the ids differ between the models to compare: {lacking[0]!r} is in only one of {first.name} and "
            f"{second.name}; audit them one by one, or on their common examples"
        )
    return np.array([place[one] for one in wanted])


def _statistics(model: Examples, labels: Any, values: Any, names: Sequence[str], options: Options) -> ClassStatistics:
    if model.ids is not None:
        (example, times), *_ = Counter(str(one) for one in as_numpy(model.ids).tolist()).most_common(1)
        if times > 1:
            raise InputError(f"{model.name} has duplicate ids, such as {example!r}; every example must count once")
    statistics = ClassStatistics(names, classes=options.classes or (), folds=options.folds, seed=options.seed)
    statistics.update(labels, values, ids=model.ids, source=model.source)
    return statistics
