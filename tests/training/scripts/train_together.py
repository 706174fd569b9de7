"""One rank of the tests in parallel: train by a recipe, and leave behind what this rank holds at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from advshift.training import engine, load_recipe
from advshift.training.session import Session

held: dict[str, Any] = {}


class Kept(Session):
    """A session that leaves itself where the script finds it."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        held["session"] = self


if __name__ == "__main__":
    engine.Session = Kept  # type: ignore[misc]
    recipe, folder = sys.argv[1:]
    engine.train(load_recipe(recipe), folder)
    session = held["session"]
    state = {"objective": session.objective.state_dict(), "model": session.model.state_dict()}
    torch.save(state, Path(folder) / f"rank-{session.workers.rank}.pt")
