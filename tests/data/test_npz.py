"""Arrays in an NPZ file: usual names, layouts of images, labels of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from advshift.data import DataOptions, DataSet, load_data
from advshift.errors import InputError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def _load(tmp_path: Path, arrays: dict[str, Any], **options: Any) -> DataSet:
    path = tmp_path / "set.npz"
    np.savez_compressed(path, **arrays)
    return load_data(DataOptions(**({"name": "npz", "path": str(path), "validation": 0.0} | options)))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (("x_train", "y_train"), ("x_test", "y_test")),
        (("X_train", "y_train"), ("X_test", "y_test")),
        (("train_images", "train_labels"), ("test_images", "test_labels")),
        (("train_x", "train_y"), ("test_x", "test_y")),
        (("inputs", "labels"), ("inputs_test", "labels_test")),
        (("images", "labels"), None),
        (("data", "target"), None),
    ],
)
def test_usual_names(train: tuple[str, str], test: tuple[str, str] | None, tmp_path: Path) -> None:
    arrays = dict(zip(train, (PIXELS, LABELS), strict=True))
    if test:
        arrays |= dict(zip(test, (PIXELS[:2], LABELS[:2]), strict=True))
    data = _load(tmp_path, arrays)
    np.testing.assert_array_equal(data.train.inputs.numpy(), PIXELS)
    assert data.train.labels.tolist() == LABELS.tolist()
    assert data.class_names == ("0", "1", "2")
    assert (data.test is not None) == (test is not None)
    if data.test is not None:
        assert data.test.ids.tolist() == [6, 7]


def test_a_validation_part_and_columns_of_labels(tmp_path: Path) -> None:
    """As MedMNIST has it."""
    arrays = {}
    for part in ("train", "val", "test"):
        arrays |= {f"{part}_images": PIXELS[..., 0], f"{part}_labels": LABELS[:, None]}
    data = _load(tmp_path, arrays)
    assert data.shape == (1, 5, 4)
    assert data.validation is not None
    assert data.validation.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    "values",
    [PIXELS, PIXELS.transpose(0, 3, 1, 2), PIXELS / 255, PIXELS.astype(np.int64), PIXELS.astype(np.float32)],
)
def test_layouts_of_images(values: np.ndarray, tmp_path: Path) -> None:
    data = _load(tmp_path, {"x": values, "y": LABELS})
    np.testing.assert_array_equal(data.train.inputs.numpy(), PIXELS)
    assert data.shape == (3, 5, 4)


def test_features(tmp_path: Path) -> None:
    data = _load(tmp_path, {"x": PIXELS.reshape(6, -1), "y": LABELS})
    assert data.shape == (60,)
    assert data.train.inputs.dtype == torch.float32


@pytest.mark.parametrize(
    ("labels", "names", "codes"),
    [
        ([7, 3, 7, 3, 9, 9], ("3", "7", "9"), [1, 0, 1, 0, 2, 2]),
        ([2.0, 1.0, 2.0, 1.0, 2.0, 1.0], ("1", "2"), [1, 0, 1, 0, 1, 0]),
        (list("babaaa"), ("a", "b"), [1, 0, 1, 0, 0, 0]),
        ([True, False, True, False, True, True], ("0", "1"), [1, 0, 1, 0, 1, 1]),
        ([10, 9, 10, 9, 100, 100], ("9", "10", "100"), [1, 0, 1, 0, 2, 2]),
    ],
)
def test_labels_of_all_kinds(labels: list[Any], names: tuple[str, ...], codes: list[int], tmp_path: Path) -> None:
    data = _load(tmp_path, {"x": PIXELS, "y": np.array(labels)})
    assert data.class_names == names
    assert data.train.labels.tolist() == codes


def test_names_of_classes(tmp_path: Path) -> None:
    data = _load(tmp_path, {"x": PIXELS, "y": LABELS, "class_names": np.array(["eel", "cat", "dog"])})
    assert data.class_names == ("eel", "cat", "dog")
    with pytest.raises(InputError, match="labels that are none of the 2 classes"):
        _load(tmp_path, {"x": PIXELS, "y": LABELS, "class_names": np.array(["eel", "cat"])})


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"a": PIXELS}, "holds 'a'; expected inputs and labels, or x_train"),
        ({"x": PIXELS}, "has 'x' without labels; expected such as y_train"),
        ({"x": PIXELS, "y": LABELS[:5]}, "6 examples in 'x' and 5 labels in 'y'"),
        ({"x": PIXELS, "y": np.eye(6)}, "must be one per example; got the shape"),
        ({"x": PIXELS, "y": np.array([0, 1, 2, 0, 1, 0.5])}, "must be classes; got the number 0.5"),
        ({"x": PIXELS, "y": np.array([0, 1, np.nan, 0, 1, 1])}, "has no label in row 3"),
        ({"x": PIXELS, "y": LABELS, "x_test": PIXELS, "y_test": LABELS + 1}, "has a label '3' that the training part"),
        ({"x": PIXELS, "y": LABELS, "x_test": PIXELS[:, :2], "y_test": LABELS}, "inputs of another shape"),
        ({"x": PIXELS, "y": LABELS, "x_test": PIXELS, "y_test": np.array(list("abcabc"))}, "words in another"),
        ({"x": PIXELS * 2.0, "y": LABELS}, "pixels from 0 to 51"),
        ({"x": PIXELS - 0.5, "y": LABELS}, "pixels from -0.5"),
        ({"x": PIXELS.reshape(6, 5, 12), "y": np.array(["a", "b", "", "a", "b", "c"], object)}, "plain arrays"),
        ({"x": RNG.random((6, 8, 9, 10)), "y": LABELS}, "neither the second nor the last axis"),
        ({"x": np.full((6, 2), np.inf), "y": LABELS}, "not finite"),
        ({"x": np.array(list("abcabc")), "y": LABELS}, "must hold numbers"),
        ({"x": np.zeros(6), "y": LABELS}, "must be features"),
    ],
)
def test_what_does_not_fit(arrays: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=match) as caught:
        _load(tmp_path, arrays)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    options = DataOptions(name="npz", path=str(tmp_path / "set.npz"))
    with pytest.raises(InputError, match="there is no file"):
        load_data(options)
    for content in (b"", b"PK\x03\x04 nothing", b"\x93NUMPY"):
        (tmp_path / "set.npz").write_bytes(content)
        with pytest.raises(InputError, match="cannot read"):
            load_data(options)
    (tmp_path / "set.npz").write_text("a,b,label\n1,2,x\n")  # which NumPy takes for a pickle, and says how to trust it
    with pytest.raises(InputError, match="it is no NPZ file") as caught:
        load_data(options)
    assert "allow_pickle" not in str(caught.value)
