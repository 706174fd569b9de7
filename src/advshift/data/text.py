"""Texts in JSON lines, as the weights of their words; the words are learned from the training part alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from advshift.data.options import DataOptions
from advshift.data.parts import encode, find_files, part_rows
from advshift.data.table import SPLIT, label_column
from advshift.data.types import MemorySplit, Source, Split
from advshift.errors import InputError, require

__all__ = ["read_text"]

TEXTS = ("text", "sentence", "content", "body", "document")
Record = dict[str, Any]


def read_text(options: DataOptions, folder: Path) -> Source:
    """Read records with a text, a label and, in a single file, the part that they are of.

    A text becomes a row of length 1: `(1 + log count)·log((1 + n)/(1 + n_word)) + …` as scikit-learn has it, for the
    most frequent words of the training part.
    """
    require("sklearn", "the set 'text'", "sklearn")
    records: list[Record] = []
    rows: dict[str, np.ndarray] = {}
    files = find_files(folder, (".jsonl", ".ndjson", ".json"), "a file of JSON lines")
    for part, path in files.items():
        found = _records(path)
        rows[part] = np.arange(len(records), len(records) + len(found))
        records += found
    name = str(folder)
    if len(files) == 1 and SPLIT in records[0]:
        rows = part_rows([record.get(SPLIT) for record in records], name)
    label = label_column(list(records[0]), options.label, name)
    texts = _texts(records, _text_field(records[0], options.features, name), name)
    labels = _column(records, label)
    codes, class_names = encode({part: labels[places] for part, places in rows.items()}, name)
    parts: dict[str, Split] = {
        part: MemorySplit(torch.from_numpy(places)[:, None], codes[part], torch.from_numpy(places))
        for part, places in rows.items()
    }

    def finish(cut: dict[str, Split]) -> dict[str, Split]:
        return _weighed(cut, texts, options.max_features)

    return Source(parts, class_names, finish=finish, mean=(0.0,), std=(1.0,))


def _records(path: Path) -> list[Record]:
    found: list[Record] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    found.append(_record(line, number, path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {str(path)!r}: {reason}") from None
    if not found:
        raise InputError(f"{str(path)!r} holds no record")
    return found


def _record(line: str, number: int, path: Path) -> Record:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number} of {str(path)!r} is no JSON ({error}); expected one object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"line {number} of {str(path)!r} is no JSON object; expected one with a text and a label")
    return record


def _text_field(record: Record, wanted: Sequence[str] | None, name: str) -> str:
    if wanted is not None:
        if len(wanted) != 1:
            raise InputError(f"data.features must name one field of text; got {len(wanted)}")
        return wanted[0]
    found = [field for field in TEXTS if field in record]
    if not found:
        raise InputError(f"which field of {name!r} holds the text? Set data.features (it has: {', '.join(record)})")
    return found[0]


def _texts(records: Sequence[Record], field: str, name: str) -> list[str]:
    for row, record in enumerate(records, 1):
        if not isinstance(record.get(field), str):
            raise InputError(f"record {row} of {name!r} has no text in {field!r}")
    return [record[field] for record in records]


def _column(records: Sequence[Record], field: str) -> np.ndarray:
    values = [record.get(field) for record in records]
    plain = np.empty(len(values), object)
    plain[:] = values
    numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return plain.astype(np.int64) if numbers else plain


def _weighed(parts: dict[str, Split], texts: Sequence[str], most: int) -> dict[str, Split]:
    """Learn the words of the training part, and weigh those of all parts by them."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, max_features=most, dtype=np.float32)
    chosen = {name: [texts[row] for row in part.ids.tolist()] for name, part in parts.items()}
    try:
        words.fit(chosen["train"])
    except ValueError:
        raise InputError("the training texts hold no word of two letters or more") from None
    return {
        name: MemorySplit(torch.from_numpy(words.transform(chosen[name]).toarray()), part.labels, part.ids)
        for name, part in parts.items()
    }
