"""Where predictions come from: standard input, a file, a file that grows, or a table in the order of its times."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from advshift.audit.readers.columns import Columns, Wanted, find_columns
from advshift.audit.readers.quoting import quoted
from advshift.audit.readers.sources import open_source
from advshift.audit.readers.tables import Database, Table, open_database, open_table
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["Block", "Growing", "Piped", "TableRows", "Whole"]

READ = 1 << 18  # bytes at a time
LONGEST = 1 << 26  # bytes of a line; more cannot be a prediction
IDLE = 0.2  # seconds between two looks at a stream that is silent
FETCHED = 1000  # rows of a table at a time

Block: TypeAlias = list[bytes]
Stop: TypeAlias = Callable[[], bool]


def _cut(rest: bytes, name: str) -> tuple[Block, bytes]:
    """Whole lines, and what follows the last of them."""
    *lines, rest = rest.split(b"\n")
    if len(rest) > LONGEST:
        raise InputError(f"{name} has a line of more than {LONGEST >> 20} MB; expected one prediction in a line")
    return lines, rest


class Piped:
    """Standard input: lines as they come, until it is closed."""

    name = "standard input"

    def __init__(self, stop: Stop) -> None:
        self.stop = stop

    def blocks(self) -> Iterator[Block]:
        """Yield lines as soon as they are whole, and nothing when none came for a moment."""
        try:
            number = sys.stdin.fileno()
        except (OSError, ValueError):
            raise InputError("there is no standard input; name a file of predictions") from None
        rest = b""
        while not self.stop():
            if not select.select([number], [], [], IDLE)[0]:
                yield []
                continue
            data = os.read(number, READ)
            if not data:
                if rest:
                    yield [rest]
                return
            lines, rest = _cut(rest + data, self.name)
            yield lines


class Whole:
    """A file that is read to its end, from a place in it."""

    def __init__(self, path: str, offset: int, stop: Stop, *, last: bool) -> None:
        self.path, self.name, self.offset, self.stop, self.last = path, path, offset, stop, last

    def blocks(self) -> Iterator[Block]:
        """Yield whole lines; a last line without an end only if no more is to come."""
        rest = b""
        with _open(self.path) as file:
            file.seek(self.offset)
            while not self.stop() and (data := file.read(READ)):
                lines, rest = _cut(rest + data, self.name)
                yield lines
        if rest and self.last and not self.stop():
            yield [rest]


class Growing:
    """A file that others append to: its end is waited at, and a new file of the same name is begun from its start.

    `restarted` is called when that happens; `inode` is the number of the file that is being read.
    """

    def __init__(self, path: str, offset: int, stop: Stop, restarted: Callable[[], None]) -> None:
        self.path, self.name, self.offset, self.stop, self.restarted = path, path, offset, stop, restarted
        self.inode: int | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield lines as they are completed."""
        offset = self.offset
        while not self.stop():
            with _open(self.path) as file:
                self.inode = os.fstat(file.fileno()).st_ino
                file.seek(offset)
                yield from self._follow(file)
            if not self.stop():
                offset = 0
                self.restarted()

    def _follow(self, file: Any) -> Iterator[Block]:
        rest = b""
        while not self.stop():
            data = file.read(READ)
            if data:
                lines, rest = _cut(rest + data, self.name)
                yield lines
            elif self._replaced(file):
                return
            else:
                yield []
                time.sleep(IDLE)

    def _replaced(self, file: Any) -> bool:
        """Whether the name leads to another file by now, or the file was cut."""
        try:
            now = Path(self.path).stat()
        except OSError:
            return False  # between the old file and the new one
        return now.st_ino != os.fstat(file.fileno()).st_ino or now.st_size < file.tell()


def _open(path: str) -> Any:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path!r}: {error.strerror}") from None


class TableRows:
    """A table of any kind that the audit reads, in the order of its times or of its rows.

    Parameters
    ----------
    file
        The file, folder or pattern.
    wanted, time
        The columns that the user names.
    skip
        Rows that were taken in before.
    memory
        What the database may hold; larger sorts go to its temporary folder.
    """

    def __init__(self, file: str, wanted: Wanted, time: str | None, skip: int, memory: str) -> None:
        self.file, self.wanted, self.time, self.skip, self.memory = file, wanted, time, skip, memory

    def rows(self, stop: Stop) -> Iterator[Any]:
        """Yield the columns that were found, then lists of rows, each a mapping from column to value."""
        with open_source(self.file) as source, open_database(self.memory) as database:
            if source.kind in ("npz", "npy"):
                raise InputError(
                    f"{source.name} is a NumPy file, which has no stream of rows; give CSV, TSV, JSON lines or Parquet"
                )
            pairs = zip(source.paths, source.labels, strict=True)
            tables = [open_table(database, path, source.kind, name) for path, name in pairs]
            columns = find_columns(tables[0].types, self.wanted, source.name, labelled=False)
            names = _names(columns, self.time, tables[0].types, source.name)
            yield columns
            yield from self._fetch(database, tables, names, source.name, stop)

    def _fetch(
        self, database: Database, tables: Sequence[Table], names: list[str], file: str, stop: Stop
    ) -> Iterator[list[dict[str, Any]]]:
        parts = []
        for number, table in enumerate(tables):
            lacking = next((name for name in names if name not in table.types), None)
            if lacking is not None:
                raise InputError(f"{table.name} has no column {lacking!r}, which {tables[0].name} has")
            text = table.retyped(dict.fromkeys(names, "VARCHAR"))
            listed = ", ".join(quoted(name) for name in names)
            parts.append(f'SELECT {listed}, {number} AS "@part", "@row" FROM ({text.numbered})')
        order = '"@part", "@row"'
        if self.time is not None:
            said = f"CAST({quoted(self.time)} AS VARCHAR)"
            order = f"coalesce(TRY_CAST({said} AS DOUBLE), epoch(TRY_CAST({said} AS TIMESTAMP))) NULLS LAST, {order}"
        listed = ", ".join(_plain(quoted(name), name == self.time) for name in names)
        query = f"SELECT {listed} FROM ({' UNION ALL '.join(parts)}) ORDER BY {order} OFFSET {self.skip}"
        yield from _batches(database, query, file, names, stop)


def _plain(column: str, text: bool) -> str:
    return f"CAST({column} AS VARCHAR)" if text else column


def _batches(database: Database, query: str, file: str, names: list[str], stop: Stop) -> Iterator[list[dict[str, Any]]]:
    import duckdb

    try:
        cursor = database.connection.execute(query)
        while not stop() and (rows := cursor.fetchmany(FETCHED)):
            yield [dict(zip(names, row, strict=True)) for row in rows]
    except duckdb.Error as error:
        raise InputError(f"cannot read {file}: {str(error).splitlines()[0]}") from None


def _names(columns: Columns, time_column: str | None, types: dict[str, str], file: str) -> list[str]:
    if not (columns.probabilities or columns.prediction):
        raise InputError(f"{file} has losses alone; a monitor needs predictions or probabilities: name their column")
    if time_column is not None and time_column not in types:
        close = nearest(time_column, types)
        raise InputError(f"{file} has no column {time_column!r}{close} (its columns: {', '.join(types)})")
    wanted = list(columns.probabilities) or [str(columns.prediction)]
    return [*wanted, *([time_column] if time_column is not None else [])]
