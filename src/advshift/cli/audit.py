"""`advshift audit`: how bad classifiers can get when the mix of classes moves."""

from __future__ import annotations

import enum
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advshift.cli.options import (
    COLUMNS,
    Classes,
    Id,
    Label,
    Prediction,
    Probabilities,
    Renormalise,
    check_outputs,
)
from advshift.errors import InputError

if TYPE_CHECKING:
    from advshift.audit.record import AuditRecord
    from advshift.audit.references import Around

__all__ = ["FAILED", "audit"]

FAILED = 3  # the exit code of --fail-above

WHAT_IS_MEASURED = "What is measured"
MIXES = "Mixes"
STATISTICS = "Statistics"
CONTINUOUS_INTEGRATION = "Continuous integration"
OUTPUT = "Output"
RESOURCES = "Resources"


class EmptyClasses(enum.StrEnum):
    """What may be assumed of a class without examples."""

    worst = "worst"
    average = "average"
    exclude = "exclude"


def audit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Predictions of one model each: CSV, TSV, JSON lines, Parquet, NPZ, NPY or a table of counts and "
            "errors; a file, a folder, a pattern in quotes, or - for standard input. NAME=FILE names the model.",
        ),
    ],
    label: Label = None,
    prediction: Prediction = None,
    probabilities: Probabilities = None,
    loss: Annotated[str | None, typer.Option(help="The column of losses.", rich_help_panel=COLUMNS)] = None,
    id_: Id = None,
    classes: Classes = None,
    renormalise: Renormalise = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help="error, top-5, log-loss, brier, cost, loss or a column's name.", rich_help_panel=WHAT_IS_MEASURED
        ),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(help="A table of label, prediction, cost; for --metric cost.", rich_help_panel=WHAT_IS_MEASURED),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            help="LOW,HIGH that the losses cannot leave; for a guaranteed bound.", rich_help_panel=WHAT_IS_MEASURED
        ),
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set", help="kl, reverse-kl, chi2, tv, frequency-cap, top-k, simplex or box.", rich_help_panel=MIXES
        ),
    ] = None,
    radii: Annotated[
        str | None, typer.Option(help="Radii of the set, such as 0,0.1,1,inf.", rich_help_panel=MIXES)
    ] = None,
    max_ratio: Annotated[
        str | None,
        typer.Option(
            help="Instead of a set and radii: no class more than so many times as frequent.", rich_help_panel=MIXES
        ),
    ] = None,
    ranges: Annotated[
        str | None, typer.Option(help="A table of class, lower, upper; for --set box.", rich_help_panel=MIXES)
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="The mix that moves: empirical, uniform, or a table of class and share, class and count, or labels.",
            rich_help_panel=MIXES,
        ),
    ] = "empirical",
    around: Annotated[
        str | None,
        typer.Option(
            metavar="ESTIMATE",
            help="Instead of a reference: what advshift estimate --json saved; by default as far as its ball reaches.",
            rich_help_panel=MIXES,
        ),
    ] = None,
    empty_class: Annotated[
        EmptyClasses,
        typer.Option(help="What to assume of a class of the reference without examples.", rich_help_panel=MIXES),
    ] = EmptyClasses.worst,
    common: Annotated[
        bool,
        typer.Option("--common", help="Judge all models under the first one's worst mixes too.", rich_help_panel=MIXES),
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="Risks whose breaking points are wanted, such as 0.3,0.5.", rich_help_panel=MIXES)
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="The confidence of intervals and bounds.", rich_help_panel=STATISTICS)
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="The seed of folds and draws.", rich_help_panel=STATISTICS)] = 0,
    fail_above: Annotated[
        float | None,
        typer.Option(help="Exit with 3 if a model's worst case is above this.", rich_help_panel=CONTINUOUS_INTEGRATION),
    ] = None,
    at_radius: Annotated[
        float | None,
        typer.Option(
            help="The radius (or ratio) for --fail-above; else the largest.", rich_help_panel=CONTINUOUS_INTEGRATION
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the curves as CSV.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything as JSON.", rich_help_panel=OUTPUT)] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one page.", rich_help_panel=OUTPUT)] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Keep the worst mixes in the JSON above 1,000 classes.", rich_help_panel=OUTPUT),
    ] = False,
    memory: Annotated[
        str,
        typer.Option(help="What the database may hold; more goes to a temporary folder.", rich_help_panel=RESOURCES),
    ] = "1GB",
    threads: Annotated[
        int | None, typer.Option(help="Threads of the database; else all cores.", rich_help_panel=RESOURCES, min=1)
    ] = None,
) -> None:
    """Say how bad classifiers can get when the mix of classes moves."""
    from advshift.audit.readers import Wanted
    from advshift.audit.request import Request, audit_files

    check_outputs(csv, json, html)
    request = Request(
        files=files,
        wanted=Wanted(label, prediction, probabilities, loss, id_),
        metric=metric,
        costs=costs,
        bounds=_pair(bounds),
        classes=classes,
        renormalise=renormalise,
        reference=reference,
        around=None if around is None else _around(around),
        set_name=set_name,
        radii=_numbers(radii, "--radii"),
        at_radius=at_radius,
        max_ratios=_numbers(max_ratio, "--max-ratio"),
        ranges=ranges,
        confidence=confidence,
        empty_class=empty_class.value,
        targets=_numbers(target, "--target"),
        common=common,
        seed=seed,
        memory=memory,
        threads=threads,
        command=shlex.join(["advshift", *sys.argv[1:]]),
    )
    found = audit_files(request)
    _save(found.record, csv, json, html, full=full)
    _print(found.record, found.notices)
    if fail_above is not None:
        _judge(found.record, fail_above, at_radius)


def _around(file: str) -> Around:
    from advshift.estimation import EstimateRecord

    return EstimateRecord.read(file).around(file)


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    from advshift.audit.feared import parse_numbers

    return None if text is None else parse_numbers(text, option)


def _pair(text: str | None) -> tuple[float, float] | None:
    numbers = _numbers(text, "--bounds")
    if numbers is None:
        return None
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise InputError(f"--bounds must be two numbers, the lower first, such as 0,1; got {text!r}")
    return numbers[0], numbers[1]


def _save(record: AuditRecord, csv: Path | None, json: Path | None, html: Path | None, *, full: bool) -> None:
    if json is not None:
        record.write(json, full=full)
    if csv is not None:
        from advshift.files import write_atomically
        from advshift.results import curve_csv

        write_atomically(csv, curve_csv(record))
    if html is not None:
        from advshift.report import write_html

        write_html(record, html)


def _print(record: AuditRecord, notices: list[str]) -> None:
    """What was found goes to standard output, what was read to standard error."""
    from rich.console import Console

    from advshift.report import render

    for notice in notices:
        typer.secho(notice, err=True, dim=True)
    Console().print(render(record))


def _judge(record: AuditRecord, limit: float, radius: float | None) -> None:
    """Exit with `FAILED` if a model's worst case, as it is shown, is above the limit."""
    from advshift.report.selection import estimate

    failed = False
    for model in record.models:
        point = next((point for point in model.curve if point.radius == radius), model.curve[-1])
        value = estimate(point)
        if value is not None and value > limit:
            failed = True
            message = f"{model.name}: the worst case at radius {point.radius:g} is {value:.4g}, above {limit:g}"
            typer.secho(message, err=True, fg=typer.colors.RED)
    if failed:
        raise typer.Exit(FAILED)
