"""The kinds of values that a record holds, and how each stands in strict JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictInt,
    StrictStr,
    model_validator,
)

__all__ = ["Count", "Fraction", "Label", "Number", "Part", "Text", "Tree", "Unknown"]

ROUNDING = 1e-9  # by which a share may miss the interval from 0 to 1


def _read_number(value: Any) -> Any:
    """The spelling of infinity becomes infinity; a NaN is an unknown."""
    if value == "inf":
        return math.inf
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_number(value: float | None) -> float | str | None:
    return "inf" if value == math.inf else value


def _read_tree(value: Any) -> Any:
    """The same for a nest of lists and mappings of numbers and names."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _read_tree(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_read_tree(inner) for inner in value]
    return _read_number(value)


def _write_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _write_tree(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_write_tree(inner) for inner in value]
    return _write_number(value)


def _encodable(value: Any) -> Any:
    """A file name may hold bytes that are no text; they become question marks."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


_number = (BeforeValidator(_read_number), PlainSerializer(_write_number))
Number: TypeAlias = Annotated[float, Field(gt=-math.inf), *_number]
Unknown: TypeAlias = Annotated[Annotated[float, Field(gt=-math.inf)] | None, *_number]
Fraction: TypeAlias = Annotated[float, Field(ge=-ROUNDING, le=1.0 + ROUNDING)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Text: TypeAlias = Annotated[str, BeforeValidator(_encodable)]
Label: TypeAlias = StrictInt | Annotated[StrictStr, BeforeValidator(_encodable)]
Tree: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_read_tree), PlainSerializer(_write_tree)]


class Part(BaseModel):
    """A part of a record: frozen, skips the keys that it does not know, takes NumPy's numbers and arrays."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, values: Any) -> Any:
        """NumPy's numbers and arrays become Python's."""
        if not isinstance(values, Mapping):
            return values
        return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in values.items()}
