"""Label distributions in files: the reference, costs, ranges, lists of classes, and the history of a mix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.audit.labels import Label, as_label, as_labels
from advshift.audit.readers.columns import usual
from advshift.audit.readers.quoting import quoted
from advshift.audit.readers.sources import open_source
from advshift.audit.readers.tables import Database, NotANumberError, Table, open_database, open_table, union
from advshift.audit.references import Reference, reference_of_counts
from advshift.errors import InputError
from advshift.registry import nearest
from advshift.types import Array

__all__ = ["columns_of", "numbers", "read_classes", "read_costs", "read_ranges", "read_reference", "read_table"]

SHARES = ("share", "shares", "count", "counts", "frequency", "proportion", "probability", "prior", "n", "weight")


def read_table(file: str, columns: Sequence[Sequence[str]], what: str) -> dict[str, Any]:
    """Read whole columns of a small table: the first of each role's usual names that is there."""
    with open_source(file) as source, open_database() as database:
        if source.kind in ("npz", "npy"):
            raise InputError(f"{source.name} is a NumPy file; {what} must be a table: CSV, TSV, JSON lines or Parquet")
        tables = tuple(open_table(database, path, source.kind, source.name) for path in source.paths)
        names = list(tables[0].types)
        folded = {name.lower().strip(): name for name in reversed(names)}
        chosen = {}
        for role in columns:
            found = next((folded[name] for name in role if name in folded), None)
            if found is None:
                raise InputError(
                    f"{source.name} has no column {role[0]!r}, which {what} needs (its columns: {', '.join(names)})"
                )
            chosen[role[0]] = found
        return columns_of(database, tables, chosen, source.name)


def columns_of(database: Database, tables: Sequence[Table], chosen: dict[str, str], name: str) -> dict[str, Any]:
    """Fetch columns by their roles; nothing may be missing."""
    listed = ", ".join(f"{quoted(column)} AS {quoted(role)}" for role, column in chosen.items())
    try:
        found = database.arrays(f"SELECT {listed} FROM ({union(tables)})", name)
    except NotANumberError:
        tables = [table.retyped(dict.fromkeys(chosen.values(), "VARCHAR")) for table in tables]
        found = database.arrays(f"SELECT {listed} FROM ({union(tables)})", name)
    for role, column in found.items():
        missing = np.ma.getmaskarray(np.ma.asarray(column))
        if missing.any():
            raise InputError(f"row {int(np.argmax(missing)) + 1} of {name} has nothing in its column {chosen[role]!r}")
    if not len(next(iter(found.values()))):
        raise InputError(f"{name} has a header but no rows")
    return {role: np.asarray(column) for role, column in found.items()}


def read_reference(file: str, label: str | None = None) -> Reference:
    """Read a reference: a table of classes with shares or counts, or a column of labels to be counted."""
    with open_source(file) as source, open_database() as database:
        if source.kind in ("npz", "npy"):
            raise InputError(f"{source.name} is a NumPy file; a reference must be CSV, TSV, JSON lines or Parquet")
        tables = tuple(open_table(database, path, source.kind, source.name) for path in source.paths)
        names = list(tables[0].types)
        column = label if label in names else usual("label", names)
        if column is None:
            raise InputError(
                f"{source.name} has no column of classes (its columns: {', '.join(names)}); expected class and share, "
                "class and count, or a column of labels to be counted"
            )
        share = next((name for name in names if name.lower().strip() in SHARES), None)
        if share is not None:
            found = columns_of(database, tables, {"label": column, "share": share}, source.name)
            return _of_shares(found, source.name, counts="count" in share.lower() or share.lower() == "n")
        query = f"SELECT {quoted(column)} AS label, CAST(count(*) AS DOUBLE) AS n FROM ({union(tables)}) GROUP BY ALL"
        counted = database.arrays(query, source.name)
        if np.ma.getmaskarray(np.ma.asarray(counted["label"])).any():
            raise InputError(f"{source.name} has rows without a label in the column {column!r}")
    counts = dict(zip(as_labels(np.asarray(counted["label"])).tolist(), counted["n"].tolist(), strict=True))
    return reference_of_counts(counts, source.name, int(sum(counts.values())))


def _of_shares(found: dict[str, Any], name: str, *, counts: bool) -> Reference:
    shares = numbers(found["share"], name, "share")
    labels = as_labels(found["label"], f"the classes of {name}").tolist()
    if len(set(labels)) < len(labels):
        raise InputError(f"{name} names a class more than once: {_repeated(labels)!r}; give one row per class")
    size = int(shares.sum()) if counts and np.isfinite(shares).all() else None
    return reference_of_counts(dict(zip(labels, shares.tolist(), strict=True)), name, size)


def _repeated(labels: Sequence[Label]) -> Label:
    return next(label for label in labels if labels.count(label) > 1)


def numbers(column: Any, name: str, role: str) -> Float[Array, "rows"]:
    """Bring a column to finite numbers."""
    try:
        values = np.asarray(column).astype(np.float64)
    except ValueError:
        raise InputError(f"the column {role!r} of {name} must hold numbers") from None
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(f"row {row + 1} of {name} has {values[row]} in the column {role!r}, not a finite number")
    return values


def read_costs(file: str) -> dict[tuple[Label, Label], float]:
    """Read the cost of each prediction for each label, one pair in a row."""
    columns = [("label", "class", "true", "truth"), ("prediction", "predicted", "pred"), ("cost", "loss", "value")]
    found = read_table(file, columns, "a table of costs")
    labels, predictions = (
        as_labels(found[role], f"the {role}s of {file}").tolist() for role in ("label", "prediction")
    )
    return dict(zip(zip(labels, predictions, strict=True), numbers(found["cost"], file, "cost").tolist(), strict=True))


def read_ranges(file: str, classes: Sequence[Label]) -> dict[str, Any]:
    """Read the range of each class's share; a class that is not named may have any."""
    columns = [("label", "class", "classes"), ("lower", "low", "min"), ("upper", "high", "max")]
    found = read_table(file, columns, "a table of ranges")
    lower, upper = dict.fromkeys(classes, 0.0), dict.fromkeys(classes, 1.0)
    labels = as_labels(found["label"], f"the classes of {file}").tolist()
    unknown = next((label for label in labels if label not in lower), None)
    if unknown is not None:
        raise InputError(
            f"{file} has a range for the class {unknown!r}, which is not in the data"
            f"{nearest(str(unknown), map(str, classes))}"
        )
    lower.update(zip(labels, numbers(found["lower"], file, "lower").tolist(), strict=True))
    upper.update(zip(labels, numbers(found["upper"], file, "upper").tolist(), strict=True))
    return {"lower": np.array(list(lower.values())), "upper": np.array(list(upper.values()))}


def read_classes(given: str) -> tuple[Label, ...]:
    """Read the classes: names separated by commas, or a file with one in a line."""
    path = Path(given)
    try:
        listed = path.read_text(encoding="utf-8").splitlines() if path.is_file() else given.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the classes from {given!r}: {error}") from None
    names = [name.strip() for name in listed if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InputError(f"the classes must be different names, at least one; got {given!r}")
    whole = all(name.isdecimal() and str(int(name)) == name for name in names)
    return tuple(as_label(int(name) if whole else name) for name in names)
