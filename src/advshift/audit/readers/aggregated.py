"""Tables that are aggregated already: a row per class, or per class and fold, or several that add up."""

from __future__ import annotations

from typing import Any

import numpy as np

from advshift.audit.labels import EXACT
from advshift.audit.metrics import Metric, as_metric
from advshift.audit.readers.columns import Wanted, usual
from advshift.audit.readers.quoting import quoted
from advshift.audit.readers.tables import Database, Table, union
from advshift.audit.reading import Options
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError

__all__ = ["read_aggregated"]

MOST_FOLDS = 1000


def read_aggregated(
    database: Database, tables: tuple[Table, ...], wanted: Wanted, options: Options, model: str
) -> tuple[ClassStatistics, Metric, str]:
    """Read counts and sums per class into statistics with one fold, or with the folds that a column gives."""
    names = list(tables[0].types)
    file = tables[0].name
    roles = {role: usual(role, names) for role in ("label", "count", "errors", "value_sum", "value_square_sum")}
    roles["label"] = wanted.label or roles["label"]
    roles["fold"] = next((name for name in names if name.lower() == "fold"), None)
    metric = _metric(roles, options, file)
    if roles["errors"]:
        roles["value_sum"] = roles["value_square_sum"] = roles["errors"]
    chosen = [_column(role, name) for role, name in roles.items() if name and role != "errors"]
    numbers = [name for role, name in roles.items() if name and role not in ("label", "fold")]
    tables = tuple(table.retyped(dict.fromkeys(numbers, "DOUBLE")) for table in tables)
    columns = database.arrays(f"SELECT {', '.join(chosen)} FROM ({union(tables)})", file)
    rows = _checked(columns, metric, file)
    statistics = ClassStatistics([model], classes=options.classes or (), folds=_folds(rows), seed=options.seed)
    _check_known(rows["label"], options, file)
    statistics.add_groups(
        rows["label"], rows["fold"], rows["count"], rows["value_sum"][:, None], rows["value_square_sum"][:, None, None]
    )
    found = ", ".join(f"{role} = {name}" for role, name in roles.items() if name)
    return statistics, metric, f"aggregated: {found}"


def _metric(roles: dict[str, Any], options: Options, file: str) -> Metric:
    if roles["errors"]:
        if options.metric not in (None, "error"):
            raise InputError(f"{file} holds counts of errors; the metric {options.metric!r} cannot be had from them")
        return as_metric("error")
    if not roles["value_square_sum"]:
        raise InputError(
            f"{file} has sums of values ({roles['value_sum']}) but not of their squares; add value_square_sum, without "
            "which nothing can be said of the uncertainty"
        )
    name = options.metric or "value"
    return Metric(name, "column", bounds=options.bounds)


def _column(role: str, name: str) -> str:
    if role == "label":
        return f"{quoted(name)} AS label"
    kind = "BIGINT" if role == "fold" else "DOUBLE"
    return f"CAST({quoted(name)} AS {kind}) AS {role}"


def _checked(columns: dict[str, Any], metric: Metric, file: str) -> dict[str, Any]:
    if not len(columns["count"]):
        raise InputError(f"{file} has a header but no rows; expected one row per class")
    for role, column in columns.items():
        missing = np.ma.getmaskarray(np.ma.asarray(column))
        if role != "label":
            missing = missing | ~np.isfinite(np.ma.filled(np.ma.asarray(column, dtype=np.float64), np.nan))
        if missing.any():
            raise InputError(f"row {int(np.argmax(missing)) + 1} of {file} has no finite number in its {role}")
    rows: dict[str, Any] = {role: np.asarray(column) for role, column in columns.items()}
    rows["label"] = [_label(label, file) for label in rows["label"].tolist()]
    counts, sums, squares = rows["count"], rows["value_sum"], rows["value_square_sum"]
    _refuse(
        (counts < 0) | (counts > EXACT) | (counts != np.round(counts)),
        "a count that is not a whole number from 0 up",
        file,
    )
    if metric.kind == "error":
        wrong = (sums < 0) | (sums > counts) | (sums != np.round(sums))
        _refuse(wrong, "errors that are not a whole number between 0 and the count", file)
    _refuse((counts == 0) & ((sums != 0) | (squares != 0)), "values but no examples", file)
    _refuse(squares * counts < sums**2 * (1 - 1e-9), "a sum of squares that is too small for its sum", file)
    rows["count"] = counts.astype(np.int64)
    rows["fold"] = np.asarray(rows.get("fold", np.zeros(len(counts))), dtype=np.int64)
    _refuse((rows["fold"] < 0) | (rows["fold"] >= MOST_FOLDS), f"a fold that is not from 0 to {MOST_FOLDS - 1}", file)
    return rows


def _refuse(wrong: Any, fault: str, file: str) -> None:
    if wrong.any():
        raise InputError(f"row {int(np.argmax(wrong)) + 1} of {file} has {fault}")


def _label(label: Any, file: str) -> Any:
    if isinstance(label, float):
        if not label.is_integer():
            raise InputError(f"labels must be whole numbers or text; {file} has {label!r}")
        return int(label)
    return label if isinstance(label, int) else str(label)


def _folds(rows: dict[str, Any]) -> int:
    return int(rows["fold"].max()) + 1


def _check_known(labels: list[Any], options: Options, file: str) -> None:
    if options.classes is None:
        return
    unknown = next((label for label in labels if label not in set(options.classes)), None)
    if unknown is not None:
        raise InputError(f"{file} has the class {unknown!r}, which is not among those of the reference")
