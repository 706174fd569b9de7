"""A reader of pickles that can build arrays, byte strings, text, numbers, lists and dicts, and nothing else."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from advshift.errors import InputError

__all__ = ["load_plain"]


def load_plain(data: bytes, name: str) -> Any:
    """Read a pickle without executing anything that it asks for.

    Parameters
    ----------
    data
        Any protocol, Python 2's with byte strings and old NumPy names as well.
    name
        What it is called in the error.
    """
    try:
        return _Plain(io.BytesIO(data), encoding="bytes").load()
    except InputError as error:
        raise InputError(f"cannot read {name!r}: {error}") from None
    except Exception as error:
        # A damaged pickle raises what it likes: EOFError, UnpicklingError, ValueError, KeyError, MemoryError, ...
        raise InputError(
            f"cannot read {name!r}: it is no whole pickle of arrays ({type(error).__name__}: {error}); fetch it again"
        ) from None


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """What protocol 2 of Python 3 asks for to build byte strings."""
    if encoding not in ("latin1", "latin-1"):
        raise InputError(f"it encodes text as {encoding!r}, which no array needs")
    return text.encode("latin1")


def _reconstruct(kind: type, shape: tuple[int, ...], code: bytes) -> np.ndarray:
    """An empty array, to be filled by its state."""
    return np.ndarray.__new__(np.ndarray, (0,), np.int8)


def _from_buffer(buffer: Any, dtype: np.dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    """What protocol 5 asks for."""
    return np.frombuffer(buffer, _plain_dtype(dtype)).reshape(shape, order=order if order in ("C", "F") else "C")


def _scalar(dtype: np.dtype, value: bytes) -> Any:
    return np.frombuffer(value, _plain_dtype(dtype))[0]


def _plain_dtype(dtype: Any, *_: Any) -> np.dtype:
    """A type of numbers or fixed text; one of objects could hold anything."""
    found = np.dtype(dtype.decode("ascii") if isinstance(dtype, bytes) else dtype)
    if found.hasobject:
        raise InputError("it holds an array of objects, which is not read")
    return found


_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_BUILDERS: dict[str, Callable[..., Any]] = {
    "_reconstruct": _reconstruct,
    "_frombuffer": _from_buffer,
    "scalar": _scalar,
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Answer with our own builders; the names in the file choose among them, and reach nothing else."""
        if module in _MODULES and name in _BUILDERS:
            return _BUILDERS[name]
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise InputError(f"it asks for {module}.{name}; only arrays, byte strings, lists and dicts are read")
