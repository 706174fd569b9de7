"""`advshift correct`: predictions that suit the target's mix of classes."""

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
    Label,
    Method,
    Prediction,
    Probabilities,
    Renormalise,
    Seed,
    check_apart,
    check_outputs,
)

if TYPE_CHECKING:
    from advshift.audit.readers import Wanted
    from advshift.audit.readers.outputs import Outputs
    from advshift.estimation import EstimateRecord

__all__ = ["correct"]


def correct(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE|ESTIMATE",
            help="Labelled probabilities to estimate from, or what advshift estimate --json saved.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The probabilities to correct.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .csv, .tsv, .jsonl, .parquet or .npz."),
    ],
    method: Method = None,
    calibration: Calibration = "auto",
    bootstrap: Bootstrap = 0,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    label: Label = None,
    prediction: Prediction = None,
    probabilities: Probabilities = None,
    classes: Classes = None,
    renormalise: Renormalise = False,
    json: Annotated[Path | None, typer.Option(help="Write the estimate as JSON, too.")] = None,
) -> None:
    """Correct predictions for the class mix of the data that they were made on."""
    from advshift.audit.readers import Wanted
    from advshift.estimation import Question, Request, correct_file, estimate_files
    from advshift.estimation.correcting import check_format
    from advshift.estimation.record import holds_estimate

    check_format(output)
    check_outputs(output, json)
    check_apart(output, source, target)
    wanted = Wanted(label, prediction, probabilities)
    if Path(source).suffix.lower() == ".json" or holds_estimate(source):
        record, outputs = _saved(source, target, wanted, renormalise=renormalise)
        _refuse_options(json, method)
    else:
        request = Request(
            source,
            target,
            Question(method, calibration, confidence, bootstrap, seed),
            wanted,
            classes=classes,
            renormalise=renormalise,
            keep=True,
            command=shlex.join(["advshift", *sys.argv[1:]]),
        )
        found = estimate_files(request)
        record, outputs = found.record, found.target
    changed = correct_file(record, outputs, output)
    if json is not None:
        record.write(json)
    _print(record, outputs, output, changed)


def _saved(estimate: str, target: str, wanted: Wanted, *, renormalise: bool) -> tuple[EstimateRecord, Outputs]:
    from advshift.audit.readers.outputs import read_outputs
    from advshift.estimation import EstimateRecord

    record = EstimateRecord.read(estimate)
    outputs = read_outputs(target, wanted, labelled=False, classes=record.labels, renormalise=renormalise, keep=True)
    return record, outputs


def _refuse_options(json: Path | None, method: str | None) -> None:
    from advshift.errors import InputError

    if json is not None or method is not None:
        raise InputError("the estimate is saved already; leave --json and --method out, or give SOURCE instead of it")


def _print(record: EstimateRecord, outputs: Outputs, output: Path, changed: float) -> None:
    from rich.console import Console
    from rich.text import Text

    from advshift.report.estimate_words import EstimateWords
    from advshift.report.selection import readable
    from advshift.report.sheet import Sheet

    for notice in outputs.notices:
        typer.secho(notice, err=True, dim=True)
    words, console = EstimateWords(record), Console()
    sheet = Sheet(console.width, ascii_only=console.options.ascii_only)
    console.print(sheet.text(words.verdict, "bold red" if words.fails else ""))
    for sentence in (words.answer, *words.accuracy):
        console.print(sheet.text(sentence))
    for warning in record.warnings:
        console.print(Text.assemble(("! ", "bold yellow"), sheet.text(readable(warning.message))))
    changes = f"{words.share(changed)} of the predictions changed"
    console.print(sheet.text(f"Wrote {outputs.rows:,} rows to {readable(output)}; {changes}."))
