"""`advshift demo`: two models on long-tailed digits, and how bad each can get."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    output: Annotated[Path, typer.Option(help="The folder for predictions, pictures and report.")] = Path(
        "advshift-demo"
    ),
    seed: Annotated[int, typer.Option(help="The seed of the split and of training.", min=0)] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
) -> None:
    """Train two models on long-tailed digits, as usual and robustly, and show how bad each can get."""
    from rich.console import Console

    from advshift.experiments.demo import MODELS, run_demo
    from advshift.report import render

    found = run_demo(output, seed, lambda sentence: typer.secho(sentence, err=True, dim=True))
    Console().print(render(found.record))
    typer.echo(f"\nReport    {output / 'report.html'}\nPictures  {output / 'picture-light.png'}, picture-dark.png")
    if show:
        import webbrowser

        webbrowser.open((output / "report.html").resolve().as_uri())
    files = " ".join(str(output / f"{name}.csv") for name in MODELS)
    typer.echo(
        f"The same from predictions of your own:\n  advshift audit {files} --reference {output / 'training-mix.csv'}"
    )
