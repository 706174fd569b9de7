"""The history of a mix: a table of class counts for each site or month, in either of two layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from advshift.audit.history import History
from advshift.audit.labels import EXACT, Label, as_labels, sorted_labels
from advshift.audit.readers.distributions import columns_of, numbers
from advshift.audit.readers.sources import open_source
from advshift.audit.readers.tables import open_database, open_table
from advshift.errors import InputError

__all__ = ["read_history"]

NAMES = ("site", "month", "period", "date", "name", "group", "hospital", "week", "year", "batch", "mix")
LABELS = ("class", "label", "classes", "labels", "y")
COUNTS = ("count", "counts", "n", "examples")


def read_history(file: str) -> History:
    """Read past mixes.

    Long: the columns `site` (or month, period, …), `class` and `count`. Wide: a first column of names, and a column of
    counts per class.
    """
    with open_source(file) as source, open_database() as database:
        if source.kind in ("npz", "npy"):
            raise InputError(f"{source.name} is a NumPy file; a history must be CSV, TSV, JSON lines or Parquet")
        tables = tuple(open_table(database, path, source.kind, source.name) for path in source.paths)
        names = list(tables[0].types)
        if len(names) < 2:
            raise InputError(
                f"{source.name} has one column; a history needs names of sites or months, and class counts"
            )
        found = columns_of(database, tables, {name: name for name in names}, source.name)
    roles = [_role(names, usual) for usual in (NAMES, LABELS, COUNTS)]
    if roles[1] and roles[2]:
        if roles[0] is None:
            raise InputError(f"{source.name} has no column that names the mixes ({', '.join(NAMES[:6])}, …)")
        return _long(found[roles[0]], found[roles[1]], found[roles[2]], source.name)
    return _wide(found, roles[0] or names[0], source.name)


def _role(names: Sequence[str], usual: Sequence[str]) -> str | None:
    folded = {name.lower().strip(): name for name in reversed(names)}
    return next((folded[name] for name in usual if name in folded), None)


def _long(mixes: Any, labels: Any, counts: Any, file: str) -> History:
    labels = as_labels(labels, f"the classes of {file}").tolist()
    classes = sorted_labels(labels)
    names = list(dict.fromkeys(map(str, mixes.tolist())))
    place = {label: column for column, label in enumerate(classes)}
    table = np.zeros((len(names), len(classes)))
    rows = {name: row for row, name in enumerate(names)}
    values = numbers(counts, file, "count")
    for mix, label, count in zip(map(str, mixes.tolist()), labels, values, strict=True):
        table[rows[mix], place[label]] += count
    return _checked(tuple(names), classes, table, file)


def _wide(found: dict[str, Any], first: str, file: str) -> History:
    columns = [name for name in found if name != first]
    whole = all(name.strip().isdecimal() for name in columns)
    classes = tuple(int(name) if whole else name for name in columns)
    table = np.stack([numbers(found[name], file, name) for name in columns], axis=1)
    order = np.argsort(np.array(classes))
    names = tuple(map(str, found[first].tolist()))
    if len(set(names)) < len(names):
        raise InputError(f"{file} names a mix more than once in the column {first!r}; give one row per mix")
    return _checked(names, tuple(classes[k] for k in order), table[:, order], file)


def _checked(names: tuple[str, ...], classes: tuple[Label, ...], table: Any, file: str) -> History:
    if not ((table >= 0) & (table == np.round(table)) & (table <= EXACT)).all():
        raise InputError(f"{file} must hold counts, whole numbers from 0 up; shares do not tell how sure they are")
    empty = np.flatnonzero(table.sum(axis=1) == 0)
    if empty.size:
        raise InputError(f"the mix {names[int(empty[0])]!r} of {file} has no examples; leave it out")
    return History(names, classes, table.astype(np.int64))
