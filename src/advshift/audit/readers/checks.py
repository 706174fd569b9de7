"""What the rows of a file must satisfy; each failure names the first row at fault, looked up only once there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from advshift.audit.metrics import TOLERANCE, unnormalised
from advshift.audit.readers.query import Plan, examples_query
from advshift.audit.readers.quoting import literal
from advshift.audit.readers.tables import Database
from advshift.errors import InputError

__all__ = ["PairingError", "check_groups", "check_ids", "file_name", "probability_checks"]


class PairingError(InputError):
    """The rows of several files do not belong to the same examples."""


def file_name(plan: Plan) -> str:
    """Name the files of a model in a message."""
    first = plan.tables[0].name
    return first if len(plan.tables) == 1 else f"{first} and {len(plan.tables) - 1} more"


def probability_checks(plan: Plan, k: int) -> dict[str, str]:
    """What probabilities must satisfy, to be looked at after the one pass over the rows."""
    if not plan.uses_probabilities:
        return {}
    return {
        "most": f"max(m{k}.total)",
        "least": f"min(m{k}.total)",
        "lowest": f"min(m{k}.lowest)",
        "missing": f"sum(m{k}.missing)",
        "widest": f"max(m{k}.width)",
        "narrowest": f"min(m{k}.width)",
    }


def check_ids(database: Database, plan: Plan) -> None:
    """Every example must have an id, and an id of its own."""
    source = f"({examples_query(plan)})"
    query = f"SELECT count(*), count(id), count(DISTINCT id) FROM {source}"
    rows, present, different = database.rows(query, file_name(plan))[0]
    column = plan.columns.id
    if present < rows:
        where = _place(
            plan, *database.rows(f"SELECT part, row FROM {source} WHERE id IS NULL ORDER BY ALL LIMIT 1", "")[0]
        )
        raise InputError(f"{where} has no id in the column {column!r}; fill it in, or drop the column")
    if different < present:
        query = f"SELECT id, count(*) FROM {source} GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT 1"
        example, times = database.rows(query, file_name(plan))[0]
        raise InputError(
            f"{file_name(plan)} has duplicate ids in the column {column!r}, such as {example!r} ({times} times); every "
            "example must count once: drop the copies, or name another column with --id"
        )


def check_groups(database: Database, plans: Sequence[Plan], groups: dict[str, Any]) -> None:
    """Raise if a row had something missing or not finite, naming the first such row."""
    if len(plans) > 1:
        _check_pairs(database, plans, groups)
    if not len(groups["n"]):
        raise InputError(f"{file_name(plans[0])} has a header but no rows; expected one row per example")
    missing_labels = np.ma.getmaskarray(np.ma.asarray(groups["label"])).any()
    position = 0
    for k, plan in enumerate(plans):
        if missing_labels:
            _raise_first(database, plan, "label IS NULL", f"has no label in the column {plan.columns.label!r}")
        _check_known(database, plan, groups["label"])
        _check_probabilities(database, plan, groups, k)
        for i in range(len(plan.metrics)):
            _check_value(database, plan, i, groups, position)
            position += 1


def _check_known(database: Database, plan: Plan, labels: Any) -> None:
    """Labels and predictions must be among the classes, where those are known beforehand."""
    if plan.classes is None:
        return
    known = set(plan.classes)
    unknown = [label for label in labels.tolist() if label not in known]
    listed = ", ".join(map(str, plan.classes[:8])) + (", …" if len(plan.classes) > 8 else "")
    if unknown:
        condition = f"label IN ({', '.join(map(literal, unknown[:100]))})"
        _raise_first(database, plan, condition, "has the label {label!r}, which is not among the classes " + listed)
    if not plan.columns.prediction:
        return
    database.rows("CREATE OR REPLACE TEMP TABLE known AS SELECT unnest($1) AS class", "", [list(plan.classes)])
    condition = "label <> prediction AND prediction NOT IN (SELECT class FROM known)"
    source = f"({examples_query(plan)})"
    rows = database.rows(f"SELECT part, row, prediction FROM {source} WHERE {condition} LIMIT 1", file_name(plan))
    if rows:
        part, row, prediction = rows[0]
        raise InputError(
            f"{_place(plan, part, row)} has the prediction {prediction!r}, which is not among the classes {listed}"
        )


def _check_probabilities(database: Database, plan: Plan, groups: dict[str, Any], k: int) -> None:
    if not plan.uses_probabilities:
        return
    width = len(plan.classes or ())
    # A sum over no number is NULL and a NaN compares as the largest, so neither passes a test for being in range.
    if np.ma.filled(groups[f"missing_{k}"], 1).max() > 0 or np.ma.getmaskarray(groups[f"most_{k}"]).any():
        _raise_first(database, plan, "missing > 0 OR total IS NULL", "has a probability missing")
    narrowest, widest = int(groups[f"narrowest_{k}"].min()), int(groups[f"widest_{k}"].max())
    if (narrowest, widest) != (width, width):
        condition = f"width <> {width}"
        _raise_first(
            database,
            plan,
            condition,
            f"has {narrowest if narrowest != width else widest} probabilities for {width} classes",
        )
    most, least = float(groups[f"most_{k}"].max()), float(groups[f"least_{k}"].min())
    if not (np.isfinite(most) and np.isfinite(least)):
        _raise_first(database, plan, "NOT isfinite(total)", "has a probability that is not a finite number")
    if float(groups[f"lowest_{k}"].min()) < 0:
        _raise_first(database, plan, "lowest < 0", "has a negative probability; give probabilities, not logits")
    if least <= 0:
        _raise_first(database, plan, "total <= 0", "has probabilities that are all zero")
    if max(abs(most - 1), abs(least - 1)) > TOLERANCE and not plan.renormalise:
        _raise_furthest(database, plan)


def _raise_furthest(database: Database, plan: Plan) -> None:
    """Raise for the row of probabilities whose sum is furthest from one."""
    source = f"({examples_query(plan)})"
    query = f"SELECT part, row, total FROM {source} ORDER BY abs(total - 1) DESC, part, row LIMIT 1"
    part, row, total = database.rows(query, file_name(plan))[0]
    raise InputError(unnormalised("probabilities", _place(plan, part, row), total))


def _check_value(database: Database, plan: Plan, i: int, groups: dict[str, Any], position: int) -> None:
    metric, name = plan.metrics[i], f"v{i}"
    if (groups[f"n{position}"] < groups["n"]).any():
        fault = (
            f"has no value in the column {metric.name!r}" if metric.kind == "column" else _missing(plan, metric.kind)
        )
        _raise_first(database, plan, f"{name} IS NULL", fault)
    if not np.isfinite(np.ma.filled(groups[f"p{position}_{position}"], np.nan)).all():
        fault = "has {" + name + "} in the column " + repr(metric.name) + ", which is not a finite number"
        _raise_first(database, plan, f"NOT isfinite({name}) OR NOT isfinite({name} * {name})", fault)


def _missing(plan: Plan, kind: str) -> str:
    if kind == "cost":
        return "has the label {label!r} predicted as {prediction!r}, for which the costs have no entry"
    if plan.columns.prediction:
        return f"has no prediction in the column {plan.columns.prediction!r}"
    return "has a label that is not among the classes of the probabilities"


def _raise_first(database: Database, plan: Plan, condition: str, fault: str) -> None:
    """Raise for the first row that meets a condition; the fault may name the row's fields in braces."""
    query = f"SELECT * FROM ({examples_query(plan)}) WHERE {condition} ORDER BY part, row LIMIT 1"
    found = database.arrays(query, file_name(plan))
    if not len(found["row"]):
        return
    fields = {name: column.tolist()[0] for name, column in found.items()}
    raise InputError(f"{_place(plan, fields['part'], fields['row'])} {fault.format(**fields)}")


def _place(plan: Plan, part: int, row: int) -> str:
    return f"row {row + 1} of {plan.tables[part].name}"


def _check_pairs(database: Database, plans: Sequence[Plan], groups: dict[str, Any]) -> None:
    """Raise unless every example of the first model's files is in all the others, with the same label."""
    joined = int(groups["n"].sum())
    for k, plan in enumerate(plans):
        rows = database.rows(f"SELECT count(*) FROM ({examples_query(plan)})", file_name(plan))[0][0]
        if rows != joined and plan.by_id:
            _raise_unmatched(database, plans, k or 1)
        if rows != joined:
            raise PairingError(f"{file_name(plans[0])} and {file_name(plans[k or 1])} differ in their numbers of rows")
    if groups["differing"].sum():
        by = "the same ids" if plans[0].by_id else "the same rows"
        raise PairingError(f"{file_name(plans[0])} and {file_name(plans[1])} have different labels in {by}")


def _raise_unmatched(database: Database, plans: Sequence[Plan], k: int) -> None:
    for other in [k, *range(1, len(plans))]:
        for have, lack in ((0, other), (other, 0)):
            query = (
                f"SELECT id FROM ({examples_query(plans[have])}) a ANTI JOIN ({examples_query(plans[lack])}) b "
                "USING (id) ORDER BY id LIMIT 1"
            )
            found = database.rows(query, file_name(plans[have]))
            if found:
                raise InputError(
                    f"the ids differ between the files to compare: {found[0][0]!r} is in {file_name(plans[have])} but "
                    f"not in {file_name(plans[lack])}; audit them one by one, or on their common examples"
                )
