"""CIFAR-10 and CIFAR-100 in the layouts that people have: the Python version or the binary one, archive or folder."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8

from advshift.data.downloads import Download, fetch, shown
from advshift.data.options import DataOptions
from advshift.data.types import MemorySplit, Source
from advshift.data.unpickling import load_plain
from advshift.errors import InputError

__all__ = ["Edition", "read_cifar10", "read_cifar100"]

PIXELS = 3 * 32 * 32


class Edition(NamedTuple):
    """What differs between the two sets."""

    title: str
    classes: int
    folder: str  # of the Python version
    binary_folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str
    label_key: str
    names_key: str
    names_file: str
    label_bytes: int  # before each image of the binary version; the last of them is the class
    download: Download


CIFAR10 = Edition(
    "CIFAR-10",
    10,
    "cifar-10-batches-py",
    "cifar-10-batches-bin",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    ("test_batch",),
    "batches.meta",
    "labels",
    "label_names",
    "batches.meta.txt",
    1,
    Download("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
)
CIFAR100 = Edition(
    "CIFAR-100",
    100,
    "cifar-100-python",
    "cifar-100-binary",
    ("train",),
    ("test",),
    "meta",
    "fine_labels",
    "fine_label_names",
    "fine_label_names.txt",
    2,
    Download("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
)


def read_cifar10(options: DataOptions, folder: Path) -> Source:
    """Read CIFAR-10: 10 classes of 5,000 training and 1,000 test images."""
    return _read(CIFAR10, options, folder)


def read_cifar100(options: DataOptions, folder: Path) -> Source:
    """Read CIFAR-100: 100 classes of 500 training and 100 test images."""
    return _read(CIFAR100, options, folder)


@runtime_checkable
class _Files(Protocol):
    """The files of one version, wherever they lie."""

    binary: bool

    def read(self, name: str) -> bytes: ...


def _read(edition: Edition, options: DataOptions, folder: Path) -> Source:
    if options.download:
        _download(edition, folder)
    with _found(edition, folder) as files:
        names = _class_names(edition, files)
        parts: dict[str, MemorySplit] = {}
        first = 0
        for part, members in (("train", edition.train), ("test", edition.test)):
            chunks = [_examples(edition, files, member) for member in members]
            images, labels = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
            ids = torch.arange(first, first + len(labels))
            first += len(labels)
            parts[part] = MemorySplit(_as_pixels(images), torch.from_numpy(labels), ids)
    return Source(dict(parts), names)


def _as_pixels(images: UInt8[np.ndarray, "examples bytes"]) -> torch.Tensor:
    """Planes of colours become pixels of three bytes."""
    return torch.from_numpy(images).view(-1, 3, 32, 32).permute(0, 2, 3, 1).contiguous()


def _examples(
    edition: Edition, files: _Files, member: str
) -> tuple[UInt8[np.ndarray, "examples bytes"], Int[np.ndarray, " examples"]]:
    raw = files.read(member)
    images, labels = _from_binary(edition, raw, member) if files.binary else _from_pickle(edition, raw, member)
    if len(labels) == 0 or not 0 <= labels.min() <= labels.max() < edition.classes:
        raise InputError(
            f"{member!r} of {edition.title} must hold labels from 0 to {edition.classes - 1}; fetch it again"
        )
    return images, labels


def _from_pickle(edition: Edition, raw: bytes, member: str) -> tuple[np.ndarray, np.ndarray]:
    record = load_plain(raw, member)
    images = _entry(record, "data", member)
    labels = _whole_numbers(_entry(record, edition.label_key, member))
    shape, kind = getattr(images, "shape", None), getattr(images, "dtype", None)
    if kind != np.uint8 or shape != (labels.size, PIXELS) or labels.dtype.kind not in "iu":
        raise InputError(
            f"{member!r} of {edition.title} must hold {PIXELS} bytes and a whole number per image; fetch it again"
        )
    return images, labels.astype(np.int64)


def _whole_numbers(value: Any) -> np.ndarray:
    """A list of numbers or an array as an array; whatever else a pickle held becomes one that fits nowhere."""
    flat = isinstance(value, list) and all(isinstance(item, (int, np.integer)) for item in value)
    return np.asarray(value) if flat or isinstance(value, np.ndarray) else np.asarray("no numbers")


def _from_binary(edition: Edition, raw: bytes, member: str) -> tuple[np.ndarray, np.ndarray]:
    row = edition.label_bytes + PIXELS
    if len(raw) % row:
        raise InputError(f"{member!r} of {edition.title} has {len(raw)} bytes, no multiple of {row}; fetch it again")
    table = np.frombuffer(raw, np.uint8).reshape(-1, row)
    return table[:, edition.label_bytes :].copy(), table[:, edition.label_bytes - 1].astype(np.int64)


def _class_names(edition: Edition, files: _Files) -> tuple[str, ...]:
    if files.binary:
        names = files.read(edition.names_file).decode("utf-8", "replace").split()
    else:
        found = _entry(load_plain(files.read(edition.meta), edition.meta), edition.names_key, edition.meta)
        listed = found if isinstance(found, list) else []
        names = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in listed]
    if len(names) != edition.classes:
        raise InputError(
            f"{edition.title} has {edition.classes} class names; its files hold {len(names)}; fetch it again"
        )
    return tuple(names)


def _entry(record: Any, key: str, member: str) -> Any:
    """Look a key up that Python 2 wrote as bytes and Python 3 may have written as text."""
    if isinstance(record, dict):
        for name in (key, key.encode()):
            if name in record:
                return record[name]
    raise InputError(f"{member!r} holds no {key!r}; it is not a file of this set")


@contextmanager
def _found(edition: Edition, folder: Path) -> Iterator[_Files]:
    """Open the set at a path."""
    place = _place(edition, folder)
    if place is None:
        raise InputError(
            f"there is no {edition.title} at {str(folder)!r}: expected {edition.folder}/{edition.meta}, "
            f"{edition.binary_folder}/{edition.names_file} or {_archive_name(edition)}; set data.path or "
            "ADVSHIFT_DATA, or download it with data.download=true"
        )
    if place.is_dir():
        yield _Folder(place, not (place / edition.meta).is_file())
        return
    with _opened(place) as archive:
        yield _Archive(archive, edition, str(place))


def _place(edition: Edition, folder: Path) -> Path | None:
    """Find the set at a path: its folder, the folder above it, or an archive of it."""
    for name, sign in ((edition.folder, edition.meta), (edition.binary_folder, edition.names_file)):
        for place in (folder, folder / name):
            if (place / sign).is_file():
                return place
    if folder.is_file():
        return folder
    title = edition.title.lower()
    stems = (edition.folder, edition.binary_folder, f"{title}-python", f"{title}-binary")
    return next((path for stem in stems if (path := folder / f"{stem}.tar.gz").is_file()), None)


def _download(edition: Edition, folder: Path) -> None:
    """Fetch the archive of the Python version, if the set is not there."""
    if _place(edition, folder) is None:
        target = folder if folder.name.endswith(".tar.gz") else folder / _archive_name(edition)
        with shown(edition.title) as report:
            fetch(edition.download, target, report)


def _archive_name(edition: Edition) -> str:
    return f"{edition.title.lower()}-python.tar.gz"


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path) as archive:
            yield archive
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise InputError(f"cannot read the archive {str(path)!r} ({reason}); fetch it again") from None


class _Folder:
    def __init__(self, path: Path, binary: bool) -> None:
        self.path, self.binary = path, binary

    def read(self, name: str) -> bytes:
        path = self.path / (f"{name}.bin" if self.binary and not name.endswith(".txt") else name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {str(path)!r}: {error.strerror}; fetch the set again") from None


class _Archive:
    def __init__(self, archive: tarfile.TarFile, edition: Edition, name: str) -> None:
        self.archive, self.name = archive, name
        paths = {Path(member.name): member for member in archive if member.isfile()}
        homes = {path.parent for path in paths if path.name in (edition.meta, edition.names_file)}
        # An archive may hold both versions, or other sets beside this one: only one folder of it counts.
        home = min(homes, key=lambda folder: ((folder / edition.meta) not in paths, str(folder)), default=Path())
        self.members = {path.name: member for path, member in paths.items() if path.parent == home}
        self.binary = edition.meta not in self.members and edition.names_file in self.members

    def read(self, name: str) -> bytes:
        wanted = f"{name}.bin" if self.binary and not name.endswith(".txt") else name
        member = self.members.get(wanted)
        file = None if member is None else self.archive.extractfile(member)
        if file is None:
            raise InputError(f"the archive {self.name!r} holds no {wanted!r}; fetch it again")
        return file.read()
