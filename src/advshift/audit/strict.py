"""Reading records from strict JSON: what is no record of its kind, or only a part of one, is said in a sentence."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from advshift.errors import InputError

__all__ = ["Kind"]

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Kind:
    """A kind of record, as its readers know it.

    Attributes
    ----------
    name
        What it is called.
    schema
        The name of its schema and the major version that is read.
    maker
        What saves one.
    """

    name: str
    schema: str
    maker: str

    def parse(self, model: type[R], text: str | bytes, source: str) -> R:
        """Make a record of a JSON text; `source` names the file in error messages."""
        tree = self._tree(text, source)
        self._check_schema(tree, source)
        try:
            return model.model_validate(tree)
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(str(step) for step in fault["loc"])
            said = f"{where}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
            raise InputError(f"{source} is not a whole {self.name}: {said}; {self._again}") from None

    def read(self, model: type[R], path: str | os.PathLike[str]) -> R:
        """Make a record of a file."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {str(path)!r}: {error.strerror}; {self._give}") from None
        return self.parse(model, data, repr(str(path)))

    @property
    def _again(self) -> str:
        return f"save it again with {self.maker}"

    @property
    def _give(self) -> str:
        return f"give a file that {self.maker} saved"

    def _tree(self, text: str | bytes, source: str) -> Any:
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise InputError(
                f"{source} is not JSON, or only a part of it ({error.msg}, {where}), so it is not an {self.name} in "
                f"strict JSON; {self._again}"
            ) from None
        except (UnicodeDecodeError, RecursionError, ValueError) as error:
            raise InputError(f"{source} is not an {self.name} in strict JSON ({error}); {self._again}") from None

    def _check_schema(self, tree: Any, source: str) -> None:
        name, _, major = self.schema.rpartition("/")
        found = tree.get("schema") if isinstance(tree, dict) else None
        match = re.fullmatch(rf"{re.escape(name)}/(\d+)(\.\d+)*", found) if isinstance(found, str) else None
        if match is None:
            raise InputError(
                f"{source} is not an {self.name}: expected the schema {self.schema!r}, got {found!r}; {self._give}"
            )
        if match[1] != major:
            raise InputError(
                f"{source} has the schema {found!r}, but this version of advshift reads {self.schema!r}; "
                f"read it with the version that wrote it, or {self._again}"
            )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
