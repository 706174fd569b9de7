"""The queries that turn a table of predictions into statistics: all of the work is done by the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advshift.audit.folds import sql_fold_of_id, sql_fold_of_row
from advshift.audit.labels import Label
from advshift.audit.metrics import SMALLEST, Metric
from advshift.audit.readers.columns import Columns
from advshift.audit.readers.quoting import literal, quoted
from advshift.audit.readers.tables import Table
from advshift.errors import InputError

__all__ = ["Plan", "examples_query", "groups_query"]

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
FLOATS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Plan:
    """What to compute of one model's tables.

    Attributes
    ----------
    tables, columns
        The files, and which of their columns holds what.
    metrics
        What to average; for a table of examples they become the columns `v0`, `v1`, ….
    classes
        The classes where they are known beforehand; probabilities follow their order.
    folds, seed
        For the hash of an example's id or place.
    by_id
        Whether the id decides the fold, and pairs the examples of several models.
    renormalise
        Whether rows of probabilities may have any positive sum.
    """

    tables: tuple[Table, ...]
    columns: Columns
    metrics: tuple[Metric, ...]
    classes: tuple[Label, ...] | None
    folds: int
    seed: int
    by_id: bool
    renormalise: bool = False

    @property
    def uses_probabilities(self) -> bool:
        """Whether some metric is computed from the probabilities."""
        return bool(self.columns.probabilities) and any(
            metric.needs_probabilities or (metric.kind == "error" and not self.columns.prediction)
            for metric in self.metrics
        )

    @property
    def as_text(self) -> bool:
        """Whether labels are compared as text: they are text, or the known classes are."""
        text_classes = self.classes is not None and any(isinstance(label, str) for label in self.classes)
        kinds = [_kind(table.types.get(self.columns.label, "")) for table in self.tables]
        if self.columns.prediction:
            kinds += [_kind(table.types.get(self.columns.prediction, "")) for table in self.tables]
        return text_classes or "text" in kinds


def _kind(type_name: str) -> str:
    if type_name in INTEGERS:
        return "whole"
    if type_name in WIDE_INTEGERS:
        return "wide"
    return "float" if type_name in FLOATS else "text"


def examples_query(plan: Plan) -> str:
    """Write the query for one row per example: its place, fold, id, label and values."""
    parts = [_part_query(plan, part, table) for part, table in enumerate(plan.tables)]
    return " UNION ALL ".join(parts)


def _part_query(plan: Plan, part: int, table: Table) -> str:
    columns = plan.columns
    identity = f"CAST({quoted(columns.id)} AS VARCHAR)" if columns.id else "NULL"
    raw = [
        '"@row"',
        f"{identity} AS id",
        f"{_label(table, columns.label, as_text=plan.as_text)} AS label",
    ]
    if columns.prediction:
        raw.append(f"{_label(table, columns.prediction, as_text=plan.as_text)} AS prediction")
    raw += [f"CAST({quoted(m.name)} AS DOUBLE) AS c{i}" for i, m in enumerate(plan.metrics) if m.kind == "column"]
    if plan.uses_probabilities:
        raw.append(f"{_probabilities(columns)} AS p")
    inner = f"SELECT {', '.join(raw)} FROM ({table.numbered})"
    if plan.uses_probabilities:
        inner = f"SELECT *, {_code(plan)} AS code FROM ({inner})"
        inner = f"SELECT *, p[code] AS own, list_sum(p) AS total FROM ({inner})"
    if any(metric.kind == "cost" for metric in plan.metrics):
        inner = f"SELECT x.*, costs.cost FROM ({inner}) x LEFT JOIN costs USING (label, prediction)"
    chosen = ['"@row" AS row', f"{part} AS part", f"{_fold(plan, part)} AS fold", "id", "label"]
    chosen += [f"CAST({_value(plan, i)} AS DOUBLE) AS v{i}" for i in range(len(plan.metrics))]
    if columns.prediction:
        chosen.append("prediction")
    if plan.uses_probabilities:
        chosen += ["total", "list_min(p) AS lowest", "len(p) - list_count(p) AS missing", "len(p) AS width"]
    return f"SELECT {', '.join(chosen)} FROM ({inner})"


def _label(table: Table, column: str, *, as_text: bool) -> str:
    name, type_name = quoted(column), table.types.get(column, "")
    kind = _kind(type_name)
    if type_name == "JSON":
        return f"json_extract_string({name}, '$')"
    if kind == "text":
        return f"trim(CAST({name} AS VARCHAR))" if table.kind in ("csv", "tsv") else f"CAST({name} AS VARCHAR)"
    if as_text:
        # A whole number that is stored as a float is the text of the whole number.
        return f"CAST(CAST({name} AS BIGINT) AS VARCHAR)"
    return f"CAST({name} AS BIGINT)" if kind == "wide" else name


def _probabilities(columns: Columns) -> str:
    if len(columns.probabilities) == 1 and not columns.classes:
        return f"CAST({quoted(columns.probabilities[0])} AS DOUBLE[])"
    listed = ", ".join(f"CAST({quoted(name)} AS DOUBLE)" for name in columns.probabilities)
    return f"[{listed}]"


def _code(plan: Plan) -> str:
    """The column, from 1, of the true class among the probabilities; NULL for a label that has none."""
    classes = plan.classes
    if classes is None:
        raise InputError("the classes of the probabilities are not known")
    if classes == tuple(range(len(classes))):
        return f"CASE WHEN label BETWEEN 0 AND {len(classes) - 1} THEN CAST(label AS BIGINT) + 1 END"
    return f"nullif(list_position([{', '.join(map(literal, classes))}], label), 0)"


def _fold(plan: Plan, part: int) -> str:
    if plan.by_id:
        return sql_fold_of_id("id", plan.folds, plan.seed)
    return sql_fold_of_row('"@row"', plan.tables[part].name, plan.folds, plan.seed)


def _value(plan: Plan, i: int) -> str:
    """One value as an expression; NULL where something is missing. Ties are broken as for arrays."""
    metric = plan.metrics[i]
    if metric.kind == "column":
        return f"c{i}"
    if metric.kind == "cost":
        return "cost"
    if metric.kind == "error" and plan.columns.prediction:
        return "label <> prediction"
    if metric.kind == "error":
        return "list_position(p, list_max(p)) <> code"
    if metric.kind == "top-k":
        # One comparison per class, each over a whole vector of rows: far quicker than sorting every row's list.
        reached = " + ".join(f"CAST(p[{k}] >= own AS INTEGER)" for k in range(1, len(plan.classes or ()) + 1))
        return f"({reached}) > {metric.k}"
    if metric.kind == "log-loss":
        return f"-ln(greatest(own / total, {SMALLEST!r}))"
    return "list_inner_product(p, p) / (total * total) - 2.0 * own / total + 1.0"


def groups_query(source: str, values: Sequence[str], *, label: str, fold: str, extra: Sequence[str] = ()) -> str:
    """Write the query for one row per class and fold: count, sums and sums of products."""
    sums = [f"sum({value}) AS s{i}" for i, value in enumerate(values)]
    present = [f"count({value}) AS n{i}" for i, value in enumerate(values)]
    products = [
        f"sum({values[i]} * {values[j]}) AS p{i}_{j}" for i in range(len(values)) for j in range(i, len(values))
    ]
    chosen = [f"{label} AS label", f"{fold} AS fold", "count(*) AS n", *present, *sums, *products, *extra]
    return f"SELECT {', '.join(chosen)} FROM {source} GROUP BY {label}, {fold}"
