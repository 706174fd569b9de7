"""The errors that users meet: each message says what was expected, what came and what to do."""

from __future__ import annotations

__all__ = ["AdvshiftError", "InputError", "Interrupted", "MissingDependencyError", "as_number", "require"]

import importlib
from numbers import Real
from types import ModuleType
from typing import Any


class AdvshiftError(Exception):
    """Base of every error that advshift raises on purpose."""


class InputError(AdvshiftError, ValueError):
    """The input does not fit; the message names the part, and what would."""


class Interrupted(AdvshiftError):  # noqa: N818 (as KeyboardInterrupt, it is no error)
    """Work was asked to stop, saved what it had, and stopped; the message says how to go on."""


class MissingDependencyError(AdvshiftError, ImportError):
    """An optional dependency is not installed; the message holds the command that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: run  pip install 'advshift[{extra}]'")


def as_number(value: Any) -> float:
    """A number as a float; for anything else nan, which lies in no range, so that the check of a range refuses it.

    >>> as_number(2), as_number("2")
    (2.0, nan)
    """
    return float(value) if isinstance(value, Real) else float("nan")


def require(module: str, feature: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.split(".")[0] == error.name.split(".")[0]:
            raise MissingDependencyError(feature, extra) from None
        raise
