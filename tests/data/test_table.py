"""Tables of features in CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from advshift.data import DataOptions, DataSet, load_data
from advshift.errors import InputError

FRAME = pd.DataFrame(
    {
        "height": [1.5, 2.0, 3.25, 4.0],
        "weight, kg": [10, 20, 30, 40],
        "alive": [True, False, True, True],
        "label": ["owl", "ant", "owl", "ant"],
    }
)


def _write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def _load(path: Path, **options: Any) -> DataSet:
    return load_data(DataOptions(**({"name": "table", "path": str(path), "validation": 0.0} | options)))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_every_kind_of_file(suffix: str, tmp_path: Path) -> None:
    frame = FRAME.drop(columns="alive") if suffix != "parquet" else FRAME
    data = _load(_write(frame, tmp_path / f"set.{suffix}"))
    expected = frame.drop(columns="label").astype(np.float32).to_numpy()
    np.testing.assert_array_equal(data.train.inputs.numpy(), expected)
    assert data.class_names == ("ant", "owl")
    assert data.train.labels.tolist() == [1, 0, 1, 0]
    assert data.shape == (expected.shape[1],)


def test_the_rows_of_a_large_file_keep_their_order(tmp_path: Path) -> None:
    numbers = np.arange(200_000)
    path = _write(pd.DataFrame({"x": numbers, "y": numbers % 7}), tmp_path / "set.parquet")
    data = _load(path)
    np.testing.assert_array_equal(data.train.inputs[:, 0].numpy(), numbers)
    np.testing.assert_array_equal(data.train.labels.numpy(), numbers % 7)


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = _write(FRAME.drop(columns="alive").assign(colour=list("abcd"), species=[3, 4, 3, 4]), tmp_path / "set.csv")
    data = _load(path, label="species", features=("weight, kg",))
    assert data.class_names == ("3", "4")
    assert data.train.inputs[:, 0].tolist() == [10, 20, 30, 40]


def test_ids_are_no_features(tmp_path: Path) -> None:
    data = _load(_write(FRAME.drop(columns="alive").assign(id=range(4)), tmp_path / "set.csv"))
    assert data.shape == (2,)
    assert data.notices == ["the column 'id' names examples and is no feature"]


@pytest.mark.parametrize("how", ["column", "folder"])
def test_parts(how: str, tmp_path: Path) -> None:
    frame = FRAME.drop(columns="alive")
    if how == "column":
        _write(frame.assign(split=["train", "train", "test", "train"]), tmp_path / "set.csv")
    else:
        _write(frame.iloc[[0, 1, 3]], tmp_path / "train.csv")
        _write(frame.iloc[[2]], tmp_path / "test.csv")
    data = _load(tmp_path)
    assert data.train.inputs[:, 0].tolist() == [1.5, 2.0, 4.0]
    assert data.test is not None
    assert data.test.inputs[:, 0].tolist() == [3.25]
    assert data.test.labels.tolist() == [1]


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({"height": [1.0, None, 3.0, None]}, {}, r"column 'height' .* 2 values .* first in row 2"),
        ({"height": [1.0, np.inf, 3.0, 4.0]}, {}, r"column 'height' .* 1 values that are missing or not finite"),
        ({"height": list("abcd")}, {}, r"column 'height' .* holds no numbers \(varchar\).*data\.features"),
        ({"label": ["a", None, "b", "b"]}, {}, "no label in row 2"),
        ({"label": [0.5, 1.0, 1.0, 2.0]}, {}, r"got the number 0\.5"),
        ({"class": [1, 2, 3, 4]}, {}, r"Set data\.label \(several could be it: label, class\)"),
        ({}, {"label": "lable"}, r"no column 'lable'; did you mean 'label'\?"),
        ({}, {"features": ("hight",)}, r"no feature 'hight'; did you mean 'height'\?"),
        ({"split": ["train", "test", "train", "extra"]}, {}, "row 4 .* is of the part 'extra'"),
        ({"split": ["test"] * 4}, {}, "no row .* is of the part 'train'"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_does_not_fit(
    change: dict[str, Any], options: dict[str, Any], match: str, suffix: str, tmp_path: Path
) -> None:
    path = _write(FRAME.drop(columns="alive").assign(**change), tmp_path / f"set.{suffix}")
    with pytest.raises(InputError, match=match) as caught:
        _load(path, **options)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file or folder .* CSV, TSV or Parquet"):
        _load(tmp_path / "set.csv")
    with pytest.raises(InputError, match="holds 0 files"):
        _load(tmp_path)
    (tmp_path / "set.xls").write_text("x")
    with pytest.raises(InputError, match="cannot tell the kind"):
        _load(tmp_path / "set.xls")
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="cannot read") as caught:
        _load(tmp_path / "a.parquet")
    assert "\n" not in str(caught.value)
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2\n")
    with pytest.raises(InputError, match="values, but the header has 2 columns"):
        _load(tmp_path / "a.csv")
    _write(pd.DataFrame({"label": [1, 2]}), tmp_path / "b.csv")
    with pytest.raises(InputError, match="no column of features"):
        _load(tmp_path / "b.csv")
    _write(pd.DataFrame({"a": [1, 2], "b": [1, 2]}), tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"which column of .* holds the labels\? Set data.label \(it has: a, b\)"):
        _load(tmp_path / "c.csv")


def test_parts_of_different_widths(tmp_path: Path) -> None:
    _write(pd.DataFrame({"a": [1, 2], "y": [1, 2]}), tmp_path / "train.csv")
    _write(pd.DataFrame({"a": [1, 2], "b": [1, 2], "y": [1, 2]}), tmp_path / "test.csv")
    with pytest.raises(InputError, match="has 2 features, the training part 1"):
        _load(tmp_path)
