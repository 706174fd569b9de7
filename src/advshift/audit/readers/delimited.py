"""Comma- and tab-separated text: the header and the columns' types are read here, so that nothing is guessed twice.

A reader that guesses a file's form can guess around a fault: skip a damaged row as if it were a title, say. Here the
form is fixed (a header, double quotes, one width), and a row that departs from it is an error with its line.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from advshift.audit.readers.quoting import literal
from advshift.errors import InputError

__all__ = ["DELIMITERS", "csv_scan", "csv_types"]

DELIMITERS = {"csv": ",", "tsv": "\t"}
SAMPLE = 1 << 20  # bytes from which the types of columns are taken
WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*")


def csv_types(path: Path, kind: str, name: str) -> dict[str, str]:
    """Read the header and find each column's type from the first megabyte: BIGINT, DOUBLE or VARCHAR."""
    with path.open("rb") as file:
        data = file.read(SAMPLE)
    if len(data) == SAMPLE and b"\n" in data:
        data = data[: data.rindex(b"\n") + 1]
    text = data.decode("utf-8-sig", errors="replace")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=DELIMITERS[kind])
    try:
        header = next((row for row in rows if row), [])
        sample = list(rows)
    except csv.Error as error:
        raise InputError(f"cannot read {name}: {error}; expected a table with a header") from None
    repeated = [column for column, times in Counter(header).items() if times > 1]
    if repeated:
        raise InputError(f"{name} has more than one column named {repeated[0]!r}; give each its own name")
    if not header or any(not column.strip() for column in header):
        raise InputError(f"{name} has a header with an unnamed column; give each column a name")
    width = len(header)
    cells = zip(*[row for row in sample if len(row) == width], strict=True)
    types = dict.fromkeys(header, "VARCHAR")
    types.update((column, _type(values)) for column, values in zip(header, cells, strict=False))
    return types


def _type(values: tuple[str, ...]) -> str:
    filled = [value for value in values if value.strip()]
    if not filled:
        return "VARCHAR"
    if all(WHOLE.fullmatch(value) for value in filled):
        return "BIGINT"
    return "DOUBLE" if all(map(_is_number, filled)) else "VARCHAR"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def csv_scan(file: str, kind: str, types: Mapping[str, str]) -> str:
    """Write the table function for a file of known columns."""
    columns = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in types.items())
    return (
        f"read_csv({file}, columns = {{{columns}}}, auto_detect = false, delim = {literal(DELIMITERS[kind])}, "
        "quote = '\"', escape = '\"', header = true, skip = 0, comment = '', strict_mode = true, null_padding = false)"
    )
