"""The `advshift` command. A command's module imports what is heavy inside its function, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from advshift import __version__
from advshift.cli.audit import audit
from advshift.cli.correct import correct
from advshift.cli.demo import demo
from advshift.cli.estimate import estimate
from advshift.cli.monitor import monitor
from advshift.cli.radius import radius
from advshift.cli.reproduce import reproduce
from advshift.cli.runs import runs
from advshift.cli.train import train
from advshift.errors import AdvshiftError, Interrupted

__all__ = ["app", "main"]

app = typer.Typer(
    name="advshift",
    help="How bad can a classifier get when the mix of classes moves, and what to do about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130
BAD_INPUT = 2


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"advshift {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """How bad can a classifier get when the mix of classes moves, and what to do about it."""


app.command()(audit)
app.command()(radius)
app.command()(estimate)
app.command()(correct)
app.command()(monitor)
app.command()(demo)
app.command()(train)
app.command()(runs)
app.command()(reproduce)


def main() -> None:
    """Run the command line: errors that users can mend are one sentence on standard error, never a traceback."""
    sys.unraisablehook = _unraisable
    try:
        app()
    except Interrupted as stop:
        _fail(str(stop), INTERRUPTED)
    except AdvshiftError as error:
        _fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone; give the interpreter nothing left to flush, and stop quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1)


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """End at a Ctrl-C that came where Python can raise nothing, such as within an import, and would be lost."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    _say("interrupted")
    os._exit(INTERRUPTED)


def _fail(message: str, code: int) -> None:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    typer.secho(f"advshift: {message}", err=True, fg=typer.colors.RED)
