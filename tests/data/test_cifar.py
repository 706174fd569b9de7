"""CIFAR in every layout that people have gives the same images, and a damaged one gives one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from advshift.data import DataOptions, DataSet, load_data
from advshift.errors import InputError

Members = dict[str, bytes]
FOLDERS = {
    ("cifar10", "python"): "cifar-10-batches-py",
    ("cifar10", "binary"): "cifar-10-batches-bin",
    ("cifar100", "python"): "cifar-100-python",
    ("cifar100", "binary"): "cifar-100-binary",
}
ARCHIVES = {
    ("cifar10", "python"): "cifar-10-python.tar.gz",
    ("cifar10", "binary"): "cifar-10-binary.tar.gz",
    ("cifar100", "python"): "cifar-100-python.tar.gz",
    ("cifar100", "binary"): "cifar-100-binary.tar.gz",
}


def _load(name: str, path: Path) -> DataSet:
    return load_data(DataOptions(name=name, path=str(path), validation=0.0))


def _members(request: pytest.FixtureRequest, name: str, version: str) -> Members:
    members: Members = request.getfixturevalue(f"{name}_{version}")
    return members


@pytest.mark.parametrize("place", ["folder", "above", "archive", "archive folder"])
@pytest.mark.parametrize(("name", "version"), list(FOLDERS))
def test_every_layout(
    name: str,
    version: str,
    place: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    write_folder: Callable[[Path, Members], Path],
    write_archive: Callable[[Path, dict[str, Members]], Path],
) -> None:
    members, folder = _members(request, name, version), FOLDERS[name, version]
    if "archive" in place:
        path = write_archive(tmp_path / ARCHIVES[name, version], {folder: members})
    else:
        path = write_folder(tmp_path / folder, members)
    data = _load(name, path if place in ("folder", "archive") else tmp_path)
    truth = request.getfixturevalue(name)
    train = [content for member, content in truth.items() if member not in ("test", "test_batch")]
    images = np.concatenate([x for x, _ in train])
    assert data.class_names == tuple(f"kind{index}" for index in range(len(data.class_names)))
    assert data.train.labels.tolist() == [label for _, labels in train for label in labels]
    assert data.shape == (3, 32, 32)
    # Red comes first, then green, then blue; each plane goes by rows.
    pixels = data.train.inputs.numpy()
    assert pixels[1, 5, 7].tolist() == [images[1, plane * 1024 + 5 * 32 + 7] for plane in range(3)]
    np.testing.assert_array_equal(pixels.transpose(0, 3, 1, 2).reshape(len(images), -1), images)
    assert data.test is not None
    assert set(data.test.ids.tolist()).isdisjoint(data.train.ids.tolist())


def test_an_archive_may_hold_other_sets(
    cifar10_python: Members,
    cifar10_binary: Members,
    cifar100_python: Members,
    tmp_path: Path,
    write_archive: Callable[[Path, dict[str, Members]], Path],
) -> None:
    """Members of one base name lie in several folders."""
    other = {name: b"nothing" for name in cifar10_python if name != "batches.meta"}
    folders = {"cifar-10-batches-py": cifar10_python, "copy": other, "bin": cifar10_binary, "c100": cifar100_python}
    path = write_archive(tmp_path / "all.tar.gz", folders)
    assert len(_load("cifar10", path).train) == 100
    assert len(_load("cifar100", path).train) == 300


def test_the_two_versions_have_one_fingerprint(
    cifar100_python: Members, cifar100_binary: Members, tmp_path: Path, write_folder: Callable[[Path, Members], Path]
) -> None:
    python = write_folder(tmp_path / "a" / "cifar-100-python", cifar100_python)
    binary = write_folder(tmp_path / "b" / "cifar-100-binary", cifar100_binary)
    assert _load("cifar100", python).fingerprint == _load("cifar100", binary).fingerprint


def test_nothing_there_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no CIFAR-10 at .*data\.download=true"):
        _load("cifar10", tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_archive(
    share: float, cifar10_python: Members, tmp_path: Path, write_archive: Callable[[Path, dict[str, Members]], Path]
) -> None:
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", {"cifar-10-batches-py": cifar10_python})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match="fetch it again") as caught:
        _load("cifar10", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.47, 0.99])
@pytest.mark.parametrize("version", ["python", "binary"])
def test_a_truncated_file(
    share: float,
    version: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    write_folder: Callable[[Path, Members], Path],
) -> None:
    members = _members(request, "cifar10", version)
    name = "data_batch_3" if version == "python" else "data_batch_3.bin"
    members[name] = members[name][: int(share * len(members[name]))]
    with pytest.raises(InputError, match="data_batch_3"):
        _load("cifar10", write_folder(tmp_path / FOLDERS["cifar10", version], members))


def test_a_missing_file(
    cifar10_python: Members,
    tmp_path: Path,
    write_folder: Callable[[Path, Members], Path],
    write_archive: Callable[[Path, dict[str, Members]], Path],
) -> None:
    del cifar10_python["data_batch_2"]
    with pytest.raises(InputError, match="data_batch_2"):
        _load("cifar10", write_folder(tmp_path / "cifar-10-batches-py", cifar10_python))
    with pytest.raises(InputError, match="holds no 'data_batch_2'"):
        _load("cifar10", write_archive(tmp_path / "x.tar.gz", {"cifar-10-batches-py": cifar10_python}))


def _folded(depth: int) -> Any:
    """A small list whose elements, counted through, are more than any memory holds."""
    value: Any = 0
    for _ in range(depth):
        value = [value, value]
    return value


FOLDED = _folded(60)


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"data": np.zeros((2, 3072), np.uint8)}, "holds no 'labels'"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 10]}, "labels from 0 to 9"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, -1]}, "labels from 0 to 9"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "3072 bytes"),
        ({"data": np.zeros((2, 3071), np.uint8), "labels": [0, 1]}, "3072 bytes"),
        ({"data": np.zeros((2, 3072)), "labels": [0, 1]}, "3072 bytes"),
        ({"data": [[1], [2, 3]], "labels": [0, 1]}, "3072 bytes"),
        ({"data": FOLDED, "labels": [0, 1]}, "3072 bytes"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": FOLDED}, "3072 bytes"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": ["a", "b"]}, "3072 bytes"),
        ([1, 2], "holds no 'data'"),
    ],
)
def test_a_pickle_of_something_else(
    record: object, match: str, cifar10_python: Members, tmp_path: Path, write_folder: Callable[[Path, Members], Path]
) -> None:
    import pickle

    cifar10_python["data_batch_1"] = pickle.dumps(record)
    with pytest.raises(InputError, match=match):
        _load("cifar10", write_folder(tmp_path / "cifar-10-batches-py", cifar10_python))


def test_the_fingerprint_sees_one_pixel(
    cifar10_binary: Members, tmp_path: Path, write_folder: Callable[[Path, Members], Path]
) -> None:
    before = _load("cifar10", write_folder(tmp_path / "cifar-10-batches-bin", cifar10_binary)).fingerprint
    changed = bytearray(cifar10_binary["data_batch_1.bin"])
    changed[100] ^= 1
    cifar10_binary["data_batch_1.bin"] = bytes(changed)
    assert _load("cifar10", write_folder(tmp_path / "cifar-10-batches-bin", cifar10_binary)).fingerprint != before


def test_moments_are_those_of_the_training_part(
    cifar100_python: Members, tmp_path: Path, write_folder: Callable[[Path, Members], Path]
) -> None:
    path = write_folder(tmp_path / "cifar-100-python", cifar100_python)
    data = load_data(DataOptions(name="cifar100", path=str(path), validation=0.3))
    pixels = data.train.inputs.numpy().reshape(-1, 3) / 255
    torch.testing.assert_close(data.mean, torch.tensor(pixels.mean(0)).float())
    torch.testing.assert_close(data.std, torch.tensor(pixels.std(0)).float())
