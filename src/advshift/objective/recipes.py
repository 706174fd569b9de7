"""What a training recipe says of the objective, for a loop of one's own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import wraps
from importlib import resources
from typing import Any

from advshift.adversaries import ADVERSARIES
from advshift.errors import InputError

__all__ = ["expand_recipe", "takes_recipes"]

# What the recipe's own engine arranges around the objective: -> what a loop of one's own has to call.
ENGINE = {
    "loss_options": "its loss has options of its own; build the loss and pass loss=, with the adversary's options",
    "adversary_data": "its engine shows the adversary other data than the batch; pass update='manual' and call refresh",
}


def takes_recipes(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor's adversary be the name of a recipe, whose `[objective]` table then gives the defaults."""

    @wraps(init)
    def expanded(self: Any, adversary: Any = "advshift", **given: Any) -> None:
        init(self, **expand_recipe(adversary, given))

    return expanded


def expand_recipe(adversary: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those of the recipe beneath them, where `adversary` names a recipe."""
    if not isinstance(adversary, str) or adversary in ADVERSARIES:
        return {"adversary": adversary, **given}
    file = resources.files("advshift") / "training" / "recipes" / f"{adversary}.toml"
    if not file.is_file():
        return {"adversary": adversary, **given}  # the registry says which names there are
    table = tomllib.loads(file.read_text(encoding="utf-8")).get("objective", {})
    for name, advice in ENGINE.items():
        if table.get(name, "batch") != "batch":
            raise InputError(f"the recipe {adversary!r} is more than an objective: {advice}")
    known = table.pop("reference", "known") == "known"
    if known and given.get("class_counts") is None:
        raise InputError(f"the recipe {adversary!r} trains with a known reference: pass class_counts=")
    return {"adversary": "erm", **table, **given}
