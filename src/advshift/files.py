"""Files are written whole or not at all: a reader never sees half of one, and a failure leaves the old one in place."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from advshift.errors import InputError

__all__ = ["check_writable", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file through a temporary one in the same folder, so that the name never points at a partial file.

    A symbolic link keeps pointing where it did. What is not a regular file (a terminal, a pipe, `/dev/null`) cannot be
    replaced and is written directly.

    Parameters
    ----------
    path
        The file to create or replace; its folder must exist.
    content
        Text is written as UTF-8 with the line ends that it has.
    """
    data = content.encode() if isinstance(content, str) else content
    target = _checked(path)
    if _is_special(target):
        target.write_bytes(data)
        return
    temporary = _temporary(target)
    try:
        _write_through(temporary, data)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an `InputError` if a file could not be written there: to be called before long work starts."""
    target = _checked(path)
    if not _is_special(target):
        _temporary(target).unlink()


def _checked(path: str | os.PathLike[str]) -> Path:
    """The file behind links, if a file may stand there."""
    target = _behind_links(path)
    if target.is_dir():
        raise InputError(f"cannot write {str(path)!r}: it is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: its folder does not exist; create {str(target.parent)!r} first")
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: the file is read-only; choose another name")
    return target


def _behind_links(path: str | os.PathLike[str]) -> Path:
    try:
        target = Path(path)
        if _is_special(target):
            return target  # what /dev/stdout leads to may have no name in any folder
        target = Path(os.path.realpath(path))
        with contextlib.suppress(FileNotFoundError):
            target.lstat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise InputError(f"cannot write {str(path)!r}: {reason}; choose another name") from None
    return target


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _temporary(target: Path) -> Path:
    """Create an empty file beside the target, with the permissions that a new file gets."""
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise InputError(f"cannot write in {str(target.parent)!r}: {error.strerror}; choose another folder") from None
    return temporary


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the new name survive a power cut; not every file system lets a folder be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
