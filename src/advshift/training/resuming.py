"""What may change between a run and its going on: where and how, but not what is trained."""

from __future__ import annotations

import tomllib

from advshift.errors import InputError
from advshift.training.folder import RunFolder
from advshift.training.recipe import Recipe, differences, make_recipe

__all__ = ["refuse_another_recipe"]

FREE = (
    "data.path",
    "data.workers",
    "data.storage",
    "training.checkpoint_seconds",
    "training.checkpoint_every",
    "training.threads",
)


def refuse_another_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """Say what differs from the recipe that the run in a folder began with, if that matters."""
    try:
        old = make_recipe(tomllib.loads(folder.recipe.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(folder.recipe)!r}: {error}") from None
    changed = [line for line in differences(old, recipe) if line.split(":")[0] not in FREE]
    if changed:
        raise InputError(
            f"the recipe is not the one that the run in {str(folder.path)!r} began with ({'; '.join(changed)}); resume "
            "with its own recipe.toml, or name another folder"
        )
