"""Named classes: the one place where a name from a command line or a recipe becomes a method."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from advshift.errors import InputError

__all__ = ["Registry", "nearest"]

T = TypeVar("T")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a clause that points to the closest known name, or nothing when none is close.

    >>> nearest("kll", ["kl", "tv"])
    "; did you mean 'kl'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


class Registry(Mapping[str, type[T]], Generic[T]):
    """A read-only mapping from names to classes whose misses list what is known.

    Parameters
    ----------
    kind
        What the classes are, in words; it stands in the error message.
    classes
        The classes by name, in the order in which they are to be listed.
    """

    def __init__(self, kind: str, classes: Mapping[str, type[T]]) -> None:
        self.kind = kind
        self._classes = dict(classes)

    def __getitem__(self, name: str) -> type[T]:
        if not isinstance(name, str):
            raise InputError(f"the {self.kind} must be named by a word; got {name!r}")
        if name in self._classes:
            return self._classes[name]
        known = ", ".join(self._classes)
        raise InputError(f"unknown {self.kind} {name!r}{nearest(name, self._classes)} (known: {known})")

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)
