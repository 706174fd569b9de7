"""Tables in files, through DuckDB: out of core, in bounded memory, and with errors in one sentence."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advshift.audit.readers.delimited import DELIMITERS, csv_scan, csv_types
from advshift.audit.readers.quoting import literal, quoted
from advshift.errors import InputError

__all__ = ["MEMORY", "Database", "NotANumberError", "Table", "literal", "open_database", "open_table", "quoted"]

MEMORY = "1GB"  # what DuckDB may hold; larger sorts and joins go to its temporary folder
GLOB = re.compile(r"([*?\[])")


class Database:
    """A connection of its own to an in-memory DuckDB; every failure is an `InputError` that names the file."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def rows(self, query: str, file: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a query and fetch its rows."""
        found: list[tuple[Any, ...]] = self._run(query, file, parameters).fetchall()
        return found

    def arrays(self, query: str, file: str) -> dict[str, Any]:
        """Run a query and fetch its columns as NumPy arrays, masked where they are NULL."""
        found: dict[str, Any] = self._run(query, file).fetchnumpy()
        return found

    def _run(self, query: str, file: str, parameters: list[Any] | None = None) -> Any:
        import duckdb

        try:
            return self.connection.execute(query, parameters) if parameters else self.connection.execute(query)
        except (duckdb.Error, UnicodeError) as error:
            raise _translate(str(error), file) from None


@contextmanager
def open_database(memory: str = MEMORY, threads: int | None = None) -> Iterator[Database]:
    """Open a database that keeps to `memory`, and to all cores unless told otherwise, and never loads from the net."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="advshift-", ignore_cleanup_errors=True) as folder:
        settings: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": folder,
            "autoinstall_known_extensions": "false",
            "preserve_insertion_order": "true",
        }
        if threads is not None:
            settings["threads"] = str(threads)
        try:
            connection = duckdb.connect(":memory:", config=settings)
        except duckdb.Error as error:
            raise InputError(f"cannot open a database with the memory {memory!r}: {_sentence(str(error))}") from None
        try:
            yield Database(connection)
        finally:
            connection.close()


@dataclass(frozen=True)
class Table:
    """A table in a file: the SQL that reads it, and DuckDB's names of its columns' types."""

    path: Path
    kind: str
    name: str
    types: dict[str, str]

    @property
    def scan(self) -> str:
        """Write the table function, with nothing of the file's form left to guess."""
        file = literal(GLOB.sub(r"[\1]", str(self.path)))
        if self.kind == "parquet":
            return f"read_parquet({file}, file_row_number = true)"
        if self.kind == "json lines":
            return f"read_json({file}, format = 'newline_delimited')"
        return csv_scan(file, self.kind, self.types)

    @property
    def numbered(self) -> str:
        """Write a query for the table with the number of each row, from 0, in `"@row"`."""
        if self.kind == "parquet":
            return f'SELECT *, CAST(file_row_number AS UBIGINT) AS "@row" FROM {self.scan}'
        return f'SELECT *, CAST(row_number() OVER () - 1 AS UBIGINT) AS "@row" FROM {self.scan}'

    def retyped(self, types: Mapping[str, str]) -> Table:
        """Read some columns as other types; only text files leave a choice."""
        return replace(self, types={**self.types, **types}) if self.kind in DELIMITERS else self


def open_table(database: Database, path: Path, kind: str, name: str) -> Table:
    """Look at a file's columns and their types."""
    if kind in DELIMITERS:
        return Table(path, kind, name, csv_types(path, kind, name))
    table = Table(path, kind, name, {})
    types = {row[0]: row[1] for row in database.rows(f"DESCRIBE SELECT * FROM {table.scan}", name)}
    if kind == "parquet":
        types.pop("file_row_number", None)
    return replace(table, types=types)


def union(tables: Sequence[Table]) -> str:
    """Write a query for the rows of several tables of the same columns, one after the other."""
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {table.scan}" for table in tables)


CONVERSION = re.compile(r"Error when converting column \"(.*?)\"\. Could not convert string \"(.*?)\" to", re.DOTALL)
WIDTH = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
LINE = re.compile(r"CSV Error on Line: (\d+)")
FAULTS = {
    "unterminated quote": "a quote is opened and never closed",
    "Invalid unicode": "there is text that is not UTF-8",
    "Maximum line size": "a line is longer than 2 MB",
    "Out of Memory": "the memory does not suffice; raise --memory",
}


def _translate(message: str, file: str) -> InputError:
    """Turn a message of DuckDB's, which can be a page with advice on its options, into one sentence."""
    line = LINE.search(message)
    where = f"{file}, line {line[1]}" if line else file
    if found := CONVERSION.search(message):
        return NotANumberError(where, found[1], found[2][:40])
    if found := WIDTH.search(message):
        return InputError(f"{where} has {found[2]} values, but the header has {found[1]} columns; mend that row")
    for sign, fault in FAULTS.items():
        if sign.lower() in message.lower():
            return InputError(f"cannot read {where}: {fault}")
    return InputError(f"cannot read {where}: {_sentence(message)}")


def _sentence(message: str) -> str:
    body = message.partition(": ")[2] or message
    lines = [part.strip() for part in body.splitlines() if part.strip()]
    return (lines[0] if lines else message).rstrip(".")[:300]


class NotANumberError(InputError):
    """A column that began with numbers holds something else further down."""

    def __init__(self, where: str, column: str, value: str) -> None:
        super().__init__(f"{where}: the column {column!r} holds {value!r}, which is not a number like the rest of it")
        self.column = column
