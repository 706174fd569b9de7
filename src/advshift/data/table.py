"""Tables of features in CSV, TSV or Parquet, for linear models and networks without convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from advshift.audit.readers.columns import USUAL
from advshift.audit.readers.tables import Database, Table, open_database, open_table, quoted
from advshift.data.options import DataOptions
from advshift.data.parts import encode, find_files, part_rows
from advshift.data.types import MemorySplit, Source
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["label_column", "read_table"]

KINDS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
SPLIT = "split"  # a column that says of each row which part it is of


def read_table(options: DataOptions, folder: Path) -> Source:
    """Read a file, or a folder's files of the parts; a column called `split` may name the parts instead."""
    files = find_files(folder, tuple(KINDS), "a CSV, TSV or Parquet file")
    notices: list[str] = []
    tables: dict[str, tuple[np.ndarray, Any]] = {}
    with open_database() as database:
        for part, path in files.items():
            table = _open(database, path)
            label = label_column(list(table.types), options.label, table.name)
            features = _feature_columns(table, label, options.features, notices)
            values = _features(database, table, features)
            labels = database.arrays(f"SELECT {quoted(label)} AS label FROM {table.scan}", table.name)["label"]
            rows = _rows(database, table) if part == "train" and len(files) == 1 else {part: np.arange(len(values))}
            tables |= {name: (values[places], labels[places]) for name, places in rows.items()}
            _check_width(tables["train"][0], values, table.name)
    codes, class_names = encode({part: labels for part, (_, labels) in tables.items()}, str(folder))
    first, parts = 0, {}
    for part, (values, _) in tables.items():
        ids = torch.arange(first, first + len(values))
        parts[part] = MemorySplit(torch.from_numpy(values), codes[part], ids)
        first += len(values)
    return Source(dict(parts), class_names, tuple(dict.fromkeys(notices)))


def label_column(columns: Sequence[str], wanted: str | None, name: str) -> str:
    """The column that holds the labels: the one that is asked for, else the only one with a usual name."""
    if wanted is not None:
        if wanted not in columns:
            raise InputError(
                f"{name!r} has no column {wanted!r}{nearest(wanted, columns)} (it has: {_listed(columns)})"
            )
        return wanted
    found = [column for column in columns if column.lower() in USUAL["label"]]
    if len(found) == 1:
        return found[0]
    which = f"several could be it: {', '.join(found)}" if found else f"it has: {_listed(columns)}"
    raise InputError(f"which column of {name!r} holds the labels? Set data.label ({which})")


def _listed(columns: Sequence[str], most: int = 10) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(columns[:most]) + more


def _open(database: Database, path: Path) -> Table:
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"cannot tell the kind of {str(path)!r}; expected a name that ends in {', '.join(KINDS)}")
    return open_table(database, path, kind, str(path))


def _feature_columns(table: Table, label: str, wanted: Sequence[str] | None, notices: list[str]) -> list[str]:
    columns = [column for column in table.types if column not in (label, SPLIT)]
    if wanted is not None:
        for column in wanted:
            if column not in columns:
                raise InputError(f"{table.name!r} has no feature {column!r}{nearest(column, columns)}")
        columns = list(wanted)
    else:
        names = [column for column in columns if column.lower() in USUAL["id"]]
        columns = [column for column in columns if column not in names]
        notices += [f"the column {column!r} names examples and is no feature" for column in names]
    if not columns:
        raise InputError(f"{table.name!r} has no column of features beside {label!r}")
    for column in columns:
        if not table.types[column].lstrip("U").startswith(NUMBERS):
            raise InputError(
                f"the column {column!r} of {table.name!r} holds no numbers ({table.types[column].lower()}); turn it "
                "into numbers, or list the columns to use in data.features"
            )
    return columns


def _features(database: Database, table: Table, columns: Sequence[str]) -> Float32[np.ndarray, "rows features"]:
    chosen = ", ".join(f'CAST({quoted(column)} AS DOUBLE) AS "{place}"' for place, column in enumerate(columns))
    found: Mapping[str, Any] = database.arrays(f"SELECT {chosen} FROM {table.scan}", table.name)
    values = np.empty((len(found["0"]), len(columns)), np.float32)
    for place, column in enumerate(columns):
        with np.errstate(over="ignore"):
            values[:, place] = np.ma.filled(found[str(place)], np.nan)
        bad = ~np.isfinite(values[:, place])
        if bad.any():
            raise InputError(
                f"the column {column!r} of {table.name!r} has {int(bad.sum())} values that are missing or not finite "
                f"(the first in row {int(bad.argmax()) + 1}); fill them in, leave the rows out, or list the other "
                "columns in data.features"
            )
    return values


def _rows(database: Database, table: Table) -> dict[str, np.ndarray]:
    """The rows of each part, where a column tells."""
    if SPLIT not in table.types:
        return {"train": np.arange(database.rows(f"SELECT count(*) FROM {table.scan}", table.name)[0][0])}
    words = database.rows(f"SELECT {quoted(SPLIT)} FROM {table.scan}", table.name)
    return part_rows([word for (word,) in words], table.name)


def _check_width(train: np.ndarray, other: np.ndarray, name: str) -> None:
    if other.shape[1] != train.shape[1]:
        raise InputError(f"{name!r} has {other.shape[1]} features, the training part {train.shape[1]}")
