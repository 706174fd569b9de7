"""The reference training engine: recipes, runs that survive, one process or many. Needs torch.

>>> from advshift.training import load_recipe
>>> load_recipe("digits-advshift").objective.adversary
'advshift'
"""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.training", "torch")

from advshift.training.engine import train  # noqa: E402
from advshift.training.progress import Reporter, reporter_for  # noqa: E402
from advshift.training.recipe import Recipe, find_recipe, load_recipe, make_recipe, recipe_names  # noqa: E402
from advshift.training.runs import RunInfo, list_runs  # noqa: E402
from advshift.training.tensorboard import with_tensorboard  # noqa: E402

__all__ = [
    "Recipe",
    "Reporter",
    "RunInfo",
    "find_recipe",
    "list_runs",
    "load_recipe",
    "make_recipe",
    "recipe_names",
    "reporter_for",
    "train",
    "with_tensorboard",
]
