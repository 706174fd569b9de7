"""Which fold an example falls into: a seeded hash, the same in NumPy, in Python and in SQL.

An example is known by its id, else by its file's name and its row. Two examples that share a hash merely share a fold,
so the hash is short; that order, threads and chunks cannot move an example is what matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["FOLDS", "folds_of_ids", "folds_of_rows", "sql_fold_of_id", "sql_fold_of_row"]

FOLDS = 10

WORD = 0xFFFFFFFF
# A bijection of 32-bit words, whose every output bit depends on every input bit.
STEPS = ((16, 0x7FEB352D), (15, 0x846CA68B))
LAST = 16


def word_of_text(text: str, seed: int) -> int:
    """Hash text: the first 32 bits of the MD5 of `seed:text`.

    >>> word_of_text("example 7", 0)
    122360033
    """
    return int(hashlib.md5(f"{seed}:{text}".encode(), usedforsecurity=False).hexdigest()[:8], 16)


def folds_of_ids(ids: Iterable[Any], folds: int, seed: int) -> Any:
    """Find the folds of examples that have ids, whose text is what counts: 7 and "7" are the same id."""
    return np.fromiter((word_of_text(str(one), seed) % folds for one in ids), dtype=np.int64)


def folds_of_rows(rows: Any, source: str, folds: int, seed: int) -> Any:
    """Find the folds of the examples in the given rows, counted from 0, of the file (or array) named `source`."""
    rows = np.asarray(rows, dtype=np.uint64)
    word = (rows ^ (rows >> np.uint64(32)) ^ np.uint64(word_of_text(source, seed))) & np.uint64(WORD)
    for shift, factor in STEPS:
        word = ((word ^ (word >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(WORD)
    return ((word ^ (word >> np.uint64(LAST))) % np.uint64(folds)).astype(np.int64)


def sql_fold_of_id(column: str, folds: int, seed: int) -> str:
    """Write `folds_of_ids` as an SQL expression."""
    return f"(('0x' || left(md5('{seed}:' || CAST({column} AS VARCHAR)), 8))::UBIGINT % {folds})::INTEGER"


def sql_fold_of_row(row: str, source: str, folds: int, seed: int) -> str:
    """Write `folds_of_rows` as an SQL expression of the row's number, an unsigned 64-bit integer.

    Every product is below 2^64, so nothing overflows. A step names its input twice; the engine evaluates a common
    subexpression once.
    """
    word = f"(xor(xor({row}, {row} >> 32), {word_of_text(source, seed)}::UBIGINT) & {WORD}::UBIGINT)"
    for shift, factor in STEPS:
        word = f"((xor({word}, {word} >> {shift}) * {factor}::UBIGINT) & {WORD}::UBIGINT)"
    return f"(xor({word}, {word} >> {LAST}) % {folds})::INTEGER"
