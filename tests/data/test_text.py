"""Texts become the weights of their words, which are learned from the training part alone."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advshift.data import DataOptions, DataSet, load_data
from advshift.errors import InputError

WORDS = ["oak elm oak", "elm ash", "ash ash oak", "elm elm elm", "oak ash elm", "yew yew"]


def _records(path: Path, records: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def _load(path: Path, **options: Any) -> DataSet:
    return load_data(DataOptions(**({"name": "text", "path": str(path), "validation": 0.0} | options)))


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    splits = ["train"] * 5 + ["test"]
    rows = [{"split": s, "y": "ab"[n % 2], "text": t} for n, (s, t) in enumerate(zip(splits, WORDS, strict=True))]
    return _records(tmp_path / "set.jsonl", rows)


def _by_hand(text: str, training: list[str], vocabulary: list[str]) -> np.ndarray:
    counts = Counter(text.split())
    found = []
    for word in vocabulary:
        holders = sum(word in other.split() for other in training)
        inverse = math.log((1 + len(training)) / (1 + holders)) + 1
        found.append((1 + math.log(counts[word])) * inverse if counts[word] else 0.0)
    norm = math.sqrt(sum(value**2 for value in found)) or 1.0
    return np.array(found) / norm


def test_weights_by_hand(trees: Path) -> None:
    data = _load(trees)
    assert data.class_names == ("a", "b")
    assert data.shape == (3,)  # "yew" is a word of the test part alone
    for row, text in enumerate(WORDS[:5]):
        expected = _by_hand(text, WORDS[:5], ["ash", "elm", "oak"])
        np.testing.assert_allclose(data.train.inputs[row].numpy(), expected, rtol=1e-6)
    assert data.test is not None
    assert data.test.inputs.tolist() == [[0.0, 0.0, 0.0]]
    assert (data.mean.tolist(), data.std.tolist()) == ([0.0] * 3, [1.0] * 3)


def test_what_is_cut_off_teaches_no_words(tmp_path: Path) -> None:
    path = _records(tmp_path / "a.jsonl", [{"label": n % 2, "text": f"common word{n:02}"} for n in range(40)])
    data = _load(path, validation=0.25, test=0.25, held_out=0.2)
    assert data.shape == (1 + len(data.train),)
    for part in (data.validation, data.test, data.held_out):
        assert part is not None
        np.testing.assert_allclose((part.inputs > 0).sum(1), 1)


def test_the_most_frequent_words_are_kept(trees: Path) -> None:
    assert _load(trees, max_features=2).shape == (2,)


def test_files_of_parts_and_named_fields(tmp_path: Path) -> None:
    _records(tmp_path / "train.jsonl", [{"kind": 3, "words": "one two"}, {"kind": 5, "words": "three"}])
    _records(tmp_path / "test.jsonl", [{"kind": 5, "words": "three"}])
    data = _load(tmp_path, label="kind", features=("words",))
    assert data.class_names == ("3", "5")
    assert data.test is not None
    assert data.test.labels.tolist() == [1]
    assert data.test.ids.tolist() == [2]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "holds no record"),
        ("{", "line 1 .* is no JSON"),
        ("[1]\n", "line 1 .* is no JSON object"),
        ('{"label": 1}\n', "which field .* holds the text"),
        ('{"text": "aa"}\n', "which column .* holds the labels"),
        ('{"text": 3, "label": 1}\n', "record 1 .* has no text in 'text'"),
        ('{"text": "aa", "label": 1}\n{"text": "aa"}\n', "no label in row 2"),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n', "no word of two letters"),
        ('{"text": "aa", "label": 1, "split": "other"}\n', "row 1 .* of the part 'other'"),
    ],
)
def test_what_does_not_fit(content: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=match) as caught:
        _load(path)
    assert "\n" not in str(caught.value)
