"""`advshift monitor`: watch a stream of unlabelled predictions."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advshift.cli.options import COLUMNS, Classes, Prediction, Probabilities, Renormalise
from advshift.cli.voice import Voice, say_how_it_ended
from advshift.errors import InputError

if TYPE_CHECKING:
    from advshift.monitor.settings import Audited

__all__ = ["monitor"]

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

ESTIMATE = "Estimate"
ALARM = "Radius and alarm"
OUTPUT = "Output"
PICTURE = "Picture of a log"


class OnBadLine(enum.StrEnum):
    """What to do with a line that is no prediction."""

    skip = "skip"
    stop = "stop"


class Themes(enum.StrEnum):
    """The colours of the picture."""

    light = "light"
    dark = "dark"


def monitor(
    source: Annotated[
        str | None,
        typer.Argument(
            help="Labelled predictions that the model was not trained on, in any format that the audit reads.",
        ),
    ] = None,
    stream: Annotated[
        str,
        typer.Argument(
            help="Unlabelled predictions: - for lines on standard input, a file, a folder or a pattern. CSV, TSV and "
            "JSON lines are read line by line, Parquet row by row.",
        ),
    ] = "-",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more at the end of the file, as tail -F does.")
    ] = False,
    label: Annotated[
        str | None, typer.Option(help="The source's column of true classes.", rich_help_panel=COLUMNS)
    ] = None,
    prediction: Prediction = None,
    probabilities: Probabilities = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="The stream's column of times (ISO 8601 or seconds); a table is read in their order.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    classes: Classes = None,
    renormalise: Renormalise = False,
    on_bad_line: Annotated[
        OnBadLine,
        typer.Option(help="Pass over lines that are no prediction, and count them; or stop.", rich_help_panel=COLUMNS),
    ] = OnBadLine.skip,
    method: Annotated[
        str,
        typer.Option(
            help="What is remembered: window, exponential, fth (all), or a window beside the online steps rogd, atlas.",
            rich_help_panel=ESTIMATE,
        ),
    ] = "window",
    window: Annotated[
        int, typer.Option(help="The examples in the sliding window.", rich_help_panel=ESTIMATE, min=2)
    ] = 1000,
    every: Annotated[
        str,
        typer.Option(
            help="How often to report: after so many examples, or with --time each 30s, 15min, 1h, 1d, 1w.",
            rich_help_panel=ESTIMATE,
        ),
    ] = "250",
    half_life: Annotated[
        float | None,
        typer.Option(
            help="Examples after which --method exponential has forgotten half; else a third of the window.",
            rich_help_panel=ESTIMATE,
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Reports for which the steps of rogd and atlas are optimal; else rogd tunes its own; atlas: 10000.",
            rich_help_panel=ESTIMATE,
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="Of a window: bbse, auto, em, or another that advshift estimate has.", rich_help_panel=ESTIMATE
        ),
    ] = "bbse",
    calibration: Annotated[
        str | None,
        typer.Option(
            help="Of the probabilities: temperature, bcts, vector, vector-no-bias, shrunk.", rich_help_panel=ESTIMATE
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of intervals.", rich_help_panel=ESTIMATE)] = 0.95,
    reference: Annotated[
        str,
        typer.Option(
            help="The training mix: empirical (the source's), uniform, or a file as for audit.",
            rich_help_panel=ESTIMATE,
        ),
    ] = "empirical",
    radius: Annotated[
        float | None, typer.Option(help="The radius that the model was trained for.", rich_help_panel=ALARM)
    ] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", help="Its divergence: kl, reverse-kl, chi2, tv.", rich_help_panel=ALARM)
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            help="The JSON of an audit: its set, its largest radius unless --radius, and its worst cases.",
            rich_help_panel=ALARM,
        ),
    ] = None,
    run_length: Annotated[
        float,
        typer.Option(
            help="Without a change, 'change' rings at most once in so many examples on average.", rich_help_panel=ALARM
        ),
    ] = 1e5,
    alpha: Annotated[
        float, typer.Option(help="Without a change, the chance that 'ever' rings at all.", rich_help_panel=ALARM)
    ] = 0.01,
    fail_on_alarm: Annotated[
        bool, typer.Option("--fail-on-alarm", help="Exit with 3 if an alarm rang.", rich_help_panel=ALARM)
    ] = False,
    log: Annotated[
        Path | None, typer.Option(help="Append every report to this file of JSON lines.", rich_help_panel=OUTPUT)
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep what is needed to go on here; the same command goes on.", rich_help_panel=OUTPUT),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Standard input begins from its start again: pass over what was read.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    prometheus: Annotated[
        Path | None,
        typer.Option(help="Keep the latest report here, in Prometheus' text format.", rich_help_panel=OUTPUT),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the log's JSON lines instead of words.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but faults.", rich_help_panel=OUTPUT)
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="LOG", help="Draw a log instead of watching.", rich_help_panel=PICTURE)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The picture: PNG, SVG or PDF.", rich_help_panel=PICTURE)
    ] = None,
    theme: Annotated[Themes, typer.Option(help="The picture's colours.", rich_help_panel=PICTURE)] = Themes.light,
    memory: Annotated[
        str, typer.Option(help="What the database may hold while it sorts a table by time.", rich_help_panel=OUTPUT)
    ] = "1GB",
) -> None:
    """Watch unlabelled predictions: the mix of classes, the error that it means, and an alarm when it changes."""
    if plot is not None:
        _plot(plot, output, theme.value, source)
        return
    if output is not None:
        raise InputError("-o names the picture of a log: advshift monitor --plot LOG -o FILE")
    if source is None:
        raise InputError(
            "name a labelled source: advshift monitor SOURCE STREAM, where STREAM is a file, or - for lines"
        )
    from advshift.audit.readers.columns import Wanted
    from advshift.monitor.request import Request
    from advshift.monitor.running import watch
    from advshift.monitor.settings import Settings
    from advshift.monitor.trackers import TrackerOptions

    count, period = _every(every)
    distance, reach, audited = _feared(set_name, radius, audit)
    settings = Settings(
        method=method,
        tracker=TrackerOptions(window, half_life, estimator, calibration, horizon),
        every=count,
        period=period,
        set_name=distance,
        radius=reach,
        audited=audited,
        alpha=alpha,
        run_length=run_length,
        confidence=confidence,
    )
    request = Request(
        source=source,
        stream=stream,
        settings=settings,
        wanted=Wanted(label, prediction, probabilities),
        classes=classes,
        renormalise=renormalise,
        reference=reference,
        time=time,
        follow=follow,
        replay=replay,
        on_bad_line=on_bad_line.value,
        state=state,
        log=log,
        prometheus=prometheus,
        memory=memory,
    )
    stopped = watch(request, Voice(as_json=json, quiet=quiet))
    say_how_it_ended(stopped, request.state, fail_on_alarm=fail_on_alarm)


def _every(text: str) -> tuple[int | None, float | None]:
    """A number of examples, or a time."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match and not match[2] and "." not in match[1] and int(match[1]) > 0:
        return int(match[1]), None
    if match and match[2] in UNITS and float(match[1]) > 0:
        return None, float(match[1]) * UNITS[match[2]]
    raise InputError(
        f"--every must be a number of examples such as 250, or a time such as 30s, 15min, 1h, 1d or 1w; got {text!r}"
    )


def _feared(set_name: str | None, radius: float | None, audit: Path | None) -> tuple[str, float | None, Audited | None]:
    """The divergence, the radius, and what an audit says of it."""
    if audit is None:
        return set_name or "kl", radius, None
    import math

    from advshift.audit.record import AuditRecord
    from advshift.monitor.settings import Audited
    from advshift.numerics.divergences import DIVERGENCES
    from advshift.report.selection import estimate

    record = AuditRecord.read(audit)
    name = record.uncertainty_set.name
    if name not in DIVERGENCES:
        raise InputError(
            f"the audit {str(audit)!r} is of the set {name!r}, which has no divergence; audit with --set "
            f"{', '.join(DIVERGENCES)}"
        )
    if set_name not in (None, name):
        raise InputError(f"the audit {str(audit)!r} is of the set {name!r}, but --set is {set_name!r}; leave --set out")
    points = [point for point in record.models[0].curve if point.radius < math.inf] if record.models else []
    if not points:
        raise InputError(f"the audit {str(audit)!r} has no finite radius; audit again with --radii")
    radii = tuple(point.radius for point in points)
    worst = tuple(estimate(point) for point in points)
    return name, max(radii) if radius is None else radius, Audited(radii, worst, record.metric.name)


def _plot(log: Path, output: Path | None, theme: str, source: str | None) -> None:
    if source is not None:
        raise InputError(f"--plot draws a log and watches nothing; leave {source!r} out")
    if output is None:
        raise InputError("say where the picture goes: advshift monitor --plot LOG -o FILE.png")
    kind = output.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"the picture must be named .png, .svg or .pdf; got {output.name!r}")
    import io

    from advshift.files import check_writable, write_atomically
    from advshift.report.stream_picture import plot_stream, read_log

    check_writable(output)
    header, reports = read_log(log)
    buffer = io.BytesIO()
    metadata = {} if kind == "png" else {"CreationDate": None} if kind == "pdf" else {"Date": None}
    plot_stream(header, reports, theme).savefig(buffer, format=kind, dpi=150, metadata=metadata)
    write_atomically(output, buffer.getvalue())
    typer.echo(f"{len(reports)} reports drawn in {output}")
