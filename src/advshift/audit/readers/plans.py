"""How a model's tables are to be read: which metric, which types, which classes."""

from __future__ import annotations

from dataclasses import replace

from advshift.audit.labels import Label
from advshift.audit.metrics import Metric, as_metric
from advshift.audit.readers.columns import Columns
from advshift.audit.readers.query import Plan
from advshift.audit.readers.quoting import quoted
from advshift.audit.readers.tables import Database, Table
from advshift.audit.reading import Options
from advshift.errors import InputError

__all__ = ["metric_of", "plan_of", "store_costs"]


def metric_of(columns: Columns, options: Options, table: Table) -> Metric:
    """Find the metric, and refuse one that the columns do not suffice for."""
    guessed = columns.prediction or columns.probabilities
    name = options.metric or ("error" if guessed else columns.loss) or "error"
    if name == "loss" and columns.loss:
        name = columns.loss
    metric = as_metric(name, costs=options.costs, bounds=options.bounds, columns=tuple(table.types))
    if metric.needs_probabilities and not columns.probabilities:
        raise InputError(f"the metric {metric.name!r} needs probabilities; {table.name} has {columns.describe()}")
    if metric.kind in ("cost", "error") and not columns.prediction and (metric.kind == "cost" or not guessed):
        raise InputError(f"the metric {metric.name!r} needs predictions; {table.name} has {columns.describe()}")
    return metric


def plan_of(
    database: Database,
    tables: tuple[Table, ...],
    columns: Columns,
    metric: Metric,
    options: Options,
    *,
    by_id: bool,
) -> Plan:
    """Decide how a model's tables are read: the types of text columns, and the classes of probabilities."""
    if metric.kind == "column" and metric.name not in tables[0].types:
        metric = replace(metric, name=columns.loss or metric.name)
    numbers = [metric.name] if metric.kind == "column" else []
    _check_alike(tables, [columns.label, columns.prediction, columns.id, *columns.probabilities, *numbers])
    types = dict.fromkeys([*columns.probabilities, *numbers], "DOUBLE")
    if columns.id:
        types[columns.id] = "VARCHAR"
    tables = tuple(table.retyped(types) for table in tables)
    plan = Plan(tables, columns, (metric,), options.classes, options.folds, options.seed, by_id, options.renormalise)
    return replace(plan, classes=_classes(database, plan, options)) if plan.uses_probabilities else plan


def _check_alike(tables: tuple[Table, ...], columns: list[str | None]) -> None:
    """All files of a model must have the columns that the first one has."""
    for table in tables[1:]:
        lacking = next((column for column in columns if column and column not in table.types), None)
        if lacking is not None:
            raise InputError(
                f"{table.name} has no column {lacking!r}, which {tables[0].name} has; the files of one model must have "
                "the same columns"
            )


def _classes(database: Database, plan: Plan, options: Options) -> tuple[Label, ...]:
    """The classes of the columns of probabilities, in their order."""
    columns, table = plan.columns, plan.tables[0]
    if columns.classes:
        whole = all(name.isdecimal() and str(int(name)) == name for name in columns.classes)
        return tuple(map(int, columns.classes)) if whole and not plan.as_text else columns.classes
    if options.classes is not None:
        return options.classes
    if plan.as_text:
        raise InputError(
            f"the labels of {table.name} are text and its probabilities are one list: say which class each number "
            "belongs to with --classes"
        )
    # Of the first row only: that the others are as wide is checked when they are read.
    column = quoted(columns.probabilities[0])
    rows = database.rows(f"SELECT len({column}) FROM {table.scan} LIMIT 1", table.name)
    return tuple(range(rows[0][0] or 0)) if rows else ()


def store_costs(database: Database, metric: Metric) -> None:
    """Put the costs into a table, with labels as the examples have them."""
    labels, predictions = zip(*metric.costs, strict=True)
    database.rows(
        "CREATE OR REPLACE TEMP TABLE costs AS "
        "SELECT unnest($1) AS label, unnest($2) AS prediction, unnest($3) AS cost",
        "the costs",
        [list(labels), list(predictions), list(metric.costs.values())],
    )
