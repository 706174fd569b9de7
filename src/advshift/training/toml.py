"""Writing TOML: the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["to_toml"]


def to_toml(tree: Mapping[str, Any]) -> str:
    """Write a tree of tables, lists and plain values; a value of None is left out.

    >>> print(to_toml({"name": "a", "training": {"epochs": 3, "precision": None}}))
    name = "a"
    <BLANKLINE>
    [training]
    epochs = 3
    <BLANKLINE>
    """
    return "\n".join(_table(tree, ())) + "\n"


def _table(tree: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in tree.items() if not isinstance(value, Mapping) and value is not None}
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    if path and (plain or not tables):
        yield "\n[" + ".".join(map(_key, path)) + "]"
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, table in tables.items():
        yield from _table(table, (*path, key))


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else _text(key)


def _text(text: str) -> str:
    """Quote as JSON does, which is TOML but for the delete character and pairs of surrogates."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(str(value))
