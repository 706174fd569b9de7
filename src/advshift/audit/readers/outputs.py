"""A model's outputs, read whole: a row of probabilities per example, with labels or without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.audit.labels import Label, as_label, as_labels, sorted_labels
from advshift.audit.metrics import TOLERANCE
from advshift.audit.readers.columns import Columns, Wanted, find_columns
from advshift.audit.readers.numpy_files import load_arrays
from advshift.audit.readers.query import FLOATS, INTEGERS
from advshift.audit.readers.quoting import quoted
from advshift.audit.readers.sources import Source, checksum, open_source
from advshift.audit.readers.tables import MEMORY, Database, NotANumberError, Table, open_database, open_table
from advshift.errors import InputError
from advshift.types import Array

__all__ = ["Outputs", "has_labels", "named_classes", "read_outputs"]

SHOWN = 5  # names that a message lists


@dataclass(frozen=True)
class Outputs:
    """What a model said of the examples of a file.

    Attributes
    ----------
    name, rows, sha256
        The file as the user wrote it, its examples and its checksum.
    classes
        The class of each column of the probabilities.
    probabilities
        A row per example; where the file holds predicted classes alone (`hard`), a one in the column of each.
    labels
        The column of each example's true class; None where they are not asked for.
    others
        The remaining columns by name, where they are asked for.
    notices
        What was found, for the reader's information.
    """

    name: str
    classes: tuple[Label, ...]
    probabilities: Float[Array, "examples classes"]
    labels: Int[Array, " examples"] | None = None
    hard: bool = False
    sha256: str | None = None
    others: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of examples."""
        return len(self.probabilities)

    @property
    def counts(self) -> Int[Array, " classes"]:
        """The number of labelled examples of each class."""
        return np.bincount(self.labels if self.labels is not None else [], minlength=len(self.classes))


@dataclass
class _Raw:
    """Columns as they stand in a file. `places` names each part of the file and its number of rows."""

    said: str
    probabilities: Any
    predictions: Any
    labels: Any
    classes: tuple[Label, ...] | None
    others: dict[str, Any]
    places: list[tuple[str, int]]
    unit: str = "row"

    def place(self, row: int) -> str:
        """Name a row in a message."""
        for name, rows in self.places:
            if row < rows:
                return f"{self.unit} {row + 1} of {name}"
            row -= rows
        return f"{self.unit} {row + 1}"


def read_outputs(
    file: str,
    wanted: Wanted | None = None,
    *,
    labelled: bool = True,
    classes: Sequence[Label] | None = None,
    renormalise: bool = False,
    keep: bool = False,
    memory: str = MEMORY,
) -> Outputs:
    """Read the probabilities (or the predicted classes) of one model.

    Parameters
    ----------
    file
        A file, a folder, a pattern, or `-`, as the audit takes them.
    wanted
        The columns that the user names.
    labelled
        Whether true classes are needed; else they are passed over.
    classes
        The classes to have, in the order wanted; columns of other names are then faults.
    renormalise
        Whether rows may have any positive sum; each is divided by it.
    keep
        Whether to read the other columns too.
    memory
        What the database may hold.
    """
    with open_source(file) as source, open_database(memory) as database:
        raw = _arrays(source, wanted or Wanted(), labelled) if source.kind in ("npz", "npy") else None
        if raw is None:
            raw = _tables(source, wanted or Wanted(), database, labelled=labelled, keep=keep)
        found = _outputs(source.name, raw, classes, renormalise=renormalise, labelled=labelled)
        return replace(found, sha256=checksum(source.paths))


def has_labels(file: str, wanted: Wanted | None = None) -> bool | None:
    """Whether a file has a column of labels; None where that cannot be told."""
    try:
        with open_source(file) as source, open_database() as database:
            if source.kind in ("npz", "npy"):
                given = load_arrays(source.paths[0], source.kind, source.name, "", wanted or Wanted(), labelled=False)
                return given[0].labels is not None
            table = open_table(database, source.paths[0], source.kind, source.name)
            return bool(find_columns(table.types, wanted or Wanted(), source.name, labelled=False).label)
    except InputError:
        return None


def _arrays(source: Source, wanted: Wanted, labelled: bool) -> _Raw:
    if len(source.paths) > 1:
        raise InputError(f"{source.name} holds several NumPy files; give one of them, or join them first")
    given, said = load_arrays(source.paths[0], source.kind, source.name, source.model, wanted, labelled=labelled)
    roles = {"probabilities": given.probabilities, "predictions": given.predictions, "labels": given.labels}
    if given.probabilities is None and given.predictions is None:
        raise InputError(f"{source.name} has neither probabilities nor predictions; add an array of that name")
    lengths = {role: len(array) for role, array in roles.items() if array is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{length} {role}" for role, length in lengths.items())
        raise InputError(f"the arrays in {source.name} differ in their lengths: {listed}; give one of each per example")
    others = {} if given.ids is None else {"id": given.ids}
    classes = None if given.classes is None else tuple(as_label(name) for name in given.classes)
    places = [(source.name, next(iter(lengths.values())))]
    return _Raw(
        said, given.probabilities, given.predictions, given.labels, classes, others, places=places, unit="example"
    )


def _tables(source: Source, wanted: Wanted, database: Database, *, labelled: bool, keep: bool) -> _Raw:
    pairs = zip(source.paths, source.labels, strict=True)
    tables = [open_table(database, path, source.kind, name) for path, name in pairs]
    columns = find_columns(tables[0].types, wanted, source.name, labelled=labelled)
    if not columns.probabilities and not columns.prediction:
        raise InputError(
            f"{source.name} has neither probabilities nor predictions ({columns.describe()}); "
            "name them with --probabilities or --prediction"
        )
    parts = [_fetch(database, table, columns, labelled=labelled, keep=keep) for table in tables]
    joined = {name: _joined([part[name] for part in parts]) for name in parts[0]}
    chosen = [joined.pop(f"@p{k}") for k in range(len(columns.probabilities))]
    listed = len(chosen) == 1 and not columns.classes
    places = [(table.name, len(next(iter(part.values())))) for table, part in zip(tables, parts, strict=True)]
    raw = _Raw(
        columns.describe(),
        None,
        joined.pop("@prediction", None),
        joined.pop("@label", None) if labelled else None,
        _column_classes(columns),
        joined,
        places,
    )
    if chosen:
        raw.probabilities = _of_lists(chosen[0], raw) if listed else _of_columns(chosen, columns.probabilities, raw)
    return raw


def _fetch(database: Database, table: Table, columns: Columns, *, labelled: bool, keep: bool) -> dict[str, Any]:
    """Fetch what is needed of one file; a column of classes that turns out to be text is read again as text."""
    roles = {f"@p{k}": name for k, name in enumerate(columns.probabilities)}
    named = {"@prediction": columns.prediction, "@label": columns.label if labelled else None}
    names = {role: name for role, name in named.items() if name}
    lacking = next((name for name in [*roles.values(), *names.values()] if name not in table.types), None)
    if lacking is not None:
        raise InputError(f"{table.name} has no column {lacking!r}, which the other files of {columns.describe()} have")
    if columns.classes:
        table = table.retyped(dict.fromkeys(roles.values(), "DOUBLE"))
    rest = [name for name in table.types if keep and name not in (*roles.values(), columns.prediction)]
    table = table.retyped(dict.fromkeys([name for name in rest if name not in names.values()], "VARCHAR"))
    listed = [f"{quoted(name)} AS {quoted(role)}" for role, name in (roles | names).items()]
    listed += [_as_it_is(name, table.types[name]) for name in rest]
    try:
        return database.arrays(f"SELECT {', '.join(listed)} FROM {table.scan}", table.name)
    except NotANumberError as error:
        if error.column not in names.values():
            raise
    text = table.retyped(dict.fromkeys(names.values(), "VARCHAR"))
    return database.arrays(f"SELECT {', '.join(listed)} FROM {text.scan}", table.name)


def _as_it_is(name: str, type_name: str) -> str:
    """Select a column that is only passed on; what NumPy has no plain value for becomes text."""
    plain = type_name in (*INTEGERS, *FLOATS, "VARCHAR", "BOOLEAN")
    return quoted(name) if plain else f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"


def _joined(parts: Sequence[Any]) -> Any:
    concatenate: Any = np.ma.concatenate
    return parts[0] if len(parts) == 1 else concatenate([np.ma.asarray(part) for part in parts])


def _column_classes(columns: Columns) -> tuple[Label, ...] | None:
    if not columns.classes:
        return None
    whole = all(name.isdecimal() and str(int(name)) == name for name in columns.classes)
    return tuple(map(int, columns.classes)) if whole else columns.classes


def _of_columns(chosen: Sequence[Any], names: Sequence[str], raw: _Raw) -> Any:
    for column, name in zip(chosen, names, strict=True):
        missing = np.ma.getmaskarray(np.ma.asarray(column))
        if missing.any():
            raise InputError(f"{raw.place(int(np.argmax(missing)))} has no probability in the column {name!r}")
    return np.stack([np.asarray(column, dtype=np.float64) for column in chosen], axis=1)


def _of_lists(column: Any, raw: _Raw) -> Any:
    missing = np.ma.getmaskarray(np.ma.asarray(column))
    if missing.any():
        raise InputError(f"{raw.place(int(np.argmax(missing)))} has no list of probabilities")
    rows = [np.ma.filled(np.ma.asarray(row, dtype=np.float64), np.nan) for row in np.asarray(column).tolist()]
    widths = np.array([row.size for row in rows], dtype=np.int64)
    other: Any = np.flatnonzero(widths != widths[:1])
    if other.size:
        raise InputError(
            f"{raw.place(int(other[0]))} has {widths[other[0]]} probabilities, but the first row has {widths[0]}; "
            "give one per class in every row"
        )
    return np.array(rows).reshape(len(rows), -1)


def _outputs(name: str, raw: _Raw, wanted: Sequence[Label] | None, *, renormalise: bool, labelled: bool) -> Outputs:
    if not len(raw.probabilities if raw.probabilities is not None else raw.predictions):
        what = "a header but no rows" if raw.unit == "row" else "arrays but no examples in them"
        raise InputError(f"{name} has {what}; expected one row per example")
    hard = raw.probabilities is None
    labels = _classes_of(raw.labels, raw, "label") if labelled else None
    guesses = _classes_of(raw.predictions, raw, "prediction") if hard else None
    classes = _known_classes(name, raw, labels, guesses, wanted)
    if hard:
        rows = np.eye(len(classes))[_codes(guesses, classes, raw, "prediction")]
    else:
        order = None if wanted is None else _order(name, raw, classes, tuple(wanted))
        rows = _checked(raw, renormalise=renormalise)
        rows, classes = (rows, classes) if order is None else (rows[:, order], tuple(wanted or ()))
    return Outputs(
        name=name,
        classes=classes,
        probabilities=rows,
        labels=None if labels is None else _codes(labels, classes, raw, "label"),
        hard=hard,
        others=raw.others,
        notices=(f"{name}: {raw.said}",),
    )


def _classes_of(column: Any, raw: _Raw, what: str) -> Any:
    missing = np.ma.getmaskarray(np.ma.asarray(column))
    if missing.any():
        raise InputError(f"{raw.place(int(np.argmax(missing)))} has no {what}; fill it in, or leave the row out")
    found = as_labels(np.asarray(column), f"the {what}s of {raw.places[0][0]}")
    return np.char.strip(found) if found.dtype.kind == "U" else found


def _known_classes(
    name: str, raw: _Raw, labels: Any, guesses: Any, wanted: Sequence[Label] | None
) -> tuple[Label, ...]:
    """The class of each column of the file: by the columns' names, as given, or in the order of the numbers."""
    if guesses is not None:
        return tuple(wanted) if wanted is not None else sorted_labels({*guesses.tolist(), *labels.tolist()})
    width = raw.probabilities.shape[1]
    if raw.classes is not None and len(raw.classes) == width:
        textual = labels is not None and labels.dtype.kind == "U"
        return tuple(map(str, raw.classes)) if textual else raw.classes
    if wanted is None and labels is not None and labels.dtype.kind == "U":
        raise InputError(
            f"the labels of {name} are text and its probabilities are one list: say which class each number belongs to "
            "with --classes"
        )
    if wanted is not None and len(wanted) != width:
        raise InputError(f"{name} has {width} probabilities in a row for the {len(wanted)} classes; expected one each")
    return tuple(range(width)) if wanted is None else tuple(wanted)


def _order(name: str, raw: _Raw, classes: tuple[Label, ...], wanted: tuple[Label, ...]) -> Any:
    """Where each wanted class is among the file's columns; None if they agree already."""
    have, want = [str(label) for label in classes], [str(label) for label in wanted]
    if have == want:
        return None
    lacking = [label for label in want if label not in set(have)]
    more = [label for label in have if label not in set(want)]
    if lacking or more:
        parts = [f"lacks {_some(lacking)}"] if lacking else []
        parts += [f"has {_some(more)} besides"] if more else []
        raise InputError(
            f"{name} must have a probability for each of the source's {len(want)} classes and no other; "
            f"it {' and '.join(parts)}"
        )
    place = {label: column for column, label in enumerate(have)}
    return np.array([place[label] for label in want])


def named_classes(names: Sequence[Label]) -> str:
    """Name classes in a message, the first few of them.

    >>> named_classes(["a"]), named_classes(["a", "b", "c", "d", "e", "f"])
    ("class 'a'", "classes 'a', 'b', 'c', 'd', 'e' and 1 more")
    """
    return f"{'class' if len(names) == 1 else 'classes'} {_some(names)}"


def _some(names: Sequence[Label]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _codes(labels: Any, classes: Sequence[Label], raw: _Raw, what: str) -> Any:
    place = {str(label): column for column, label in enumerate(classes)}
    codes = np.array([place.get(str(label), -1) for label in labels.tolist()], dtype=np.int64)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        listed = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
        raise InputError(
            f"{raw.place(row)} has the {what} {labels[row].item()!r}, which is not among the classes {listed}"
        )
    return codes


def _checked(raw: _Raw, *, renormalise: bool) -> Any:
    """Refuse rows that are no distributions, naming the first or the one furthest off."""
    rows = np.asarray(raw.probabilities)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or rows.shape[1] < 2:
        raise InputError(
            f"the probabilities of {raw.places[0][0]} must have a row per example and a column per class, two at "
            f"least; got shape {rows.shape} of dtype {rows.dtype}"
        )
    rows = rows.astype(np.float64, copy=False)
    totals = rows.sum(axis=1)
    for wrong, fault in (
        (~np.isfinite(totals), "has a probability that is not a finite number; mend it, or leave the row out"),
        (rows.min(axis=1) < 0, "has a negative probability; give probabilities, not logits"),
        (totals <= 0, "has probabilities that are all zero"),
    ):
        if wrong.any():
            raise InputError(f"{raw.place(int(np.argmax(wrong)))} {fault}")
    off = np.abs(totals - 1.0)
    if off.max() > TOLERANCE and not renormalise:
        row = int(np.argmax(off))
        raise InputError(
            f"probabilities must sum to 1 in every row; {np.sum(off > TOLERANCE):,} of {len(rows):,} do not, and those "
            f"of {raw.place(row)} sum to {totals[row]:.6g}, off by {off[row]:.3g}, the most of all: give --renormalise "
            "to divide by the sums, or give probabilities instead of scores"
        )
    return rows / totals[:, None]
