"""The runs of a folder: what each is, and how it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from advshift.errors import InputError
from advshift.training.folder import RunFolder

__all__ = ["RunInfo", "list_runs"]


class RunInfo(NamedTuple):
    """One run. `status` is finished, running, interrupted, failed, or crashed: a run whose process is gone.

    `last` is the row of the last epoch, `measured` that of the last epoch in which a split was measured.
    """

    path: Path
    name: str
    status: str
    epoch: int
    epochs: int
    last: dict[str, Any] | None
    record: dict[str, Any]
    measured: dict[str, Any] | None = None


def list_runs(root: str | Path) -> list[RunInfo]:
    """Find all run folders below a folder, in the order of their names."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"there is no folder {str(root)!r}; name the one that holds the runs")
    return [_look(RunFolder(path.parent)) for path in sorted(root.rglob("run.json"))]


def _look(folder: RunFolder) -> RunInfo:
    try:
        return _described(folder, folder.read_record(), folder.read_metrics())
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, InputError) else f"what the run's files say does not fit ({error!r})"
        return RunInfo(folder.path, folder.path.name, "unreadable", 0, 0, None, {"reason": reason})


def _described(folder: RunFolder, record: dict[str, Any], rows: list[dict[str, Any]]) -> RunInfo:
    status = str(record.get("status", "unknown"))
    if status == "running" and not folder.in_use():
        status = "crashed"
    last = rows[-1] if rows else None
    epoch = int(last["epoch"]) if last else 0
    measured = next((row for row in reversed(rows) if "test" in row or "validation" in row), None)
    return RunInfo(folder.path, str(record["name"]), status, epoch, int(record["epochs"]), last, record, measured)
