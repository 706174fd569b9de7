"""`advshift radius`: how far the mix of classes has moved before, and the radius that follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from advshift.audit.history import Suggestion

__all__ = ["radius"]


def radius(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY",
            help="Past mixes: a table of site (or month), class, count; or a row per mix and a column per class.",
        ),
    ],
    reference: Annotated[
        str,
        typer.Option(help="The mix to measure from: empirical (all of the history), uniform, or a file as for audit."),
    ] = "empirical",
    set_name: Annotated[
        str, typer.Option("--set", help="The set whose radius is wanted: kl, reverse-kl, chi2, tv, frequency-cap.")
    ] = "kl",
    quantile: Annotated[float, typer.Option(help="The share of past mixes that the set should have held.")] = 0.9,
    confidence: Annotated[float, typer.Option(help="The confidence of the radius's interval.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the bootstrap.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write what was found as JSON.")] = None,
) -> None:
    """Suggest a radius from past label distributions."""
    from advshift.audit.request import suggest_from_file
    from advshift.files import check_writable, write_atomically

    if json is not None:
        check_writable(json)
    found = suggest_from_file(
        history, reference=reference, set_name=set_name, quantile=quantile, confidence=confidence, seed=seed
    )
    if json is not None:
        from advshift.audit.history import suggestion_json

        write_atomically(json, suggestion_json(found))
    _print(found, reference)


def _print(found: Suggestion, reference: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for header in ("mix", "examples", "divergence", "by chance", "corrected", "most favoured class"):
        table.add_column(header, justify="left" if header in ("mix", "most favoured class") else "right")
    for moved in sorted(found.mixes, key=lambda one: -one.corrected):
        numbers = (f"{moved.divergence:.4g}", f"{moved.expected:.4g}", f"{moved.corrected:.4g}")
        favoured = f"{moved.favoured}, {moved.max_ratio:.2g} times as frequent"
        table.add_row(*map(Text, (moved.name, f"{moved.size:,}", *numbers, favoured)))
    console = Console()
    console.print(table)
    option = "--max-ratio" if found.set_name == "frequency-cap" else f"--set {found.set_name} --radii"
    source = "the history's own mix" if reference == "empirical" else reference
    lines = [
        "",
        f"Suggested radius: {found.radius:.4g} ({found.confidence:.0%} interval "
        f"{found.lower:.4g} to {found.upper:.4g}).",
        f"It held {found.quantile:.0%} of {len(found.mixes)} past mixes, measured from {source}.",
        f"To audit with it: advshift audit FILE {option} {found.radius:.4g}",
        *found.warnings,
    ]
    for line in lines:
        console.print(Text(line))
