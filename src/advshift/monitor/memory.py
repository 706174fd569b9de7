"""Arrays as text, to the last bit, and the file in which a monitor survives the end of its process."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from advshift.errors import InputError
from advshift.files import write_atomically

__all__ = ["STATE", "pack", "read_state", "unpack", "write_state"]

STATE = "advshift.monitor.state/1"


def pack(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Write arrays as text.

    >>> unpack(pack({"a": np.array([0.1, np.nan])}))["a"]
    array([0.1, nan])
    """
    return {
        name: {
            "type": np.asarray(array).dtype.str,
            "shape": list(np.shape(array)),
            "bytes": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        }
        for name, array in arrays.items()
    }


def unpack(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `pack` wrote."""
    return {
        name: np.frombuffer(base64.b64decode(one["bytes"]), dtype=one["type"]).reshape(one["shape"]).copy()
        for name, one in packed.items()
    }


def write_state(path: str | Path, state: Mapping[str, Any]) -> None:
    """Save a state, whole or not at all."""
    write_atomically(path, json.dumps({"schema": STATE, **state}, allow_nan=False) + "\n")


def read_state(path: str | Path) -> dict[str, Any] | None:
    """Read a state; None where there is none yet."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the state {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("schema") != STATE:
        raise InputError(
            f"{str(path)!r} is not a state that this version of advshift monitor saved; name another file, or delete "
            "it to begin anew"
        )
    return found
