"""Read the files of one or several models, one row per example, into statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advshift.audit.labels import Label, sorted_labels
from advshift.audit.readers.checks import check_groups, check_ids, file_name, probability_checks
from advshift.audit.readers.query import Plan, examples_query, groups_query
from advshift.audit.readers.tables import Database, NotANumberError
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError

__all__ = ["read_paired", "read_single"]


def read_single(database: Database, plan: Plan, names: Sequence[str]) -> ClassStatistics:
    """Read one model's files; `names` are the names of the metrics' values."""
    return _retrying(_read, database, [plan], names)


def read_paired(database: Database, plans: Sequence[Plan], names: Sequence[str]) -> ClassStatistics:
    """Read the files of several models on the same examples: their ids agree, or the labels do row by row."""
    return _retrying(_read, database, list(plans), names)


def _retrying(function: Any, database: Database, plans: list[Plan], names: Sequence[str]) -> ClassStatistics:
    """Read labels as text, if what looked like numbers turns out to be text further down."""
    try:
        statistics: ClassStatistics = function(database, plans, names)
    except NotANumberError as error:
        if not any(error.column in (plan.columns.label, plan.columns.prediction) for plan in plans):
            raise
        statistics = function(database, [_as_text(plan) for plan in plans], names)
    return statistics


def _as_text(plan: Plan) -> Plan:
    columns = [column for column in (plan.columns.label, plan.columns.prediction) if column]
    return replace(plan, tables=tuple(table.retyped(dict.fromkeys(columns, "VARCHAR")) for table in plan.tables))


def _read(database: Database, plans: list[Plan], names: Sequence[str]) -> ClassStatistics:
    files = " and ".join(file_name(plan) for plan in plans)
    for plan in plans:
        if plan.columns.id:
            check_ids(database, plan)
    values = [f"m{k}.v{i}" for k, plan in enumerate(plans) for i in range(len(plan.metrics))]
    extra = [
        f"{check} AS {name}_{k}" for k, plan in enumerate(plans) for name, check in probability_checks(plan, k).items()
    ]
    if len(plans) > 1:
        differing = " OR ".join(f"m{k}.label IS DISTINCT FROM m0.label" for k in range(1, len(plans)))
        extra.append(f"count_if({differing}) AS differing")
    query = groups_query(_join(plans), values, label="m0.label", fold="m0.fold", extra=extra)
    groups = database.arrays(query, files)
    check_groups(database, plans, groups)
    return _collect(plans, groups, names)


def _join(plans: Sequence[Plan]) -> str:
    source = f"({examples_query(plans[0])}) m0"
    for k, plan in enumerate(plans[1:], start=1):
        if plan.by_id:
            source += f" JOIN ({examples_query(plan)}) m{k} ON m{k}.id = m0.id"
        else:
            source += f" POSITIONAL JOIN ({examples_query(plan)}) m{k}"
    return source


def _collect(plans: Sequence[Plan], groups: dict[str, Any], names: Sequence[str]) -> ClassStatistics:
    """Put the rows of the grouped query into statistics."""
    plan = plans[0]
    labels = _labels(plan, groups["label"])
    count = len(names)
    sums = np.stack([np.asarray(groups[f"s{i}"], dtype=np.float64) for i in range(count)], axis=-1)
    products = np.zeros((len(labels), count, count))
    for i in range(count):
        for j in range(i, count):
            products[:, i, j] = products[:, j, i] = np.asarray(groups[f"p{i}_{j}"], dtype=np.float64)
    statistics = ClassStatistics(names, classes=plan.classes or (), folds=plan.folds, seed=plan.seed)
    counts = np.asarray(groups["n"], dtype=np.int64)
    statistics.add_groups(labels, np.asarray(groups["fold"], dtype=np.int64), counts, sums, products)
    return statistics


def _labels(plan: Plan, column: Any) -> list[Label]:
    listed: list[Any] = column.tolist()
    for label in listed:
        if isinstance(label, float) and not label.is_integer():
            raise InputError(
                f"labels must be whole numbers or text; the column {plan.columns.label!r} of {file_name(plan)} "
                f"has {label!r}"
            )
    if any(isinstance(label, float) for label in listed):
        listed = [int(label) for label in listed]
    sorted_labels(listed)
    return listed
