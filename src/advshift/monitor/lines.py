"""Lines of a stream: the first one says how they are written, each of the others is one prediction or a fault."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from advshift.audit.metrics import TOLERANCE
from advshift.audit.readers.columns import Columns, Wanted, find_columns
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["BadLineError", "Format", "Parser", "Prediction", "detect", "seconds_of"]

SHOWN = 60  # letters of a faulty value that a message repeats


class BadLineError(Exception):
    """A line that is no prediction; the message completes `line 7 …`."""


@dataclass(frozen=True)
class Prediction:
    """One line: the number of the predicted class, or probabilities in the order of the classes, and its time."""

    predicted: int | None
    probabilities: list[float] | None
    time: str | None = None
    moment: float | None = None


@dataclass(frozen=True)
class Format:
    """How lines are written.

    Attributes
    ----------
    kind
        `csv`, `tsv`, `json lines`, or `bare` for a predicted class alone in each line.
    names
        The columns in their order; none for JSON.
    columns
        Which of them holds what.
    time
        The column of times, if one is wanted.
    header
        The first line where it holds names.
    """

    kind: str
    names: tuple[str, ...]
    columns: Columns
    time: str | None
    header: str | None

    @property
    def soft(self) -> bool:
        """Whether the lines hold probabilities."""
        return bool(self.columns.probabilities)


def detect(first: str, name: str, wanted: Wanted, time: str | None, classes: Sequence[Any]) -> Format:
    """Find out how a stream is written from its first line.

    >>> detect("prediction", "stdin", Wanted(), None, ["cat"]).kind
    'csv'
    >>> detect("cat", "stdin", Wanted(), None, ["cat"]).kind
    'bare'
    """
    if first.lstrip().startswith("{"):
        return _of_json(first, name, wanted, time)
    kind = "tsv" if "\t" in first else "csv"
    fields = tuple(field.strip() for field in _split(first, kind))
    if len(fields) == 1 and fields[0] in {str(one) for one in classes}:
        return Format("bare", (), Columns(label="", prediction="prediction"), None, None)
    if len(fields) > 1 and all(_is_number(field) for field in fields):
        raise InputError(
            f"{name} begins with numbers where the names of its columns should stand; put a header first, such as "
            f"{','.join(f'p_{one}' for one in classes[:3])}{',…' if len(classes) > 3 else ''}"
        )
    repeated = next((field for field in fields if fields.count(field) > 1), None)
    if repeated is not None:
        raise InputError(f"{name} has more than one column named {repeated!r}; give each its own name")
    if len(fields) == 1 and _is_number(fields[0]):
        raise InputError(
            f"{name} begins with {fields[0]!r}, which is neither one of the source's {len(classes)} classes nor the "
            "name of a column; expected a header, or predicted classes, one in a line"
        )
    columns = find_columns(dict.fromkeys(fields, "VARCHAR"), wanted, name, labelled=False)
    return Format(kind, fields, _usable(columns, name), _time(time, fields, name), first)


def _of_json(first: str, name: str, wanted: Wanted, time: str | None) -> Format:
    try:
        found = json.loads(first)
    except ValueError as error:
        raise InputError(f"the first line of {name} begins like JSON but is none: {error}") from None
    types = {key: "DOUBLE[]" if isinstance(value, list) else "VARCHAR" for key, value in found.items()}
    columns = find_columns(types, wanted, name, labelled=False)
    return Format("json lines", (), _usable(columns, name), _time(time, tuple(types), name), None)


def _usable(columns: Columns, name: str) -> Columns:
    if columns.probabilities or columns.prediction:
        return columns
    raise InputError(f"{name} has losses alone; a monitor needs predictions or probabilities: name their column")


def _time(wanted: str | None, names: Sequence[str], name: str) -> str | None:
    if wanted is None or wanted in names:
        return wanted
    raise InputError(f"{name} has no column {wanted!r}{nearest(wanted, names)} (its columns: {', '.join(names)})")


def _split(line: str, kind: str) -> list[str]:
    if '"' not in line:
        return line.split("\t" if kind == "tsv" else ",")
    try:
        return next(csv.reader([line], delimiter="\t" if kind == "tsv" else ",", strict=True))
    except csv.Error as error:
        raise BadLineError(f"cannot be split into columns: {error}") from None


def _is_number(text: str) -> bool:
    try:
        return bool(text) and math.isfinite(float(text))
    except ValueError:
        return False


class Parser:
    """Turn lines, or rows of a table, into predictions.

    Parameters
    ----------
    form
        How the lines are written.
    classes
        The classes of the source, in its order.
    hard
        Whether predicted classes are all that is wanted.
    renormalise
        Whether probabilities are divided by their sum.
    """

    def __init__(self, form: Format, classes: Sequence[Any], *, hard: bool, renormalise: bool = False) -> None:
        self.form = form
        self.classes = [str(one) for one in classes]
        self.hard = hard
        self.renormalise = renormalise
        self._code = {name: code for code, name in enumerate(self.classes)}
        self._order = self._columns(form.columns) if form.soft else []

    def _columns(self, columns: Columns) -> list[str]:
        """The column of each class, in the classes' order."""
        if not columns.classes:
            return list(columns.probabilities)
        place = dict(zip(columns.classes, columns.probabilities, strict=True))
        lacking = [name for name in self.classes if name not in place]
        more = [name for name in place if name not in self._code]
        if lacking or more:
            what = f"lacks {lacking[0]!r}" if lacking else f"has {more[0]!r} besides"
            raise InputError(
                f"the stream must have a probability for each of the source's {len(self.classes)} classes and no "
                f"other; it {what}"
            )
        return [place[name] for name in self.classes]

    def line(self, text: str) -> Prediction:
        """Read a line."""
        if self.form.kind == "bare":
            return Prediction(self._class(text.strip()), None)
        if self.form.kind == "json lines":
            return self.row(_object(text))
        fields = _split(text, self.form.kind)
        if len(fields) != len(self.form.names):
            raise BadLineError(f"has {_several(len(fields), 'value')}, but the header names {len(self.form.names)}")
        return self.row(dict(zip(self.form.names, fields, strict=True)))

    def row(self, row: dict[str, Any]) -> Prediction:
        """Read the named values of one example."""
        time = None if self.form.time is None else self._value(row, self.form.time)
        moment = None if time is None else seconds_of(time)
        said = None if time is None else str(time).strip()
        if not self.form.soft:
            code = self._class(self._value(row, self.form.columns.prediction or ""))
            return Prediction(code, None, said, moment)
        numbers = self._probabilities(row)
        if self.hard:
            return Prediction(numbers.index(max(numbers)), None, said, moment)
        return Prediction(None, numbers, said, moment)

    def _value(self, row: dict[str, Any], name: str) -> Any:
        value = row.get(name)
        if value is None or value == "":
            raise BadLineError(f"has nothing in the column {name!r}")
        return value

    def _class(self, value: Any) -> int:
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
        code = self._code.get(name)
        if code is None and name.endswith(".0"):
            code = self._code.get(name.removesuffix(".0"))
        if code is None:
            raise BadLineError(f"has the prediction {name[:SHOWN]!r}, which is not among the source's classes")
        return code

    def _probabilities(self, row: dict[str, Any]) -> list[float]:
        if self.form.columns.classes:
            values = [row.get(name) for name in self._order]
        else:
            values = row.get(self._order[0]) or []
            if not isinstance(values, (list, tuple)) or len(values) != len(self.classes):
                raise BadLineError(f"must have a list of {len(self.classes)} probabilities in {self._order[0]!r}")
        numbers = [_number(value) for value in values]
        total = math.fsum(numbers)
        if min(numbers) < 0:
            raise BadLineError("has a negative probability; give probabilities, not logits")
        if total <= 0:
            raise BadLineError("has probabilities that are all zero")
        if abs(total - 1.0) > TOLERANCE and not self.renormalise:
            raise BadLineError(f"has probabilities that sum to {total:.6g}; --renormalise divides by the sum")
        return [number / total for number in numbers]


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadLineError(f"is not JSON: {text.strip()[:SHOWN]!r}") from None
    if not isinstance(found, dict):
        raise BadLineError(f"is not a JSON object: {text.strip()[:SHOWN]!r}")
    return found


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        what = "nothing" if value is None or value == "" else repr(str(value)[:SHOWN])
        raise BadLineError(f"has {what} where a probability should stand") from None
    if not math.isfinite(number):
        raise BadLineError(f"has {value} where a probability should stand")
    return number


def _several(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def seconds_of(value: Any) -> float:
    """The seconds since 1970 of a time: ISO 8601 (UTC where it names no zone), a datetime, or a number of seconds.

    >>> seconds_of("1970-01-02"), seconds_of("1970-01-01T01:00:00+01:00"), seconds_of(5)
    (86400.0, 0.0, 5.0)
    """
    if isinstance(value, str) and not re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", value):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise BadLineError(f"has the time {value[:SHOWN]!r}; expected ISO 8601 or seconds") from None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if hasattr(value, "timetuple"):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    return _number(value)
