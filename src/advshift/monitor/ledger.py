"""What a watch leaves behind: the log, the state and the metrics, which agree with each other whenever it is killed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from advshift.errors import InputError
from advshift.files import check_writable, write_atomically
from advshift.monitor.memory import read_state, write_state
from advshift.monitor.prometheus import exposition

__all__ = ["Ledger"]

SAVED_EVERY = 1.0  # seconds


class Ledger:
    """The files of one watch.

    The log is appended to, and the state says how long it was: after a kill, what the log has beyond that is cut off
    and written again, the same. A state is saved before the first byte of its log, which would be
    nobody's without it; both wait for the first prediction, so that a mistaken command leaves nothing behind.

    Parameters
    ----------
    state, log, prometheus
        Where to write; None leaves one out.
    """

    def __init__(self, state: Path | None, log: Path | None, prometheus: Path | None) -> None:
        given = [path for path in (state, log, prometheus) if path is not None]
        for number, path in enumerate(given):
            check_writable(path)
            if path.resolve() in [one.resolve() for one in given[:number]] and str(path) != os.devnull:
                raise InputError(f"{str(path)!r} is named for two outputs; give each a file of its own")
        self._state, self._log, self._prometheus = state, log, prometheus
        self.saved = None if state is None else read_state(state)
        self._known = self.saved is not None and self.saved["log"] is not None
        self._length = int(self.saved["log"]) if self.saved is not None and self._known else 0
        self._file: Any = None
        self._saved_at = time.monotonic()
        self.header: dict[str, Any] = {}
        self.begun = False
        self._check_log()

    def _check_log(self) -> None:
        size = self._log.stat().st_size if self._log is not None and self._log.is_file() else 0
        if size and not self._known:
            raise InputError(
                f"the log {str(self._log)!r} exists already; give the --state that belongs to it, or another name"
            )
        if self._log is not None and size < self._length:
            raise InputError(
                f"the log {str(self._log)!r} has {size} bytes, but the state {str(self._state)!r} knows of "
                f"{self._length}; they do not belong together: put the log back, or delete the state to begin anew"
            )

    def check_same(self, identity: dict[str, Any]) -> None:
        """Raise unless the saved watch was asked for the same."""
        if self.saved is None:
            return
        before, now = self.saved["identity"], json.loads(json.dumps(identity))
        differing = _difference(before, now)
        if differing is not None:
            name, old, new = differing
            raise InputError(
                f"the state {str(self._state)!r} belongs to another watch: {name} was {old}, and is {new}; name "
                "another file, or delete it to begin anew"
            )

    def begin(self) -> None:
        """Open the log where the state left it; a new one begins with the header."""
        self.begun = True
        if self._log is None or str(self._log) == os.devnull:
            return
        self._file = self._log.open("r+b" if self._log.is_file() else "wb")
        self._file.truncate(self._length)
        self._file.seek(self._length)
        if not self._length:
            self._append(self.header)

    def report(self, report: dict[str, Any]) -> None:
        """Append a report to the log, and replace the metrics."""
        if self._file is not None:
            self._append(report)
            self._file.flush()
        if self._prometheus is not None:
            write_atomically(self._prometheus, exposition(self.header, report))

    def _append(self, record: dict[str, Any]) -> None:
        data = (json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n").encode()
        self._file.write(data)
        self._length += len(data)

    def due(self) -> bool:
        """Whether the state was last saved a while ago."""
        return self._state is not None and time.monotonic() - self._saved_at >= SAVED_EVERY

    def save(self, content: dict[str, Any]) -> None:
        """Save the state, once what it says of the log is on the disk."""
        if self._state is None:
            return
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        write_state(self._state, content | {"log": None if self._log is None else self._length})
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()


def _difference(before: Any, now: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first thing that differs, by its name."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in now:
            found = _difference(before.get(key), now[key], key)
            if found is not None:
                return found
        return None
    return None if before == now else (name.replace("_", " "), _short(before), _short(now))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
