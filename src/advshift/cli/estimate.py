"""`advshift estimate`: the mix of classes behind unlabelled predictions."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advshift.cli.options import (
    Bootstrap,
    Calibration,
    Classes,
    Confidence,
    Hard,
    Label,
    Method,
    Prediction,
    Probabilities,
    Renormalise,
    Seed,
    check_outputs,
    column_options,
)

if TYPE_CHECKING:
    from advshift.estimation import Estimated

__all__ = ["estimate"]

OUTPUT = "Output"


def estimate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Labelled probabilities of examples that did not train the model: CSV, TSV, JSON lines, Parquet, NPZ.",
        ),
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Probabilities of unlabelled examples, in the same columns.")
    ],
    method: Method = None,
    calibration: Calibration = "auto",
    hard: Hard = False,
    bootstrap: Bootstrap = 0,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    label: Label = None,
    prediction: Prediction = None,
    probabilities: Probabilities = None,
    classes: Classes = None,
    renormalise: Renormalise = False,
    json: Annotated[
        Path | None, typer.Option(help="Write everything as JSON, for correct and audit.", rich_help_panel=OUTPUT)
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the classes as CSV.", rich_help_panel=OUTPUT)] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one page.", rich_help_panel=OUTPUT)] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Keep the covariance in the JSON above 300 classes.", rich_help_panel=OUTPUT),
    ] = False,
) -> None:
    """Estimate the class mix of unlabelled data from a model's predictions."""
    from advshift.audit.readers import Wanted
    from advshift.estimation import Question, Request, estimate_files

    check_outputs(json, csv, html)
    wanted = Wanted(label, prediction, probabilities)
    request = Request(
        source,
        target,
        Question(method, calibration, confidence, bootstrap, seed),
        wanted,
        classes=classes,
        renormalise=renormalise,
        hard=hard,
        command=shlex.join(["advshift", *sys.argv[1:]]),
    )
    found = estimate_files(request)
    columns = column_options(wanted, renormalise=renormalise, classes=classes)
    _save(found, json, csv, html, columns, full=full)
    _print(found, None if json is None else str(json), columns)


def _save(
    found: Estimated, json: Path | None, csv: Path | None, html: Path | None, columns: list[str], *, full: bool
) -> None:
    if json is not None:
        found.record.write(json, full=full)
    if csv is not None:
        from advshift.estimation.tables import estimate_csv
        from advshift.files import write_atomically

        write_atomically(csv, estimate_csv(found.record))
    if html is not None:
        from advshift.files import write_atomically
        from advshift.report import estimate_html

        saved = None if json is None else str(json)
        write_atomically(html, estimate_html(found.record, saved=saved, columns=columns))


def _print(found: Estimated, saved: str | None, columns: list[str]) -> None:
    """What was found goes to standard output, what was read to standard error."""
    from rich.console import Console

    from advshift.report import list_steps, render_estimate

    for notice in found.notices:
        typer.secho(notice, err=True, dim=True)
    Console().print(render_estimate(found.record))
    typer.echo(list_steps(found.record, saved=saved, columns=columns))
