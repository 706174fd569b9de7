"""A reader of pickles that can build arrays, byte strings, text, numbers, tuples, lists and dicts, and nothing else.

A pickle is a program. Its instructions are told apart by the standard library's `pickletools`, which follows none of
them; here a few are followed, and all others refused. What a pickle names is never looked up: the names choose among
builders of ours. No instruction takes more room than it has bytes, whatever size it claims.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from advshift.errors import InputError

__all__ = ["load_plain"]

MOST = 100  # characters of a file's own that an error repeats


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
        return _Reader().read(data)
    except InputError as error:
        raise InputError(f"cannot read {name!r}: {error}") from None
    except Exception as error:
        # A damaged pickle makes the reader stumble over what it likes: ValueError, IndexError, KeyError, TypeError, ...
        reason = f"{type(error).__name__}: {_shown(error)}"
        raise InputError(f"cannot read {name!r}: it is no whole pickle of arrays ({reason}); fetch it again") from None


def _shown(words: object) -> str:
    """Words of the file, without line breaks and signs that a terminal would obey."""
    text = ascii(str(words))[1:-1]
    return text if len(text) <= MOST else f"{text[:MOST]}…"


class _Dtype:
    """The description of a number or fixed text; its state may set the order of the bytes and nothing else."""

    def __init__(self, code: Any, *_: Any) -> None:
        found = np.dtype(code.decode("ascii") if isinstance(code, bytes) else str(code))
        if found.kind not in "biufcSU" or found.subdtype is not None:
            raise InputError(f"it holds an array of {_shown(found)}, which is not read")
        self.found = found

    def set_state(self, state: Any) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if any(part is not None for part in state[2:5]) or order not in ("<", ">", "|", "="):
            raise InputError("it holds an array of records, which is not read")
        if order != "|":
            self.found = np.dtype(f"{order}{self.found.str[1:]}")


def _fill(array: np.ndarray, state: Any) -> None:
    """Give an array its content; NumPy checks that the bytes are as many as the shape says."""
    version, shape, dtype, is_fortran, raw = state
    if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
        raise InputError("it holds an array whose content is no bytes")
    array.__setstate__((version, shape, dtype.found, is_fortran, raw))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """What protocol 2 of Python 3 asks for to build byte strings."""
    if encoding not in ("latin1", "latin-1"):
        raise InputError(f"it encodes text as {_shown(encoding)!r}, which no array needs")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """What the same asks for to build an empty one; it must not name a length."""
    return b""


def _reconstruct(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """An empty array, to be filled by its state."""
    return np.zeros(0, np.int8)


def _from_buffer(buffer: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    """What protocol 5 asks for."""
    return np.frombuffer(buffer, dtype.found).reshape(shape, order="F" if order == "F" else "C")


def _scalar(dtype: _Dtype, value: bytes) -> Any:
    return np.frombuffer(value, dtype.found)[0]


def _refuse(*_: Any) -> Any:
    raise InputError("it calls for an array that it does not describe")


class _Builder:
    """What stands on the stack where a pickle names a function."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build


_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_BUILDERS = {
    **{(module, "_reconstruct"): _Builder(_reconstruct) for module in _MODULES},
    **{(module, "_frombuffer"): _Builder(_from_buffer) for module in _MODULES},
    **{(module, "scalar"): _Builder(_scalar) for module in _MODULES},
    **{(module, "bytes"): _Builder(_no_bytes) for module in ("__builtin__", "builtins")},
    ("numpy", "ndarray"): _Builder(_refuse),  # only ever handed to `_reconstruct`
    ("numpy", "dtype"): _Builder(_Dtype),
    ("_codecs", "encode"): _Builder(_encode),
}

_MARK = object()
_CONSTANTS: Mapping[str, Any] = {"MARK": _MARK, "NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING")  # Python 2's, which are bytes
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_TEXTS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_ARGUMENTS = {*_NUMBERS, *_TEXTS, "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_LABELS = {"PROTO", "FRAME", "STOP"}  # which build nothing


class _Reader:
    """A stack, and a memory of what has been built."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def read(self, data: bytes) -> Any:
        """Follow the instructions up to the last one."""
        for instruction, argument, _ in pickletools.genops(data):
            name = instruction.name
            if name in _ARGUMENTS:
                self.stack.append(argument)
            elif name in _STRINGS:
                self.stack.append(str(argument).encode("latin1"))
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _TUPLES:
                self.stack.append(tuple(self._pops(_TUPLES[name])))
            elif name not in _LABELS:
                self._follow(name, argument)
        return self._pop()

    def _follow(self, name: str, argument: Any) -> None:
        if name not in _METHODS:
            raise InputError(f"it uses the instruction {name}; only arrays, byte strings, lists and dicts are read")
        _METHODS[name](self, argument)

    def _pop(self) -> Any:
        (value,) = self._pops(1)
        return value

    def _pops(self, number: int) -> list[Any]:
        """Take the last values off the stack."""
        values = self.stack[-number:]
        if len(values) < number or any(value is _MARK for value in values):
            raise ValueError("a value is missing")
        del self.stack[-number:]
        return values

    def _top(self, kind: type | tuple[type, ...] = object) -> Any:
        """The last value, which stays."""
        if self.stack[-1] is _MARK or not isinstance(self.stack[-1], kind):
            raise ValueError("a value is of another kind")
        return self.stack[-1]

    def _since_mark(self) -> list[Any]:
        """Take the values off the stack that were put there since the last mark."""
        values: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _set(self, items: list[Any]) -> None:
        """Put keys and values in turns into the dict on the stack."""
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                raise InputError("it holds a dict with a key that is neither text nor a number, which is not read")
            target[key] = value

    def _extend(self, values: list[Any]) -> None:
        self._top(list).extend(values)

    def _put(self, key: int) -> None:
        self.memory[key] = self._top()

    def _name(self, module: str, name: str) -> None:
        """Answer with a builder of ours; the names in the file choose among them, and reach nothing else."""
        if (module, name) not in _BUILDERS:
            raise InputError(
                f"it asks for {_shown(f'{module}.{name}')}; only arrays, byte strings, lists and dicts are read"
            )
        self.stack.append(_BUILDERS[module, name])

    def _reduce(self) -> None:
        builder, values = self._pops(2)
        if not isinstance(builder, _Builder) or not isinstance(values, tuple):
            raise InputError("it calls what is no function")
        self.stack.append(builder.build(*values))

    def _build(self) -> None:
        state = self._pop()
        target = self._top((_Dtype, np.ndarray))
        if isinstance(target, _Dtype):
            target.set_state(state)
        else:
            _fill(target, state)

    def _dict(self) -> None:
        items = self._since_mark()
        self.stack.append({})
        self._set(items)


_METHODS: Mapping[str, Callable[[_Reader, Any], None]] = {
    "EMPTY_LIST": lambda reader, _: reader.stack.append([]),
    "EMPTY_DICT": lambda reader, _: reader.stack.append({}),
    "LIST": lambda reader, _: reader.stack.append(reader._since_mark()),
    "DICT": lambda reader, _: reader._dict(),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader._since_mark())),
    "APPEND": lambda reader, _: reader._extend(reader._pops(1)),
    "APPENDS": lambda reader, _: reader._extend(reader._since_mark()),
    "SETITEM": lambda reader, _: reader._set(reader._pops(2)),
    "SETITEMS": lambda reader, _: reader._set(reader._since_mark()),
    "MEMOIZE": lambda reader, _: reader._put(len(reader.memory)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda reader, key: reader._put(key)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda reader, key: reader.stack.append(reader.memory[key])),
    "GLOBAL": lambda reader, names: reader._name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader._name(*map(str, reader._pops(2))),
    "REDUCE": lambda reader, _: reader._reduce(),
    "BUILD": lambda reader, _: reader._build(),
}
