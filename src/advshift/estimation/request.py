"""An estimate from files: everything that the command asks, in one call."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

import numpy as np

from advshift.audit.readers import MEMORY, Wanted
from advshift.audit.readers.distributions import read_classes
from advshift.audit.readers.outputs import Outputs, has_labels, read_outputs
from advshift.errors import InputError
from advshift.estimation.assembly import Question, assemble
from advshift.estimation.record import EstimateRecord, holds_estimate

__all__ = ["Estimated", "Request", "estimate_files"]


@dataclass(frozen=True)
class Request:
    """What the command line asks for; every field has the meaning of the option of its name."""

    source: str
    target: str
    question: Question = field(default_factory=Question)
    wanted: Wanted = field(default_factory=Wanted)
    classes: str | None = None
    renormalise: bool = False
    hard: bool = False
    keep: bool = False
    memory: str = MEMORY
    command: str | None = None


@dataclass(frozen=True)
class Estimated:
    """The record, the target's outputs that it came from, and what to say of the reading."""

    record: EstimateRecord
    target: Outputs
    notices: tuple[str, ...]


def estimate_files(request: Request) -> Estimated:
    """Read both files and estimate."""
    if request.source == request.target == "-":
        raise InputError("only one of SOURCE and TARGET can come from standard input")
    saved = next((file for file in (request.source, request.target) if file != "-" and holds_estimate(file)), None)
    if saved is not None:
        raise InputError(
            f"{saved} is an estimate already; to use it, type advshift correct {shlex.quote(saved)} TARGET -o FILE, or "
            f"advshift audit SOURCE --around {shlex.quote(saved)}"
        )
    source = _source(request)
    target = read_outputs(
        request.target,
        replace(request.wanted, prediction=request.wanted.prediction if source.hard else None),
        labelled=False,
        classes=source.classes,
        renormalise=request.renormalise,
        keep=request.keep,
        memory=request.memory,
    )
    if source.hard or target.hard or request.hard:
        source, target = _hardened(source), _hardened(target)
    record = assemble(source, target, request.question, request.command)
    return Estimated(record, target, (*source.notices, *target.notices))


def _source(request: Request) -> Outputs:
    classes = None if request.classes is None else read_classes(request.classes)
    try:
        return read_outputs(
            request.source,
            request.wanted,
            classes=classes,
            renormalise=request.renormalise,
            memory=request.memory,
        )
    except InputError:
        if "-" not in (request.source, request.target) and _swapped(request):
            raise InputError(
                f"{request.source} has no labels, but {request.target} has: the labelled source comes first; type "
                f"advshift estimate {shlex.quote(request.target)} {shlex.quote(request.source)}"
            ) from None
        raise


def _swapped(request: Request) -> bool:
    sides = (request.source, request.target)
    return [has_labels(side, request.wanted) for side in sides] == [False, True]


def _hardened(outputs: Outputs) -> Outputs:
    """The predicted classes alone, as ones among zeros."""
    rows = np.eye(len(outputs.classes))[outputs.probabilities.argmax(axis=1)]
    return replace(outputs, probabilities=rows, hard=True)
