"""A reader of pickles that can build arrays, byte strings, text, numbers, lists and dicts, and nothing else.

What a pickle names is never looked up: the names choose among builders of ours, which can neither be changed by the
pickle nor hand anything out but plain arrays.
"""

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


class _Builder:
    """A function that a pickle may call, and cannot change: without slots, `BUILD` could set its attributes."""

    __slots__ = ("_build",)
    _build: Callable[..., Any]

    def __init__(self, build: Callable[..., Any]) -> None:
        object.__setattr__(self, "_build", build)

    def __call__(self, *values: Any) -> Any:
        return self._build(*values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise InputError("it tries to change a function")

    def __setstate__(self, state: Any) -> None:
        raise InputError("it tries to change a function")


class _Dtype:
    """The description of a number or fixed text; its state may set the order of the bytes and nothing else."""

    __slots__ = ("found",)

    def __init__(self, code: Any) -> None:
        found = np.dtype(code.decode("ascii") if isinstance(code, bytes) else str(code))
        if found.kind not in "biufcSU" or found.subdtype is not None:
            raise InputError(f"it holds an array of {found}, which is not read")
        self.found = found

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if any(part is not None for part in state[2:5]) or order not in ("<", ">", "|", "="):
            raise InputError("it holds an array of records, which is not read")
        if order != "|":
            self.found = np.dtype(f"{order}{self.found.str[1:]}")


class _Array(np.ndarray):
    """An array that takes its content from a state whose type of numbers has been checked."""

    def __setstate__(self, state: Any) -> None:
        version, shape, dtype, is_fortran, raw = state
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise InputError("it holds an array whose content is no bytes")
        super().__setstate__((version, shape, dtype.found, is_fortran, raw))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """What protocol 2 of Python 3 asks for to build byte strings."""
    if encoding not in ("latin1", "latin-1"):
        raise InputError(f"it encodes text as {encoding!r}, which no array needs")
    return text.encode("latin1")


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    """An empty array, to be filled by its state."""
    return np.zeros(0, np.int8).view(_Array)


def _from_buffer(buffer: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    """What protocol 5 asks for."""
    return np.frombuffer(buffer, dtype.found).reshape(shape, order="F" if order == "F" else "C")


def _scalar(dtype: _Dtype, value: bytes) -> Any:
    return np.frombuffer(value, dtype.found)[0]


def _refuse(*_: Any) -> Any:
    raise InputError("it calls for an array that it does not describe")


_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_BUILDERS = {
    **{(module, "_reconstruct"): _Builder(_reconstruct) for module in _MODULES},
    **{(module, "_frombuffer"): _Builder(_from_buffer) for module in _MODULES},
    **{(module, "scalar"): _Builder(_scalar) for module in _MODULES},
    ("numpy", "ndarray"): _Builder(_refuse),  # only ever handed to `_reconstruct`
    ("numpy", "dtype"): _Builder(lambda code, *_: _Dtype(code)),
    ("_codecs", "encode"): _Builder(_encode),
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Answer with our own builders; the names in the file choose among them, and reach nothing else."""
        try:
            return _BUILDERS[module, name]
        except KeyError:
            raise InputError(
                f"it asks for {module}.{name}; only arrays, byte strings, lists and dicts are read"
            ) from None
