"""Which files an argument names, and of what kind they are: by their first bytes, then by their suffix."""

from __future__ import annotations

import codecs
import glob
import hashlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from advshift.errors import InputError

__all__ = ["KINDS", "Source", "checksum", "open_source"]

KINDS = ("csv", "tsv", "json lines", "parquet", "npz", "npy")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".npy": "npy",
}
MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", b"\x93NUMPY": "npy"}
BLOCK = 1 << 20
HEAD = 1 << 16


@dataclass(frozen=True)
class Source:
    """The files of one model, all of one kind. `name` is what the user wrote, `labels` the files' own names."""

    model: str
    name: str
    paths: tuple[Path, ...]
    labels: tuple[str, ...]
    kind: str


@contextmanager
def open_source(argument: str) -> Iterator[Source]:
    """Find the files that `FILE`, `NAME=FILE`, a folder, a pattern or `-` stands for.

    Standard input (and a pipe) is copied to a temporary file, since a reader may need to look at it twice; the file
    goes away at the end.
    """
    model, name = _split_name(argument)
    with _spooled(name) as spooled:
        if spooled is not None:
            yield Source(model or "stdin", name, (spooled,), (name,), kind_of(spooled, name))
            return
        paths = _expand(name)
        kinds = {kind_of(path, str(path)) for path in paths}
        if len(kinds) > 1:
            raise InputError(
                f"{name} holds files of several kinds ({', '.join(sorted(kinds))}); give one kind at a time"
            )
        labels = tuple(path.name for path in paths)
        yield Source(model or _model_name(name), name, paths, labels, kinds.pop())


def _split_name(argument: str) -> tuple[str | None, str]:
    """Split `NAME=FILE`, unless that is itself a file."""
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not name or not path:
        raise InputError(f"expected NAME=FILE; got {argument!r}")
    return name, path


def _model_name(name: str) -> str:
    """Name a model after its file or folder; a pattern keeps its own text."""
    path = Path(name)
    return path.stem.removesuffix(".csv") or path.resolve().name or name


@contextmanager
def _spooled(name: str) -> Iterator[Path | None]:
    """Copy what can be read only once to a temporary file; yield None for the rest."""
    if name != "-" and not _is_pipe(name):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="advshift-") as folder:
        copy = Path(folder) / "input"
        with copy.open("wb") as target:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, target, BLOCK)
            else:
                with Path(name).open("rb") as pipe:
                    shutil.copyfileobj(pipe, target, BLOCK)
        yield copy


def _is_pipe(name: str) -> bool:
    try:
        return stat.S_ISFIFO(Path(name).stat().st_mode)
    except (OSError, ValueError):
        return False


def _expand(name: str) -> tuple[Path, ...]:
    try:
        return _expand_path(name)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {name!r}: {reason}") from None


def _expand_path(name: str) -> tuple[Path, ...]:
    path = Path(name)
    if path.is_dir():
        found = sorted(child for child in path.rglob("*") if child.suffix.lower() in SUFFIXES and child.is_file())
        if not found:
            raise InputError(f"the folder {name!r} holds no file of a known kind ({', '.join(SUFFIXES)})")
        return tuple(found)
    if path.is_file():
        return (path,)
    if path.exists():
        raise InputError(f"{name!r} is neither a file nor a folder; give a file of predictions")
    if glob.has_magic(name):
        matches = map(Path, glob.glob(name, recursive=True))  # noqa: PTH207 - a pattern may begin at the root
        found = sorted(match for match in matches if match.is_file())
        if not found:
            raise InputError(f"no file matches the pattern {name!r}")
        return tuple(found)
    raise InputError(f"there is no file {name!r}; give a file, a folder, a pattern, or - for standard input")


def kind_of(path: Path, name: str) -> str:
    """Find the kind of a file, and refuse what is not what its suffix says."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise InputError(f"cannot read {name!r}: {error.strerror}") from None
    suffix = Path(name).suffix.lower()
    expected = SUFFIXES.get(suffix)
    if not head:
        raise InputError(f"{name!r} is empty; expected a table with a header and one row per example")
    found = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
    if found is not None and expected not in (None, found):
        raise InputError(f"{name!r} is named {suffix} but holds {found}; rename it, so that it is read as what it is")
    if found is None and expected in ("parquet", "npz", "npy"):
        raise InputError(f"{name!r} is named {suffix} but does not begin as such a file does; it may be damaged")
    return found or _kind_of_text(head, name, expected)


def _kind_of_text(head: bytes, name: str, expected: str | None) -> str:
    # A character may be cut at the end of what was read, hence "final" is only true for a short file.
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, len(head) < HEAD)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"{name!r} is not text in UTF-8 but binary; expected one of {', '.join(KINDS)}, named by its usual suffix"
        )
    if expected is not None:
        return expected
    first = text.lstrip().partition("\n")[0]
    if first.startswith("{"):
        return "json lines"
    return "tsv" if "\t" in first else "csv"


def checksum(paths: tuple[Path, ...]) -> str:
    """Compute the SHA-256 of a file, or of several files one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()
