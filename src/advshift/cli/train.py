"""`advshift train`: a model by a recipe, into a folder that holds everything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from advshift.errors import InputError

__all__ = ["train"]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A TOML file, or the name of a recipe that comes with advshift; --list shows them."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Values to change, such as training.epochs=5 objective.radius=0.2."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The run's folder; else runs/NAME.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Where the data lies; else the recipe's path, else $ADVSHIFT_DATA.")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch CIFAR if it is not there.")] = False,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many optimiser steps; for a try-out.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --output; its own recipe is the default.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the resolved recipe and stop.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the recipes that come with advshift and stop.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files for TensorBoard, too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")] = False,
) -> None:
    """Train a model by a recipe. Under torchrun: torchrun --nproc-per-node 2 -m advshift train RECIPE."""
    from rich.console import Console

    from advshift import training

    if list_:
        typer.echo("\n".join(training.recipe_names()))
        return
    words = list(overrides or [])
    if resume and output is not None and (recipe is None or "=" in recipe):
        words = [recipe, *words] if recipe else words
        if not (output / "recipe.toml").exists():
            raise InputError(f"there is no run in {str(output)!r} to go on with; name a recipe to begin one there")
        recipe = str(output / "recipe.toml")  # the run's own
    if recipe is None:
        raise InputError("name a recipe: a TOML file, or one of " + ", ".join(training.recipe_names()))
    words += [f"data.path={data}"] if data is not None else []
    words += ["data.download=true"] if download else []
    words += [f"training.max_steps={max_steps}"] if max_steps is not None else []
    wanted = training.load_recipe(recipe, words)
    if show:
        typer.echo(wanted.to_toml(), nl=False)
        return
    folder = Path("runs") / wanted.name if output is None else output
    leads = os.environ.get("RANK", "0") == "0"
    console = Console(stderr=True, quiet=quiet or not leads)
    reporter = training.reporter_for(console)
    if tensorboard:
        reporter = training.with_tensorboard(reporter, folder)
    record = training.train(wanted, folder, resume=resume, reporter=reporter)
    if leads:
        _tell(folder, record)


def _tell(folder: Path, record: dict[str, object]) -> None:
    """Say where the run is, and what can be done with it."""
    best = record.get("best_epoch")
    typer.echo(f"Run    {folder} ({record['status']}{'' if best is None else f', best epoch {best}'})")
    predictions = sorted((folder / "predictions").glob("*.npz"))
    if predictions:
        file = next((path for path in predictions if path.stem == "test"), predictions[0])
        typer.echo(f"Audit  advshift audit {file} --reference {folder / 'training-mix.csv'}")
