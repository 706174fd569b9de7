"""Readers and command under fire: any bytes give an answer or an `InputError`, and never a partial file."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from advshift.audit.readers import Options, read_files
from advshift.audit.readers.distributions import read_costs, read_reference
from advshift.audit.readers.histories import read_history
from advshift.audit.record import AuditRecord
from advshift.audit.statistics import ClassStatistics
from advshift.cli import main
from advshift.errors import InputError

SUFFIXES = st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet", ".npz", ".npy", "", ".txt"])
CELLS = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "cat",
        "",
        " ",
        "nan",
        "inf",
        "-1",
        "1e400",
        "0.5",
        "1.0",
        "é",
        '"',
        '""',
        "a,b",
        "\x1b[31m",
        "NULL",
    ]
) | st.text(st.characters(codec="utf-8"), max_size=4)
HEADERS = st.lists(
    st.sampled_from(
        ["label", "prediction", "loss", "id", "prob_0", "prob_1", "class", "count", "errors", "x", "value_sum"]
    ),
    min_size=1,
    max_size=5,
)


def _table(header: list[str], rows: list[list[str]], delimiter: str) -> bytes:
    return "\n".join(delimiter.join(row) for row in [header, *rows]).encode()


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, label=np.array([0, 1]), prediction=np.array([0, 0]), loss=np.array([0.5, 1.0]))
    return buffer.getvalue()


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([[0, 1], [1, 1]]))
    return buffer.getvalue()


def _parquet() -> bytes:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"label": [0, 1], "prediction": [0, 0], "p": [[0.5, 0.5], [1.0, 0.0]]}), buffer)
    return buffer.getvalue()


WHOLE = {".npz": _npz(), ".npy": _npy(), ".parquet": _parquet()}
TABLES = st.builds(
    _table, HEADERS, st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=6), st.sampled_from([",", "\t", ";"])
)
JSON = st.lists(
    st.dictionaries(
        st.sampled_from(["label", "prediction", "loss", "id"]),
        st.none()
        | st.booleans()
        | st.integers(-3, 3)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=2)
        | st.just([1]),
    ).map(lambda row: json.dumps(row)),
    max_size=5,
).map(lambda rows: "\n".join(rows).encode())


@st.composite
def _damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A whole file with some bytes changed, or its end cut off."""
    suffix = draw(st.sampled_from(sorted(WHOLE)))
    content = bytearray(WHOLE[suffix])
    for _ in range(draw(st.integers(0, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return suffix, bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


FILES = (
    st.tuples(SUFFIXES, st.binary(max_size=200))
    | st.tuples(SUFFIXES, TABLES)
    | st.tuples(st.sampled_from([".jsonl", ""]), JSON)
    | _damaged()
)
TRUNCATED_HEADER = (".npy", _npy()[:20] + b"{'descr': (" + b" " * 60)  # the header's tokeniser gives up on it
FUZZ = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@FUZZ
@example(TRUNCATED_HEADER, None, False)
@given(FILES, st.sampled_from([None, "error", "loss", "top-1", "log-loss", "brier"]), st.booleans())
def test_readers(file: tuple[str, bytes], metric: str | None, renormalise: bool) -> None:
    suffix, content = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(content)
        try:
            reading = read_files([str(path)], Options(metric=metric, renormalise=renormalise))
        except InputError:
            return
        (statistics,) = reading.statistics
        assert statistics.counts.sum() == reading.inputs[0].rows
        assert np.isfinite(statistics.products).all()
        assert ClassStatistics.from_json(statistics.to_json()).counts.tolist() == statistics.counts.tolist()


@settings(FUZZ, max_examples=60)
@example((".jsonl", b'{"label": 9.223372036854776e+18}'))
@example((".jsonl", b'{"label": false, "prediction": 9.223372036854776e+18}'))
@given(FILES)
def test_small_tables(file: tuple[str, bytes]) -> None:
    suffix, content = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(content)
        for reader in (read_reference, read_costs, read_history):
            with contextlib.suppress(InputError):
                reader(str(path))


OPTIONS = st.lists(
    st.sampled_from(
        [
            ["--radii", "0,0.1"],
            ["--radii", "inf"],
            ["--radii", "x"],
            ["--set", "tv"],
            ["--set", "top-k"],
            ["--set", "simplex"],
            ["--set", "nonsense"],
            ["--max-ratio", "2"],
            ["--reference", "uniform"],
            ["--reference", "missing.csv"],
            ["--metric", "loss"],
            ["--target", "0.5"],
            ["--empty-class", "exclude"],
            ["--confidence", "0"],
            ["--label", "x"],
            ["--common"],
            ["--fail-above", "0.2"],
            ["--at-radius", "-1"],
            ["--unknown"],
        ]
    ),
    max_size=3,
)


@settings(FUZZ, max_examples=40)
@given(st.lists(FILES, min_size=1, max_size=2), OPTIONS)
def test_command(files: list[tuple[str, bytes]], options: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        names = []
        for k, (suffix, content) in enumerate(files):
            names.append(str(Path(folder) / f"file{k}{suffix}"))
            Path(names[-1]).write_bytes(content)
        output = Path(folder) / "out.json"
        patch.setattr(
            sys,
            "argv",
            ["advshift", "audit", *names, *[word for option in options for word in option], "--json", str(output)],
        )
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert code in (0, 2, 3)
        assert output.exists() == (code != 2)
        if output.exists():
            AuditRecord.read(output)
        assert len(list(Path(folder).iterdir())) == len(names) + output.exists()
