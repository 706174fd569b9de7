"""Tar files in the WebDataset layout: `key.jpg` beside `key.cls` or `key.json`.

A plain tar file is a folder with another name: its headers say where each image begins. They are read once; then
images are read in any order, so that a shuffle is one of the whole set, and reading begins at any step.
"""

from __future__ import annotations

import itertools
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from advshift.data.images import SUFFIXES, need_pillow
from advshift.data.options import DataOptions
from advshift.data.parts import PARTS, encode, part_named
from advshift.data.pictures import Pictures
from advshift.data.streaming import Listing, image_parts
from advshift.data.types import Source
from advshift.data.workers import mapped
from advshift.errors import InputError

__all__ = ["expand_braces", "read_shards"]

BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
LABELS = ("cls", "label", "class", "target", "y")
NAMES = ("classes.txt", "class_names.txt", "classnames.txt")


class Sample(NamedTuple):
    """An image of a shard: its key, its bytes' place, and its label."""

    key: str
    first: int
    length: int
    label: str


def read_shards(options: DataOptions, folder: Path) -> Source:
    """Read a folder of tar files, or those of a pattern such as `train-{000..099}.tar`."""
    need_pillow("the set 'shards'")
    shards = _by_part(_shards(folder), folder)
    files = [file for part in shards.values() for file in part]
    samples: dict[Path, list[Sample]] = {}
    for file, found in mapped(_Index(options.label), files, min(options.workers, len(files) - 1)):
        if isinstance(found, str):
            raise InputError(found)
        samples[file] = found
    whole = [sample for file in files for sample in samples[file]]
    labels = {
        part: _labels([sample.label for file in part_files for sample in samples[file]], folder)
        for part, part_files in shards.items()
    }
    codes, names = encode(labels, str(folder), _class_names(files[0].parent))
    pictures = _pictures(files, [len(samples[file]) for file in files], whole)
    listings: dict[str, Listing] = {}
    first = 0
    for part, values in codes.items():
        listings[part] = (torch.arange(first, first + len(values)), values)
        first += len(values)
    parts, notices = image_parts(pictures, listings, options)
    return Source(parts, names, tuple(notices))


def expand_braces(pattern: str) -> list[str]:
    """Write out every name of a pattern.

    >>> expand_braces("train-{08..10}.tar"), expand_braces("{a,b}{0..1}")
    (['train-08.tar', 'train-09.tar', 'train-10.tar'], ['a0', 'a1', 'b0', 'b1'])
    """
    pieces = BRACES.split(pattern)
    return ["".join(words) for words in itertools.product(*map(_alternatives, pieces, itertools.cycle((False, True))))]


def _alternatives(piece: str, inside: bool) -> list[str]:
    if not inside:
        return [piece]
    found = RANGE.fullmatch(piece)
    if found is None:
        return piece.split(",")
    low, high = found.groups()
    width = len(low) if low.startswith("0") or len(low) == len(high) else 0
    return [f"{number:0{width}}" for number in range(int(low), int(high) + 1)]


def _shards(place: Path) -> list[Path]:
    if place.is_dir():
        files = sorted(file for file in place.rglob("*.tar") if not file.name.startswith("."))
        if not files:
            raise InputError(
                f"there is no tar file in {str(place)!r}; set data.path to a folder of shards or a pattern"
            )
        return files
    files = [Path(name) for name in expand_braces(str(place))]
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        raise InputError(
            f"there is no file {str(missing[0] if missing else place)!r} ({len(missing)} of {len(files)} shards are "
            "missing); set data.path to a folder of tar files or a pattern such as train-{000..099}.tar"
        )
    return files


def _by_part(files: Sequence[Path], root: Path) -> dict[str, list[Path]]:
    """The parts by the first word of the files' names, else by their folders; without any, all are for training."""
    found: dict[str, list[Path]] = {}
    for file in files:
        word = re.match(r"[A-Za-z]*", file.name)
        part = part_named(word[0] if word else "") or (part_named(file.parent.name) if file.parent != root else None)
        found.setdefault(part or "", []).append(file)
    if "train" not in found:
        return {"train": list(files)}
    if "" in found:
        raise InputError(
            f"{str(found[''][0])!r} is of no part: its name begins with none of train, val and test, as others' do"
        )
    return {part: found[part] for part in PARTS if part in found}


class _Index:
    """Reads the headers and labels of a shard; a fault comes back as its sentence."""

    def __init__(self, label: str | None) -> None:
        self.label = label

    def __call__(self, path: Path) -> list[Sample] | str:
        try:
            with path.open("rb") as file:
                if file.read(2) == b"\x1f\x8b":
                    return (
                        f"the shard {str(path)!r} is compressed, so nothing in it can be found; unpack it with gunzip"
                    )
            with tarfile.open(path, "r:") as archive:
                samples = self._samples(archive, path)
                _check_end(archive)
            return samples
        except (tarfile.TarError, OSError, EOFError) as error:
            return f"cannot read the shard {str(path)!r} ({error}); fetch it again"
        except InputError as error:
            return str(error)

    def _samples(self, archive: tarfile.TarFile, path: Path) -> list[Sample]:
        found: list[Sample] = []
        members = ((*_key(member.name), member) for member in archive if member.isfile())
        for key, group in itertools.groupby(members, key=lambda entry: entry[0]):
            fields = {suffix: member for _, suffix, member in group}
            images = [member for suffix, member in fields.items() if f".{suffix}" in SUFFIXES]
            if not images:
                continue  # a text that belongs to the whole shard
            label = self._label(archive, fields, f"{str(path)!r}: {key!r}")
            found.append(Sample(key, images[0].offset_data, images[0].size, label))
        if not found:
            raise InputError(f"the shard {str(path)!r} holds no image; expected pairs such as 0001.jpg and 0001.cls")
        return found

    def _label(self, archive: tarfile.TarFile, fields: dict[str, tarfile.TarInfo], name: str) -> str:
        if self.label in (None, "cls") and "cls" in fields:
            return _content(archive, fields["cls"]).decode("utf-8", "replace").strip()
        if "json" in fields:
            return _from_json(_content(archive, fields["json"]), self.label, name)
        if self.label in fields:
            return _content(archive, fields[self.label]).decode("utf-8", "replace").strip()
        raise InputError(f"{name} has no label; expected a member called .cls or .json (it has: {', '.join(fields)})")


def _check_end(archive: tarfile.TarFile) -> None:
    """A tar file ends with blocks of zeros; without them it was cut off between two of its members."""
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
        raise tarfile.ReadError("its end is missing")


def _key(name: str) -> tuple[str, str]:
    """Up to the first dot of the base name, and what follows it."""
    folder, slash, base = name.rpartition("/")
    stem, _, suffix = base.partition(".")
    return folder + slash + stem, suffix.lower()


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _from_json(raw: bytes, wanted: str | None, name: str) -> str:
    try:
        record = json.loads(raw)
    except ValueError as error:
        raise InputError(f"{name} has a member .json that is no JSON ({error}); mend it") from None
    keys = LABELS if wanted is None else (wanted,)
    for key in keys:
        if isinstance(record, dict) and isinstance(record.get(key), (int, str)):
            return str(record[key])
    raise InputError(f"the .json of {name} has no label {' or '.join(map(repr, keys))}; set data.label to its key")


def _labels(words: Sequence[str], folder: Path) -> np.ndarray:
    """Whole numbers, if all of them are."""
    if not words:
        raise InputError(f"{str(folder)!r} has a part without examples")
    try:
        return np.array([int(word) for word in words])
    except ValueError:
        return np.array(words)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    for name in NAMES:
        if (folder / name).is_file():
            lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
    return None


def _pictures(files: Sequence[Path], counts: Sequence[int], samples: Sequence[Sample]) -> Pictures:
    return Pictures(
        "",
        np.array([str(file).encode() for file in files]),
        np.repeat(np.arange(len(files)), counts),
        np.array([sample.first for sample in samples]),
        np.array([sample.length for sample in samples]),
        np.array([sample.key.encode() for sample in samples]),
    )
