"""Pickles: every protocol is read, nothing is executed, nothing of ours can be changed."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advshift
from advshift.data.unpickling import load_plain
from advshift.errors import InputError

RECORD = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "labels": [3, 1, 2],
    "floats": np.array([[0.5, -1.0]], order="F"),
    "big-endian": np.arange(3, dtype=">i4"),
    "one": np.int64(7),
    "names": ["a", "ü"],
    "raw": b"\x00\xff",
    "nested": {"x": (1, None, True, 2.5)},
}


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_gives_the_same(protocol: int) -> None:
    found = load_plain(pickle.dumps(RECORD, protocol=protocol), "record")
    assert found.keys() == RECORD.keys()
    for key, value in RECORD.items():
        np.testing.assert_array_equal(found[key], value)
    assert found["floats"].dtype == np.float64
    assert found["big-endian"].tolist() == [0, 1, 2]


def test_python_2_pickles_have_keys_of_bytes(python2_pickle: Callable[[dict[str, Any]], bytes]) -> None:
    pixels = np.arange(600, dtype=np.uint8).reshape(3, 200)
    raw = python2_pickle({"data": pixels, "labels": [0, 300, 2]})
    assert pickle.loads(raw, encoding="bytes")[b"labels"] == [0, 300, 2]  # what NumPy itself makes of it
    found = load_plain(raw, "batch")
    np.testing.assert_array_equal(found[b"data"], pixels)
    assert found[b"labels"] == [0, 300, 2]


class _Calls:
    def __init__(self, function: Any, *values: Any) -> None:
        self.call = (function, values)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("function", [os.system, subprocess.check_output, eval, exec, getattr, __import__, open])
def test_a_hostile_pickle_executes_nothing(function: Any, protocol: int, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    word = f"touch {witness}" if function is not open else str(witness)
    raw = pickle.dumps({"data": _Calls(function, word)}, protocol=protocol)
    with pytest.raises(InputError, match="it asks for") as caught:
        load_plain(raw, "batch")
    assert "\n" not in str(caught.value)
    assert not witness.exists()


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numpy", "load"),
        ("numpy", "memmap"),
        ("numpy.core.multiarray", "fromfile"),
        ("builtins", "dict"),
        ("os", "name"),
    ],
)
def test_names_outside_of_the_list_are_refused(module: str, name: str) -> None:
    with pytest.raises(InputError, match=f"it asks for {module}.{name}"):
        load_plain(b"\x80\x02" + _global(module, name) + b".", "batch")


def test_protocol_4_cannot_walk_through_attributes() -> None:
    raw = b"\x80\x04\x8c\x05numpy\x8c\x0efromnumeric.os\x93."
    with pytest.raises(InputError, match="it asks for"):
        load_plain(raw, "batch")


def test_builders_cannot_be_changed() -> None:
    """`BUILD` sets attributes of what a pickle got hold of; ours does not."""
    for state in (b"}U\x05buildNs", b"N}U\x05buildNs\x86"):
        with pytest.raises(InputError):
            load_plain(b"\x80\x02" + _global("_codecs", "encode") + state + b"b.", "batch")
    assert load_plain(pickle.dumps(b"abc", protocol=2), "batch") == b"abc"


def test_empty_byte_strings_and_arrays_name_no_length() -> None:
    """Python 3 writes them for protocol 2 as a call of `bytes`, to which another pickle might hand a size."""
    empty = {"raw": b"", "data": np.zeros((0, 3), np.uint8)}
    found = load_plain(pickle.dumps(empty, protocol=2), "batch")
    assert found["raw"] == b""
    assert found["data"].shape == (0, 3)
    with pytest.raises(InputError, match="cannot read 'batch'"):
        load_plain(b"\x80\x02" + _global("__builtin__", "bytes") + b"J\xff\xff\xff\x7f\x85R.", "batch")


TUPLE_IN_TUPLE = b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s."
HUGE = {
    "a place of the memory": b"\x80\x02]r\x00\x00\x00\x7f.",
    "the same as text": b"]p2130706432\n.",
    "a byte string": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
    "a byte array": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc.",
    "a number": b"\x80\x02\x8b\xff\xff\xff\x7fabc.",
    "digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "a name": b"\x80\x02c" + b"a" * 1_000_000 + b"\nb\n.",
    "tuples in tuples as a key": TUPLE_IN_TUPLE,
}


def test_claims_of_size_take_neither_room_nor_the_process() -> None:
    """With the standard unpickler the first two take 16 GB, and the last one ends the process."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"
    code = f"{limited}\nfrom tests.data.test_unpickling import say_what_comes\nsay_what_comes()"
    root = Path(advshift.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{root}:{Path(__file__).parents[2]}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:2] == ["[]", "[]"]  # whose number is only a name
    assert all(line.startswith("cannot read 'batch'") and len(line) < 250 for line in said[2:])
    assert len(said) == len(HUGE)


def say_what_comes() -> None:
    for raw in HUGE.values():
        try:
            sys.stdout.write(f"{load_plain(raw, 'batch')}\n")
        except InputError as error:
            sys.stdout.write(f"{error}\n")


@pytest.mark.parametrize("raw", [b"cos\x1b[31m\nsystem\n.", b"Pabc\n.", b"\x80\x04\x8c\x03a\nb\x8c\x01c\x93."])
def test_what_a_file_says_cannot_speak_to_the_terminal(raw: bytes) -> None:
    with pytest.raises(InputError) as caught:
        load_plain(raw, "batch")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "value",
    [
        np.array([{"a": 1}], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        {1, 2},
        frozenset([1]),
        object(),
        slice(1),
        {(1, 2): 3},
    ],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_other_values_are_refused(value: Any, protocol: int) -> None:
    with pytest.raises(InputError, match="cannot read 'batch'"):
        load_plain(pickle.dumps({"data": value}, protocol=protocol), "batch")


def test_a_mark_is_no_value() -> None:
    for raw in (b"(.", b"](a.", b"}((u.", b"(q\x00.", b"(\x85."):
        with pytest.raises(InputError, match="cannot read 'batch'"):
            load_plain(b"\x80\x02" + raw, "batch")


def test_a_state_cannot_turn_numbers_into_pointers() -> None:
    """NumPy believes a type's state: flags and fields of it could make bytes of the file references to objects."""
    dtype = _global("numpy", "dtype") + b"(U\x02V8tR(K\x03U\x01|NNNK\x08K\x01K\x3ftb"
    array = _global("numpy.core.multiarray", "_reconstruct") + b"(" + _global("numpy", "ndarray") + b"(K\x00tU\x01btR"
    with pytest.raises(InputError, match="not read"):
        load_plain(b"\x80\x02" + array + b"(K\x01(K\x01t" + dtype + b"\x89U\x08" + b"A" * 8 + b"tb.", "batch")


def test_ndarray_itself_cannot_be_called() -> None:
    with pytest.raises(InputError, match="does not describe"):
        load_plain(b"\x80\x02" + _global("numpy", "ndarray") + b"(J\xff\xff\xff\x7ftR.", "batch")


@pytest.mark.parametrize("keep", [0, 1, 10, 100, -1, -2])
def test_a_truncated_pickle_is_one_sentence(keep: int) -> None:
    with pytest.raises(InputError, match="cannot read 'batch': it is no whole pickle") as caught:
        load_plain(pickle.dumps(RECORD, protocol=2)[:keep], "batch")
    assert "\n" not in str(caught.value)


def test_noise_is_an_input_error() -> None:
    rng = np.random.default_rng(0)
    whole = pickle.dumps(RECORD, protocol=4)
    for _ in range(300):
        noise = bytearray(whole)
        for place in rng.integers(0, len(noise), 3):
            noise[place] = rng.integers(256)
        with contextlib.suppress(InputError):  # any other exception fails the test
            load_plain(bytes(noise), "batch")
