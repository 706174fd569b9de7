"""Options that several commands take, with the same words in each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from advshift.audit.readers import Wanted

__all__ = [
    "COLUMNS",
    "Bootstrap",
    "Calibration",
    "Classes",
    "Confidence",
    "Hard",
    "Id",
    "Label",
    "Method",
    "Prediction",
    "Probabilities",
    "Renormalise",
    "Seed",
    "check_apart",
    "check_outputs",
    "column_options",
]

COLUMNS = "Columns"
ESTIMATE = "The estimate"

Label = Annotated[str | None, typer.Option(help="The column of true classes.", rich_help_panel=COLUMNS)]
Prediction = Annotated[str | None, typer.Option(help="The column of predicted classes.", rich_help_panel=COLUMNS)]
Probabilities = Annotated[
    str | None,
    typer.Option(
        help="A column of lists, what the columns of probabilities begin with, or their names: a,b,c.",
        rich_help_panel=COLUMNS,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="The classes, in the order of a list of probabilities: a,b,c or a file with one in a line; others are "
        "then faults.",
        rich_help_panel=COLUMNS,
    ),
]
Id = Annotated[str | None, typer.Option("--id", help="The column of the examples' ids.", rich_help_panel=COLUMNS)]
Renormalise = Annotated[
    bool, typer.Option("--renormalise", help="Divide probabilities by their sums.", rich_help_panel=COLUMNS)
]
Hard = Annotated[
    bool,
    typer.Option("--hard", help="Use the predicted classes alone, not their probabilities.", rich_help_panel=ESTIMATE),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="auto, em, bbse, rlls, mapls, kmm, kl-matching or gls; by default auto, and bbse for predicted classes.",
        rich_help_panel=ESTIMATE,
    ),
]
Calibration = Annotated[
    str,
    typer.Option(
        help="auto, none, temperature, bcts, vector, vector-no-bias or shrunk; auto is what suits the method.",
        rich_help_panel=ESTIMATE,
    ),
]
Bootstrap = Annotated[
    int,
    typer.Option(
        min=0, help="Intervals from so many bootstrap replicates; 0: asymptotic ones.", rich_help_panel=ESTIMATE
    ),
]
Confidence = Annotated[
    float, typer.Option(help="The confidence of intervals and of the ball.", rich_help_panel=ESTIMATE)
]
Seed = Annotated[int, typer.Option(min=0, help="The seed of whatever is drawn.", rich_help_panel=ESTIMATE)]


def check_outputs(*paths: Path | None) -> None:
    """Refuse outputs that cannot be written, or that are one file twice, before any work is done."""
    from advshift.errors import InputError
    from advshift.files import check_writable

    given = [path for path in paths if path is not None]
    for number, path in enumerate(given):
        check_writable(path)
        if path.is_file() and any(path.samefile(other) for other in given[:number] if other.is_file()):
            raise InputError(f"two outputs would be written to {str(path)!r}; name them apart")
        if path in given[:number]:
            raise InputError(f"two outputs would be written to {str(path)!r}; name them apart")


def check_apart(output: Path, *inputs: str) -> None:
    """Refuse to write over what is read."""
    from advshift.errors import InputError

    for given in inputs:
        if output.is_file() and Path(given).is_file() and output.samefile(given):
            raise InputError(f"{str(output)!r} is an input; name another file for the output")


def column_options(wanted: Wanted, *, renormalise: bool, classes: str | None = None) -> list[str]:
    """The options that a following command needs to read the same files."""
    named = {
        "--label": wanted.label,
        "--prediction": wanted.prediction,
        "--probabilities": wanted.probabilities,
        "--classes": classes,
    }
    found = [part for option, value in named.items() if value is not None for part in (option, value)]
    return [*found, "--renormalise"] if renormalise else found
