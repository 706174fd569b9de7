"""How bad a classifier can get when the class mix moves: statistics, inference and the audit's record.

The package is also the function: `advshift.audit(labels, predictions)` runs an audit (see `advshift.results.audit`),
while `from advshift.audit import ClassStatistics` imports from here.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advshift.audit.readers import Options, Wanted, read_arrays, read_files
    from advshift.audit.record import AuditRecord
    from advshift.audit.statistics import ClassStatistics

__all__ = ["AuditRecord", "ClassStatistics", "Options", "Wanted", "read_arrays", "read_files"]

_PUBLIC = {
    "AuditRecord": "record",
    "ClassStatistics": "statistics",
    "Options": "readers",
    "Wanted": "readers",
    "read_arrays": "readers",
    "read_files": "readers",
}


class _CallablePackage(ModuleType):
    """A module that can be called: importing a submodule binds its package in the parent, over any function there."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return importlib.import_module("advshift.results").audit(*arguments, **options)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


sys.modules[__name__].__class__ = _CallablePackage
