"""Pickles: every protocol is read, nothing is executed, nothing of ours can be changed."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advshift.data import unpickling
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
    """`BUILD` sets attributes of what a pickle got hold of; ours have none that can be set."""
    for state in (b"}U\x06_buildNs", b"N}U\x06_buildNs\x86"):
        raw = b"\x80\x02" + _global("_codecs", "encode") + state + b"b."
        with pytest.raises(InputError):
            load_plain(raw, "batch")
    assert load_plain(pickle.dumps(b"abc", protocol=2), "batch") == b"abc"
    assert not hasattr(unpickling._Builder, "__dict__") or "_build" in unpickling._Builder.__slots__


@pytest.mark.parametrize(
    "value",
    [
        np.array([{"a": 1}], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        {1, 2},
        object(),
        slice(1),
    ],
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="cannot read 'batch'"):
        load_plain(pickle.dumps({"data": value}, protocol=2), "batch")


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
