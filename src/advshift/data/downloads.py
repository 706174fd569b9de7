"""Fetching a file over the network: resumed where it broke off, checked by its sum, and never half there."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from advshift.errors import InputError

__all__ = ["Download", "fetch", "shown"]

BLOCK = 1 << 20
TRIES = 5
PAUSE = 1.0  # seconds before the second try; doubled before each further one
TIMEOUT = 30.0

Report = Callable[[int, int | None], None]


class Download(NamedTuple):
    """An address, and the MD5 that its publisher gives for it."""

    url: str
    md5: str


class _BrokenOffError(Exception):
    """The connection broke; what came is kept, and the rest can be asked for."""


def fetch(download: Download, target: Path, report: Report | None = None, pause: float = PAUSE) -> None:
    """Bring a file to its place, whole and checked.

    What has come lies beside the target, under its name and `.part`, until all of it is there: another call goes on
    from it.

    Parameters
    ----------
    download
        What to fetch.
    target
        Where it is put; folders on the way are made.
    report
        Called with the bytes that are there and how many there will be, if that is known.
    pause
        Seconds before the second try.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            if not target.exists():  # else another process has fetched it meanwhile
                _try_often(download, part, report or _silent, pause)
                _check(download, part)
                part.replace(target)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"cannot fetch {download.url} to {str(target)!r}: {reason}") from None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into a folder: those of a distributed run all ask for the same file."""
    try:
        import fcntl
    except ImportError:  # not on Unix
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def shown(title: str) -> Iterator[Report]:
    """Show how far a download is: a bar on a terminal, a line for every tenth elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title, console.print)
        return
    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda there, whole: progress.update(task, completed=there, total=whole)


class _Lines:
    """Say once for every tenth how much has come."""

    def __init__(self, title: str, say: Callable[[str], None]) -> None:
        self.title, self.say, self.tenth = title, say, -1

    def __call__(self, there: int, whole: int | None) -> None:
        tenth = 10 * there // whole if whole else 0
        if tenth > self.tenth:
            self.tenth = tenth
            self.say(f"{self.title}: {there / 1e6:,.1f} MB" + (f" of {whole / 1e6:,.1f} MB" if whole else ""))


def _silent(there: int, whole: int | None) -> None:
    pass


def _try_often(download: Download, part: Path, report: Report, pause: float) -> None:
    """Go on after each broken connection; only tries that brought nothing count."""
    fruitless = 0
    while True:
        before = _size(part)
        try:
            _go_on(download, part, report)
        except _BrokenOffError as error:
            fruitless = 0 if _size(part) > before else fruitless + 1
            if fruitless >= TRIES:
                raise InputError(
                    f"cannot fetch {download.url}: {error} ({TRIES} tries); {_size(part):,} bytes are kept, and "
                    "another call goes on from there"
                ) from None
            time.sleep(pause * 2**fruitless)
        else:
            return


def _go_on(download: Download, part: Path, report: Report) -> None:
    """Ask for what is missing, and add it."""
    there = _size(part)
    request = urllib.request.Request(download.url, headers={"User-Agent": "advshift"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            if there and answer.status != http.client.PARTIAL_CONTENT:
                there = 0  # a server that knows no ranges sends the whole
            elif there and not _begins_at(answer, there):
                part.unlink()
                raise _BrokenOffError("the server sent another part than the one asked for")
            _receive(answer, part, there, report)
    except urllib.error.HTTPError as error:
        _explain(error, download, part)
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _BrokenOffError(str(getattr(error, "reason", "") or error) or type(error).__name__) from None


def _begins_at(answer: http.client.HTTPResponse, there: int) -> bool:
    return (answer.headers.get("Content-Range") or "").startswith(f"bytes {there}-")


def _receive(answer: http.client.HTTPResponse, part: Path, there: int, report: Report) -> None:
    length = answer.headers.get("Content-Length", "")
    whole = there + int(length) if length.isdigit() else None
    with part.open("r+b" if there else "wb") as file:
        file.seek(there)
        while block := answer.read(BLOCK):
            file.write(block)
            there += len(block)
            report(there, whole)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    if whole is not None and there < whole:
        raise _BrokenOffError(f"the connection closed after {there:,} of {whole:,} bytes")


def _explain(error: urllib.error.HTTPError, download: Download, part: Path) -> None:
    """Sort the server's refusals into those that pass and those that do not."""
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
        return  # nothing is missing, or too much is there: the sum tells
    if error.code >= http.client.INTERNAL_SERVER_ERROR or error.code == http.client.TOO_MANY_REQUESTS:
        raise _BrokenOffError(f"the server answers {error.code} {error.reason}")
    raise InputError(
        f"cannot fetch {download.url}: the server answers {error.code} {error.reason}; fetch the file by other means "
        f"and put it in {str(part.parent)!r}"
    )


def _check(download: Download, part: Path) -> None:
    """Compare the sum; a file that fails is taken away, so that the next call begins anew."""
    digest = hashlib.md5(usedforsecurity=False)
    with part.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != download.md5:
        size = _size(part)
        part.unlink()
        raise InputError(
            f"what came from {download.url} ({size:,} bytes) is not the published file: its MD5 is "
            f"{digest.hexdigest()}, expected {download.md5}; it was taken away, try again or fetch it by other means"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
