"""Readers: every kind of file gives what a plain loop over its rows gives."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advshift.audit.folds import folds_of_ids, folds_of_rows
from advshift.audit.metrics import SMALLEST
from advshift.audit.readers import Examples, Options, Wanted, read_arrays, read_files
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 240


def _examples(seed: int = 0, classes: int = 4, text: bool = False) -> dict[str, list[Any]]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, ROWS)
    probabilities = generator.dirichlet(np.ones(classes), ROWS)
    predictions = np.where(generator.random(ROWS) < 0.3, generator.integers(0, classes, ROWS), labels)
    names = np.array(["bee", "cat", 'd,o"g', "été"][:classes]) if text else np.arange(classes)
    return {
        "label": names[labels].tolist(),
        "prediction": names[predictions].tolist(),
        "loss": generator.exponential(1.0, ROWS).tolist(),
        **{f"prob_{k}": probabilities[:, k].tolist() for k in range(classes)},
    }


def _write(path: Path, columns: dict[str, list[Any]]) -> str:
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t")
            writer.writerows([list(columns), *rows])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path, row_group_size=50)
    else:
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    return str(path)


def _expected(
    columns: dict[str, list[Any]], values: list[list[float]], source: str, ids: Any = None
) -> ClassStatistics:
    """The statistics by a loop over rows, with no code of the package but the folds."""
    labels = columns["label"]
    folds = folds_of_rows(range(len(labels)), source, 10, 0) if ids is None else folds_of_ids(ids, 10, 0)
    expected = ClassStatistics([f"v{k}" for k in range(len(values))], classes=sorted(set(labels)))
    for row, (label, fold) in enumerate(zip(labels, folds, strict=True)):
        place = expected.classes.index(label), int(fold)
        vector = np.array([column[row] for column in values])
        expected.counts[place] += 1
        expected.sums[place] += vector
        expected.products[place] += np.outer(vector, vector)
    return expected


def _check(found: ClassStatistics, expected: ClassStatistics) -> None:
    assert found.classes == expected.classes
    assert found.counts.tolist() == expected.counts.tolist()
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.products, expected.products, rtol=1e-12, atol=1e-12)


def _errors(columns: dict[str, list[Any]]) -> list[float]:
    return [float(a != b) for a, b in zip(columns["label"], columns["prediction"], strict=True)]


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".npz"])
def test_errors_in_every_kind_of_file(tmp_path: Path, suffix: str, text: bool) -> None:
    columns = _examples(text=text)
    name = _write(tmp_path / f"predictions{suffix}", columns)
    reading = read_files([name])
    _check(reading.statistics[0], _expected(columns, [_errors(columns)], f"predictions{suffix}"))
    assert reading.models == ("predictions",)
    assert reading.metric.name == "error"
    assert reading.inputs[0].rows == ROWS
    assert len(reading.inputs[0].sha256 or "") == 64
    assert "label = label, prediction = prediction" in reading.notices[0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("metric", ["error", "top-2", "log-loss", "brier", "loss"])
def test_metrics_by_hand(tmp_path: Path, suffix: str, metric: str) -> None:
    columns = _examples()
    p = np.array([columns[f"prob_{k}"] for k in range(4)]).T
    y = np.array(columns["label"])
    own = p[np.arange(ROWS), y]
    hot = np.eye(4)[y]
    values = {
        "error": p.argmax(axis=1) != y,
        "top-2": [label not in np.argsort(row)[-2:] for label, row in zip(y, p, strict=True)],
        "log-loss": -np.log(np.maximum(own / p.sum(axis=1), SMALLEST)),
        "brier": ((p / p.sum(axis=1, keepdims=True) - hot) ** 2).sum(axis=1),
        "loss": np.array(columns["loss"]),
    }[metric]
    columns.pop("prediction")
    reading = read_files([_write(tmp_path / f"m{suffix}", columns)], Options(metric=metric))
    _check(reading.statistics[0], _expected(columns, [np.asarray(values, float).tolist()], f"m{suffix}"))


def test_list_column_of_probabilities_and_ties(tmp_path: Path) -> None:
    table = {
        "label": [0, 1, 1, 2],
        "probabilities": [[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.2, 0.6, 0.2], [1.0, 0.0, 0.0]],
    }
    name = _write(tmp_path / "p.parquet", table)
    for metric, errors in (("error", [0, 1, 0, 1]), ("top-1", [1, 1, 0, 1]), ("top-2", [0, 0, 0, 1])):
        found = read_files([name], Options(metric=metric)).statistics[0]
        _check(found, _expected(table, [errors], "p.parquet"))
        arrays = Examples("p", table["label"], probabilities=table["probabilities"], source="p.parquet")
        _check(read_arrays([arrays], Options(metric=metric)).statistics[0], _expected(table, [errors], "p.parquet"))


def test_text_classes_of_a_list_column_must_be_named(tmp_path: Path) -> None:
    name = _write(tmp_path / "p.parquet", {"label": ["b", "a"], "probs": [[0.9, 0.1], [0.9, 0.1]]})
    with pytest.raises(InputError, match="--classes"):
        read_files([name])
    found = read_files([name], Options(classes=("b", "a"))).statistics[0]
    assert found.classes == ("a", "b")
    assert found.means[:, 0].tolist() == [1.0, 0.0]


def test_cost_of_each_confusion(tmp_path: Path) -> None:
    columns = _examples(classes=3, text=True)
    names = sorted(set(columns["label"]))
    costs = {(a, b): float(3 * i + j) for i, a in enumerate(names) for j, b in enumerate(names)}
    values = [costs[pair] for pair in zip(columns["label"], columns["prediction"], strict=True)]
    for suffix in (".csv", ".npz"):
        name = _write(tmp_path / f"c{suffix}", columns)
        reading = read_files([name], Options(metric="cost", costs=costs))
        _check(reading.statistics[0], _expected(columns, [values], f"c{suffix}"))
        assert reading.metric.bounds == (0.0, 8.0)
        with pytest.raises(InputError, match="no entry"):
            read_files([name], Options(metric="cost", costs={(names[0], names[0]): 0.0}))


def test_folder_and_pattern_are_one_model(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    first, second = _examples(0), _examples(1)
    _write(folder / "a.parquet", first)
    _write(folder / "b.parquet", second)
    expected = _expected(first, [_errors(first)], "a.parquet").merge(_expected(second, [_errors(second)], "b.parquet"))
    for argument in (str(folder), str(folder / "*.parquet")):
        _check(read_files([argument]).statistics[0], expected)
    assert read_files([str(folder)]).models == ("run",)


def test_merging_files_equals_reading_them_together(tmp_path: Path) -> None:
    names = [_write(tmp_path / f"{k}.csv", _examples(k)) for k in range(3)]
    parts = [read_files([f"m={name}"]).statistics[0] for name in names]
    _check(parts[0].merge(parts[1]).merge(parts[2]), read_files([f"m={tmp_path}/*.csv"]).statistics[0])


def test_threads_and_chunks_move_nothing(tmp_path: Path) -> None:
    name = _write(tmp_path / "x.parquet", _examples())
    one, two = (read_files([name], threads=threads).statistics[0] for threads in (1, 2))
    assert one.counts.tolist() == two.counts.tolist()
    assert one.sums.tolist() == two.sums.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_paired_models(tmp_path: Path, suffix: str) -> None:
    first = _examples(0)
    second = {**first, "prediction": _examples(3)["prediction"]}
    names = [_write(tmp_path / f"{k}{suffix}", table) for k, table in (("first", first), ("second", second))]
    reading = read_files(names)
    assert reading.paired
    assert not reading.warnings
    _check(reading.statistics[0], _expected(first, [_errors(first), _errors(second)], f"first{suffix}"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_models_are_paired_by_id_whatever_the_order(tmp_path: Path, suffix: str) -> None:
    first = {**_examples(0), "id": [f"x{k}" for k in range(ROWS)]}
    order = np.random.default_rng(5).permutation(ROWS)
    other = {**first, "prediction": _examples(3)["prediction"]}
    second = {name: [values[k] for k in order] for name, values in other.items()}
    names = [_write(tmp_path / f"{k}{suffix}", table) for k, table in (("first", first), ("second", second))]
    found = read_files(names).statistics[0]
    _check(found, _expected(first, [_errors(first), _errors(other)], "", ids=first["id"]))
    _check(
        read_files(names[::-1]).statistics[0], _expected(first, [_errors(other), _errors(first)], "", ids=first["id"])
    )


def test_different_examples_are_not_paired(tmp_path: Path) -> None:
    first, second = _examples(0), _examples(1)
    names = [_write(tmp_path / f"{k}.csv", table) for k, table in (("first", first), ("second", second))]
    reading = read_files(names)
    assert not reading.paired
    assert [warning.code for warning in reading.warnings] == ["unpaired"]
    _check(reading.statistics[1], _expected(second, [_errors(second)], "second.csv"))


def test_tables_and_arrays_side_by_side(tmp_path: Path) -> None:
    columns = _examples()
    reading = read_files([_write(tmp_path / "a.csv", columns), _write(tmp_path / "b.npz", columns)])
    assert reading.models == ("a", "b")
    assert [warning.code for warning in reading.warnings] == ["unpaired"]
    assert reading.statistics[0].means.tolist() == reading.statistics[1].means.tolist()


def test_aggregated_errors_and_values(tmp_path: Path) -> None:
    columns = _examples()
    single = read_files([_write(tmp_path / "rows.csv", columns)]).statistics[0]
    rows = zip(single.classes, single.count.tolist(), single.sums.sum(axis=(1, 2)).astype(int).tolist(), strict=True)
    table = tmp_path / "agg.csv"
    table.write_text("class,count,errors\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    found = read_files([str(table)])
    assert found.statistics[0].folds == 1
    assert found.metric.name == "error"
    assert found.statistics[0].means.tolist() == single.means.tolist()
    table.write_text("class,fold,count,value_sum,value_square_sum\na,0,2,3.5,8\na,1,1,1,1\nb,1,1,0.5,0.25\n")
    found = read_files([str(table)])
    assert found.statistics[0].folds == 2
    assert found.statistics[0].means[:, 0].tolist() == [1.5, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class,count,errors\na,3,4\n", "row 1 of agg.csv has errors that are not"),
        ("class,count,errors\na,3,1\nb,2.5,1\n", "row 2 of agg.csv has a count"),
        ("class,count,errors\na,-3,1\n", "a count that is not"),
        ("class,count,errors\na,,1\n", "no finite number in its count"),
        ("class,count,value_sum\na,3,1\n", "add value_square_sum"),
        ("class,count,value_sum,value_square_sum\na,3,3,1\n", "too small for its sum"),
        ("class,count,value_sum,value_square_sum\na,0,3,9\n", "values but no examples"),
        ("class,count,errors\n", "no rows"),
        ("class,count,errors\na,1e300,1\n", "row 1 of agg.csv has a count"),
        ("class,fold,count,errors\na,1000000000000,3,1\n", "row 1 of agg.csv has a fold"),
    ],
)
def test_aggregated_tables_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "agg.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        read_files([str(table)])


def test_named_columns(tmp_path: Path) -> None:
    columns = _examples()
    renamed = {"a": columns["label"], "b": columns["prediction"], "c": columns["loss"], "label": [0] * ROWS}
    name = _write(tmp_path / "x.csv", renamed)
    found = read_files([name], Options(metric="error"), Wanted(label="a", prediction="b")).statistics[0]
    _check(found, _expected(columns, [_errors(columns)], "x.csv"))
    with pytest.raises(InputError, match=r"no column 'bb'; did you mean 'b'"):
        read_files([name], wanted=Wanted(label="a", prediction="bb"))


def test_labels_that_turn_to_text_after_the_sample(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("label,prediction\n" + "1,1\n" * 400_000 + "none,1\n")
    found = read_files([str(path)]).statistics[0]
    assert found.classes == ("1", "none")
    assert found.means[:, 0].tolist() == [0.0, 1.0]


def test_whole_numbers_written_as_floats_are_the_same_classes(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("label,prediction\n1,1.0\n2,1.0\n")
    found = read_files([str(path)]).statistics[0]
    assert found.classes == (1, 2)
    assert found.means[:, 0].tolist() == [0.0, 1.0]


def test_npy_of_columns_and_of_fields(tmp_path: Path) -> None:
    y, p = np.array([0, 1, 1]), np.array([0, 0, 1])
    np.save(tmp_path / "plain.npy", np.stack([y, p], axis=1))
    np.save(tmp_path / "loss.npy", np.stack([y, [0.5, 1.5, 2.5]], axis=1))
    np.save(tmp_path / "fields.npy", np.rec.fromarrays([y, p], names="label,prediction"))
    np.save(tmp_path / "flat.npy", y)
    for name in ("plain", "fields"):
        assert read_files([str(tmp_path / f"{name}.npy")]).statistics[0].means[:, 0].tolist() == [0.0, 0.5]
    assert read_files([str(tmp_path / "loss.npy")]).statistics[0].means[:, 0].tolist() == [0.5, 2.0]
    with pytest.raises(InputError, match="named fields"):
        read_files([str(tmp_path / "flat.npy")])


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", label=np.array([{"a": 1}], dtype=object), prediction=np.array([1]))
    with pytest.raises(InputError, match="allow_pickle"):
        read_files([str(tmp_path / "x.npz")])


def test_standard_input(tmp_path: Path) -> None:
    columns = _examples()
    code = "from advshift.audit.readers import read_files; r = read_files(['-']); print(r.statistics[0].to_json())"
    for suffix in (".csv", ".jsonl", ".parquet", ".npz"):
        name = _write(tmp_path / f"x{suffix}", columns)
        source = str(Path(sys.modules["advshift"].__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=Path(name).read_bytes(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        _check(ClassStatistics.from_json(done.stdout.decode()), _expected(columns, [_errors(columns)], "-"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "label,prediction\n0,0\n0,1\n"
    writer = threading.Thread(target=lambda: pipe.write_text(text))
    writer.start()
    found = read_files([str(pipe)]).statistics[0]
    writer.join()
    assert found.means[:, 0].tolist() == [0.5]


def test_memory_is_bounded_and_said_when_it_does_not_suffice(tmp_path: Path) -> None:
    name = _write(tmp_path / "x.parquet", _examples())
    with pytest.raises(InputError, match="memory"):
        read_files([name], memory="much")


def _bad(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", "label,prediction\n", "header but no rows"),
        ("x.csv", "a,b\n1,2\n", "no column of labels"),
        ("x.csv", "label,other\n1,2\n", "neither predictions, probabilities nor losses"),
        ("x.csv", "label,prediction\n1,2\n1,2,3\n", "line 3 has 3 values, but the header has 2"),
        ("x.csv", "label,prediction,x\n1,2,3\n1,2\n", "line 3 has 2 values, but the header has 3"),
        ("x.csv", "label,prediction\n1,2\n,2\n", "row 2 of x.csv has no label"),
        ("x.csv", "label,prediction\n1,2\n3,\n", "row 2 of x.csv has no prediction"),
        ("x.csv", "label,loss\n1,2\n3,nan\n", "row 2 of x.csv has nan in the column 'loss'"),
        ("x.csv", "label,loss\n1,inf\n3,2\n", "row 1 of x.csv has inf in the column 'loss'"),
        ("x.csv", "label,loss\n1,2\n3,\n", "row 2 of x.csv has no value in the column 'loss'"),
        ("x.csv", "label,loss\n1,high\n", "'high'"),
        ("x.csv", "label,label\n1,2\n", "more than one column named 'label'"),
        ("x.csv", "label,\n1,2\n", "unnamed column"),
        ("x.csv", "label,loss\n1.5,2\n", "whole numbers or text"),
        ("x.csv", 'label,prediction\n"1,2\n', "never closed"),
        ("x.csv", b"\x89PNG\r\n\x1a\n\0\0\0", "binary"),
        ("x.csv", b"PAR1\0\0", "named .csv but holds parquet"),
        ("x.csv", b"label,prediction\n\xff,1\n", "UTF-8"),
        ("x.parquet", "label,prediction\n1,2\n", "does not begin as such a file does"),
        ("x.parquet", b"PAR1 and then nothing", "cannot read x.parquet"),
        ("x.npz", b"PK\x03\x04 and then nothing", "cannot read x.npz"),
        ("x.npy", b"\x93NUMPY and then nothing", "cannot read x.npy"),
        ("x.jsonl", '{"label": 1, "prediction": 2}\n{"label"', "cannot read x.jsonl"),
        ("x.jsonl", '{"label": 1, "prediction": 2}\n{"label": 1}\n', "row 2 of x.jsonl has no prediction"),
        ("x.csv", "label,prob_0,prob_1\n0,0.5,0.5\n1,0.3,0.4\n", r"row 2 of x.csv sum to 0.7, off by 0.3"),
        ("x.csv", "label,prob_0,prob_1\n0,1.5,-0.5\n", "row 1 of x.csv has a negative probability"),
        ("x.csv", "label,prob_0,prob_1\n0,nan,1\n", "row 1 of x.csv has a probability that is not a finite"),
        ("x.csv", "label,prob_0,prob_1\n0,,1\n", "row 1 of x.csv has a probability missing"),
        ("x.csv", "label,prob_0,prob_1\n2,0.5,0.5\n", "has the label 2, which is not among the classes 0, 1"),
        ("x.csv", "id,label,prediction\na,0,0\na,1,1\n", r"duplicate ids in the column 'id', such as 'a' \(2 times\)"),
        ("x.csv", "id,label,prediction\na,0,0\n,1,1\n", "row 2 of x.csv has no id"),
    ],
)
def test_bad_files_are_named_in_one_sentence(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_files([_bad(tmp_path, name, content)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("argument", ["nothing.csv", "no/such/*.csv", "/dev/zero", "name=", "a\0b", "x" * 5000])
def test_arguments_that_are_no_file(argument: str) -> None:
    with pytest.raises(InputError):
        read_files([argument])


def test_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no file of a known kind"):
        read_files([str(tmp_path)])


def test_files_of_a_folder_must_have_the_same_columns(tmp_path: Path) -> None:
    _bad(tmp_path, "a.csv", "label,prediction\n0,0\n")
    _bad(tmp_path, "b.csv", "label,guess\n0,0\n")
    with pytest.raises(InputError, match=r"b\.csv has no column 'prediction', which a\.csv has"):
        read_files([str(tmp_path)])


def test_renormalise(tmp_path: Path) -> None:
    name = _bad(tmp_path, "x.csv", "label,prob_0,prob_1\n0,0.2,0.2\n1,3,1\n")
    found = read_files([name], Options(metric="log-loss", renormalise=True)).statistics[0]
    assert found.means[:, 0] == pytest.approx([np.log(2), np.log(4)])


def test_classes_known_beforehand(tmp_path: Path) -> None:
    name = _bad(tmp_path, "x.csv", "label,prediction\na,a\nb,c\n")
    with pytest.raises(InputError, match=r"row 2 of x\.csv has the label 'b', which is not among the classes a, c"):
        read_files([name], Options(classes=("a", "c")))
    with pytest.raises(InputError, match=r"row 2 of x\.csv has the prediction 'c', which is not among"):
        read_files([name], Options(classes=("a", "b")))
    assert read_files([name], Options(classes=("a", "b", "c"))).statistics[0].classes == ("a", "b", "c")


def test_ids_that_differ_between_files(tmp_path: Path) -> None:
    first = _bad(tmp_path, "a.csv", "id,label,prediction\nx,0,0\ny,1,1\n")
    for rows, message in (
        ("x,0,0\nz,1,1\n", "ids differ"),
        ("x,0,0\n", "ids differ"),
        ("x,0,0\ny,0,1\n", "different labels"),
    ):
        second = _bad(tmp_path, "b.csv", "id,label,prediction\n" + rows)
        with pytest.raises(InputError, match=message):
            read_files([first, second])


def test_two_models_of_one_name(tmp_path: Path) -> None:
    name = _write(tmp_path / "x.csv", _examples())
    with pytest.raises(InputError, match="two models"):
        read_files([name, name])
    shutil.copy(name, tmp_path / "a=b.csv")
    assert read_files([str(tmp_path / "a=b.csv")]).models == ("a=b",)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    name = _bad(tmp_path, "x.csv", "\ufefflabel,prediction\n0,1\n")
    assert read_files([name]).statistics[0].count.tolist() == [1]


def test_csv_text_is_kept_as_python_reads_it(tmp_path: Path) -> None:
    columns = _examples(text=True)
    name = _write(tmp_path / "x.csv", columns)
    rows = list(csv.DictReader(io.StringIO(Path(name).read_text(encoding="utf-8"))))
    assert set(read_files([name]).statistics[0].classes) == {row["label"] for row in rows}
