"""Encoded images by number: whole files of a folder, or parts of tar files."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from advshift.errors import InputError

__all__ = ["Pictures"]


@dataclass(frozen=True)
class Pictures:
    """Where each image lies.

    Names are kept in arrays: worker processes share their memory, which they would copy bit by bit if each name were a
    Python object with a count of references.

    Attributes
    ----------
    root
        The folder that the files' names start from.
    files
        The files' names, as bytes.
    file, first, length
        Of each image: its file, and the bytes of it.
    keys
        What each image is called within its file, or nothing where it is the whole of it.
    """

    root: str
    files: Shaped[np.ndarray, " files"]
    file: Int[np.ndarray, " images"]
    first: Int[np.ndarray, " images"]
    length: Int[np.ndarray, " images"]
    keys: Shaped[np.ndarray, " images"] | None = None

    @classmethod
    def of_files(cls, root: str, files: list[tuple[str, int]]) -> Pictures:
        """Make them from the files' names below a folder, and their sizes."""
        names = np.array([os.fsencode(name) for name, _ in files], dtype=np.bytes_)
        sizes = np.array([size for _, size in files], dtype=np.int64)
        return cls(root, names, np.arange(len(files)), np.zeros(len(files), np.int64), sizes)

    def __len__(self) -> int:
        return len(self.file)

    def name(self, index: int) -> str:
        """What an image is called."""
        path = self._path(index)
        return path if self.keys is None else f"{path}: {os.fsdecode(self.keys[index])}"

    def read(self, index: int) -> bytes:
        """The encoded bytes of an image."""
        path = self._path(index)
        try:
            with open(path, "rb") as file:  # noqa: PTH123 (this is called for every image)
                file.seek(int(self.first[index]))
                return file.read(int(self.length[index]))
        except OSError as error:
            raise InputError(f"cannot read {path!r}: {error.strerror}") from None

    def describe(self, rows: Int[np.ndarray, " some"]) -> bytes:
        """What these images are called and measure."""
        names: list[bytes] = (self.files[self.file[rows]] if self.keys is None else self.keys[rows]).tolist()
        sizes: bytes = self.length[rows].tobytes()
        return b"\0".join(names) + sizes

    def _path(self, index: int) -> str:
        return os.path.join(self.root, os.fsdecode(self.files[self.file[index]]))  # noqa: PTH118
