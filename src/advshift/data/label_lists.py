"""The lists that come with image sets: which class a flat folder's images are of, and what classes are called."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advshift.errors import InputError

__all__ = ["class_titles", "listed_classes"]

TITLES = ("words.txt", "LOC_synset_mapping.txt")
LISTS = (
    "val_annotations.txt",  # Tiny ImageNet: name, class, box
    "LOC_val_solution.csv",  # ImageNet at Kaggle: name, class and box
    "val.txt",  # name and number of the class in the order of the names
    "val_map.txt",
    "ground_truth.txt",
    "imagenet_2012_validation_synset_labels.txt",  # a class for each image in the order of their names
    "ILSVRC2012_validation_ground_truth.txt",  # the development kit's own numbers, which meta.mat explains
)
KITS = ("", "ILSVRC2012_devkit_t12/data", "devkit/data", "data")


def class_titles(folder: Path, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """What the classes are called in words, where a list beside them knows all of them; each name once."""
    for name in TITLES:
        path = folder / name
        if path.is_file():
            lines = (line.replace("\t", " ", 1).partition(" ") for line in _lines(path))
            words = {kind: title.split(",")[0].strip() for kind, _, title in lines}
            if all(words.get(kind) for kind in kinds):
                uses = Counter(words[kind] for kind in kinds)
                return tuple(words[kind] if uses[words[kind]] == 1 else f"{words[kind]} ({kind})" for kind in kinds)
    return kinds


def listed_classes(folder: Path, place: Path, names: Sequence[str], kinds: tuple[str, ...]) -> list[str] | None:
    """The class of each image of a flat folder by the list that lies beside it, or nothing where there is none.

    Parameters
    ----------
    folder
        The set's own folder.
    place
        The folder of the images.
    names
        The images' file names.
    kinds
        The names of the classes, in order.
    """
    homes = [place, place.parent, *(folder / kit for kit in KITS)]
    for home in homes:
        for name in LISTS:
            if (home / name).is_file():
                return _classes(home / name, names, kinds)
    return None


def _classes(path: Path, names: Sequence[str], kinds: tuple[str, ...]) -> list[str]:
    rows = [row for row in map(_fields, _lines(path)) if row and row[0] != "ImageId"]
    if rows and all(len(row) == 1 for row in rows):
        if len(rows) != len(names):
            raise InputError(f"{str(path)!r} lists {len(rows)} labels for {len(names)} images")
        order = sorted(range(len(names)), key=lambda place: names[place])
        labels = [""] * len(names)
        numbers = _kit_numbers(path) if all(row[0].isdigit() for row in rows) else None
        for place, row in zip(order, rows, strict=True):
            labels[place] = row[0] if numbers is None else numbers.get(int(row[0]), row[0])
    else:
        found = {Path(row[0]).stem: row[1] for row in rows if len(row) > 1}
        missing = next((name for name in names if Path(name).stem not in found), None)
        if missing is not None:
            raise InputError(f"{str(path)!r} does not list the image {missing!r}; add it, or take the image away")
        labels = [_kind(found[Path(name).stem], kinds) for name in names]
    known = set(kinds)
    for label in labels:
        if label not in known:
            raise InputError(f"{str(path)!r} has a label {label!r} that is no class of the training part")
    return labels


def _fields(line: str) -> list[str]:
    """The words of a line, which tabs, commas or spaces part."""
    return next(csv.reader([line]))[0:2] if "," in line and "\t" not in line else line.split()


def _kind(label: str, kinds: tuple[str, ...]) -> str:
    """A class by its name or by its number in the order of the names; a box may follow the name."""
    word = label.split()[0] if label.split() else ""
    if word in kinds or not word.isdigit() or int(word) >= len(kinds):
        return word
    return kinds[int(word)]


def _kit_numbers(path: Path) -> dict[int, str]:
    """The class of each number of ImageNet's development kit."""
    table = path.parent / "meta.mat"
    if not table.is_file():
        raise InputError(
            f"{str(path)!r} holds the development kit's numbers, which only its meta.mat explains; put that beside it"
        )
    from scipy.io import loadmat

    try:
        synsets: Any = loadmat(str(table), squeeze_me=True)["synsets"]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except Exception as error:
        raise InputError(f"cannot read {str(table)!r} ({error}); fetch the development kit again") from None


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
