"""Image folders: one folder a class, whole or in parts, and ImageNet's and Tiny ImageNet's own layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from advshift.data.images import SUFFIXES, need_pillow
from advshift.data.label_lists import class_titles, listed_classes
from advshift.data.options import DataOptions
from advshift.data.parts import PARTS
from advshift.data.pictures import Pictures
from advshift.data.streaming import Listing, image_parts
from advshift.data.types import Source
from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["part_folders", "read_image_folder"]

KAGGLE = Path("ILSVRC") / "Data" / "CLS-LOC"  # where ImageNet's archive has its parts


class _Found(NamedTuple):
    """An image: its file below the root, its size in bytes, and the name of its class."""

    file: str
    size: int
    kind: str


def read_image_folder(options: DataOptions, folder: Path) -> Source:
    """Read a folder of images."""
    need_pillow("the set 'image-folder'")
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {str(folder)!r}; set data.path to a folder with one folder for each class"
        )
    root = folder / KAGGLE if (folder / KAGGLE).is_dir() else folder
    places = part_folders(root, options)
    kinds = _class_folders(places["train"])
    found = {"train": [image for kind in kinds for image in _images(root, places["train"] / kind, kind)]}
    if not found["train"]:
        raise InputError(
            f"there is no image in the class folders of {str(places['train'])!r} "
            f"({len(kinds)} folders; looked for {', '.join(sorted(SUFFIXES))})"
        )
    notices = []
    for part in ("validation", "test"):
        if part in places:
            images = _judged(part, root, folder, places[part], kinds)
            if images is None:
                notices.append(f"the folder {str(places[part])!r} has no labels and is left out")
            else:
                found[part] = images
    pictures, listings = _listed(root, found, kinds)
    parts, left_out = image_parts(pictures, listings, options)
    return Source(parts, class_titles(folder, kinds), (*notices, *left_out))


def part_folders(root: Path, options: DataOptions) -> dict[str, Path]:
    """Find the folders of the parts; without any, the whole is the training part."""
    places = {part: root / name for part, names in PARTS.items() for name in names if (root / name).is_dir()}
    if "train" not in places or not _subfolders(places["train"]):
        return {"train": root}
    if options.val_part == "test" and "validation" in places:
        # The folder called test, if any, is one whose labels nobody has.
        places["test"] = places.pop("validation")
    return places


def _subfolders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "__")))


def _class_folders(folder: Path) -> tuple[str, ...]:
    kinds = _subfolders(folder)
    if not kinds:
        raise InputError(f"there is no class folder in {str(folder)!r}; put the images of each class in one of its own")
    return tuple(kinds)


def _images(root: Path, folder: Path, kind: str) -> Iterator[_Found]:
    """All images below a folder, by name."""
    for place, folders, _ in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if _is_image(entry):
                    yield _Found(os.path.relpath(entry.path, root), entry.stat().st_size, kind)


def _is_image(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 (this is called for every file)
    return suffix in SUFFIXES and not entry.name.startswith(".") and entry.is_file()


def _judged(part: str, root: Path, folder: Path, place: Path, kinds: tuple[str, ...]) -> list[_Found] | None:
    """The images of a part that is not trained on: in class folders, or flat beside a list of labels."""
    subfolders = _subfolders(place)
    if set(subfolders) & set(kinds):
        return [image for kind in subfolders for image in _of_class(part, root, place / kind, kinds)]
    images = list(_images(root, place, ""))
    classes = listed_classes(folder, place, [Path(image.file).name for image in images], kinds)
    if classes is not None:
        return [image._replace(kind=kind) for image, kind in zip(images, classes, strict=True)]
    if part == "test":
        return None
    raise InputError(
        f"the images in {str(place)!r} have no labels: expected a folder for each class, or a list such as "
        "val_annotations.txt, LOC_val_solution.csv or val.txt beside them"
    )


def _of_class(part: str, root: Path, place: Path, kinds: tuple[str, ...]) -> Iterator[_Found]:
    found = list(_images(root, place, place.name))
    if found and place.name not in kinds:
        raise InputError(
            f"the {part} part has a class {place.name!r} that the training part has not{nearest(place.name, kinds)}"
        )
    yield from found


def _listed(root: Path, found: dict[str, list[_Found]], kinds: tuple[str, ...]) -> tuple[Pictures, dict[str, Listing]]:
    """Number the images through all parts."""
    index = {kind: place for place, kind in enumerate(kinds)}
    pictures = Pictures.of_files(str(root), [image[:2] for images in found.values() for image in images])
    listings: dict[str, Listing] = {}
    first = 0
    for part, images in found.items():
        labels = torch.tensor([index[image.kind] for image in images], dtype=torch.long)
        listings[part] = (torch.arange(first, first + len(images)), labels)
        first += len(images)
    return pictures, listings
