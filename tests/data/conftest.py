"""Small sets in the layouts that people have."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PIXELS = 3 * 32 * 32


def python2_pickle(keys: dict[str, Any]) -> bytes:
    """A dict as Python 2 wrote it with protocol 2: byte strings and NumPy's old names, opcode by opcode."""

    def text(value: bytes) -> bytes:
        return (b"U" + bytes([len(value)]) if len(value) < 256 else b"T" + len(value).to_bytes(4, "little")) + value

    def number(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    def array(value: np.ndarray) -> bytes:
        assert value.dtype == np.uint8
        empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        shape = number(value.shape[0]) + number(value.shape[1]) + b"\x86"
        dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + number(-1) + number(-1) + b"K\x00tb"
        return empty + b"(K\x01" + shape + dtype + b"\x89" + text(value.tobytes()) + b"tb"

    def encode(value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return array(value)
        if isinstance(value, list):
            return b"](" + b"".join(map(encode, value)) + b"e"
        return text(value.encode()) if isinstance(value, str) else number(value)

    items = b"".join(text(key.encode()) + encode(value) for key, value in keys.items())
    return b"\x80\x02}(" + items + b"u."


def newer_pickle(keys: dict[str, Any]) -> bytes:
    return pickle.dumps(keys, protocol=5)


def make_cifar(classes: int, each: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """Random pictures, `each` of every class, in a mixed order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(classes * each) % classes)
    return rng.integers(0, 256, (classes * each, PIXELS), dtype=np.uint8), labels.tolist()


@pytest.fixture
def cifar10() -> dict[str, tuple[np.ndarray, list[int]]]:
    members = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    return {member: make_cifar(10, 2, seed) for seed, member in enumerate(members)}


@pytest.fixture
def cifar100() -> dict[str, tuple[np.ndarray, list[int]]]:
    return {"train": make_cifar(100, 3, 0), "test": make_cifar(100, 1, 1)}


Members = dict[str, bytes]


@pytest.fixture
def cifar10_python(cifar10: dict[str, tuple[np.ndarray, list[int]]]) -> Members:
    files = {name: python2_pickle({"data": x, "labels": y}) for name, (x, y) in cifar10.items()}
    return files | {"batches.meta": python2_pickle({"label_names": [f"kind{i}" for i in range(10)]})}


@pytest.fixture
def cifar10_binary(cifar10: dict[str, tuple[np.ndarray, list[int]]]) -> Members:
    files = {
        f"{name}.bin": np.concatenate((np.array(y, np.uint8)[:, None], x), axis=1).tobytes()
        for name, (x, y) in cifar10.items()
    }
    return files | {"batches.meta.txt": "".join(f"kind{i}\n" for i in range(10)).encode()}


@pytest.fixture
def cifar100_python(cifar100: dict[str, tuple[np.ndarray, list[int]]]) -> Members:
    files = {name: newer_pickle({"data": x, "fine_labels": y}) for name, (x, y) in cifar100.items()}
    return files | {"meta": newer_pickle({"fine_label_names": [f"kind{i}" for i in range(100)]})}


@pytest.fixture
def cifar100_binary(cifar100: dict[str, tuple[np.ndarray, list[int]]]) -> Members:
    files = {}
    for name, (x, y) in cifar100.items():
        coarse = np.zeros((len(y), 1), np.uint8)
        files[f"{name}.bin"] = np.concatenate((coarse, np.array(y, np.uint8)[:, None], x), axis=1).tobytes()
    return files | {"fine_label_names.txt": "".join(f"kind{i}\n" for i in range(100)).encode()}


@pytest.fixture
def write_folder() -> Callable[[Path, Members], Path]:
    def write(folder: Path, members: Members) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in members.items():
            (folder / name).write_bytes(content)
        return folder

    return write


@pytest.fixture
def write_archive() -> Callable[[Path, dict[str, Members]], Path]:
    def write(path: Path, folders: dict[str, Members]) -> Path:
        with tarfile.open(path, "w:gz") as archive:
            for folder, members in folders.items():
                for name, content in members.items():
                    info = tarfile.TarInfo(f"{folder}/{name}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path

    return write


@pytest.fixture(name="python2_pickle")
def _python2_pickle() -> Callable[[dict[str, Any]], bytes]:
    return python2_pickle
