"""An audit of files: everything that the command asks, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advshift.audit.assemble import Question, assemble
from advshift.audit.estimates import EmptyClass
from advshift.audit.feared import Feared, feared_mixes
from advshift.audit.history import History, Suggestion, suggest_radius
from advshift.audit.labels import Label
from advshift.audit.readers import MEMORY, Options, Reading, Wanted, read_files
from advshift.audit.readers.distributions import read_classes, read_costs, read_ranges, read_reference
from advshift.audit.readers.histories import read_history
from advshift.audit.readers.outputs import has_labels
from advshift.audit.reading import Warned
from advshift.audit.record import AroundRecord, AuditRecord, Notice
from advshift.audit.references import Around, Reference, reference_of
from advshift.errors import InputError

__all__ = ["Audited", "Request", "audit_files", "suggest_from_file"]


PARTS = (0.0, 0.0625, 0.25, 0.5625, 1.0)  # of a ball's radius; the worst case grows with its root, so evenly


@dataclass(frozen=True)
class Request:
    """What the command line asks for; every field has the meaning of the option of its name."""

    files: Sequence[str]
    wanted: Wanted = field(default_factory=Wanted)
    metric: str | None = None
    costs: str | None = None
    bounds: tuple[float | int, float | int] | None = None
    classes: str | None = None
    renormalise: bool = False
    reference: str = "empirical"
    around: Around | None = None
    set_name: str | None = None
    radii: tuple[float, ...] | None = None
    at_radius: float | None = None
    max_ratios: tuple[float, ...] | None = None
    ranges: str | None = None
    confidence: float = 0.95
    empty_class: EmptyClass = "worst"
    targets: tuple[float, ...] | None = None
    common: bool = False
    seed: int = 0
    memory: str = MEMORY
    threads: int | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        # What can be refused without a look at the files is refused before them.
        self.feared(1 << 62, {} if self.ranges else None)
        Question(Feared("kl", (0.0,)), confidence=self.confidence)
        if self.around is not None and self.reference != "empirical":
            raise InputError("the mix moves around one centre: give either --around or --reference")
        if self.seed < 0:
            raise InputError(f"the seed must be a whole number from 0 up; got {self.seed}")

    def feared(self, classes: int, ranges: dict[str, Any] | None) -> Feared:
        """The mixes to look at, where so many classes may carry mass."""
        radii = self.radii
        if radii is None and self.max_ratios is None and self.ball_radius is not None:
            radii = tuple(part * self.ball_radius for part in PARTS)
        return feared_mixes(self.set_name, radii, self.max_ratios, classes=classes, ranges=ranges, also=self.at_radius)

    @property
    def ball_radius(self) -> float | None:
        """The radius within which the true mix lies, for the set that is asked for; None without an estimate."""
        name = "frequency-cap" if self.max_ratios is not None else self.set_name or "kl"
        return None if self.around is None else self.around.radii.get(name)


@dataclass(frozen=True)
class Audited:
    """The record, and what to say of the reading beside it."""

    record: AuditRecord
    notices: list[str]


def audit_files(request: Request) -> Audited:
    """Read the files and answer the question."""
    given = _given_reference(request)
    classes = _classes(request, given)
    options = Options(
        metric=request.metric,
        costs=None if request.costs is None else read_costs(request.costs),
        bounds=request.bounds,
        classes=classes,
        seed=request.seed,
        renormalise=request.renormalise,
    )
    if request.around is not None:
        _check_labelled(request)
    reading = read_files(request.files, options, request.wanted, memory=request.memory, threads=request.threads)
    reference = given or _reference(reading, request.reference)
    notices = list(reading.notices)
    if reference.source == "empirical":
        notices.append("the mix moves around the shares of the classes in these data; choose another with --reference")
        _warn_of_pooling(reading)
    record = assemble(reading, reference, _question(request, reading, reference), request.command)
    return Audited(record if request.around is None else _with_around(record, request, request.around), notices)


def _check_labelled(request: Request) -> None:
    """The slip to make here is to audit the target, whose labels nobody has."""
    lacking = next((file for file in request.files if file != "-" and has_labels(file, request.wanted) is False), None)
    if lacking is not None:
        raise InputError(
            f"{lacking} has no labels; around an estimate, audit the labelled source: its classes say how bad each is, "
            "the estimate says how frequent"
        )


def _with_around(record: AuditRecord, request: Request, around: Around) -> AuditRecord:
    """Note in the record how far from its reference the true mix may be."""
    known = AroundRecord(
        source=around.reference.source,
        confidence=around.confidence,
        radius=request.ball_radius,
        rows=around.rows,
    )
    doubts = [Notice(code=code, message=message) for code, message in around.doubts]
    return record.model_copy(update={"around": known, "warnings": [*doubts, *record.warnings]})


def _given_reference(request: Request) -> Reference | None:
    if request.around is not None:
        return request.around.reference
    if request.reference in ("empirical", "uniform"):
        return None
    return read_reference(request.reference, request.wanted.label)


def _classes(request: Request, given: Reference | None) -> tuple[Label, ...] | None:
    """The classes that labels and predictions must be among: those that were given, or those of the reference."""
    if request.classes is not None:
        return read_classes(request.classes)
    return None if given is None else given.classes


def _reference(reading: Reading, wanted: str) -> Reference:
    counts: Any = sum(one.over(reading.classes).count for one in reading.statistics)
    return reference_of(wanted, reading.classes, counts)


def _warn_of_pooling(reading: Reading) -> None:
    """Several files that are not the same examples have several mixes; say which one was taken."""
    counts = [one.over(reading.classes).count for one in reading.statistics]
    shares = [count / count.sum() for count in counts]
    if any(not np.allclose(share, shares[0]) for share in shares):
        reading.warnings.append(
            Warned("pooled-reference", "The files differ in their class mix; the reference is that of all together.")
        )


def _question(request: Request, reading: Reading, reference: Reference) -> Question:
    every = tuple(sorted({*reading.classes, *reference.classes}))
    ranges = None if request.ranges is None else read_ranges(request.ranges, every)
    return Question(
        feared=request.feared(int(np.count_nonzero(reference.distribution)), ranges),
        confidence=request.confidence,
        empty_class=request.empty_class,
        targets=request.targets,
        common=request.common,
        seed=request.seed,
    )


def suggest_from_file(
    file: str, *, reference: str, set_name: str, quantile: float, confidence: float, seed: int
) -> Suggestion:
    """Read past mixes and suggest a radius around the reference: their own total, uniform, or a file's."""
    history = read_history(file)
    if reference in ("empirical", "uniform"):
        centre = reference_of(reference, history.classes, history.counts.sum(axis=0))
    else:
        centre = read_reference(reference)
        history = _over(history, centre)
    return suggest_radius(
        history, centre.distribution, set_name=set_name, quantile=quantile, confidence=confidence, seed=seed
    )


def _over(history: History, reference: Reference) -> History:
    """Lay out a history's counts over the classes of the reference."""
    place = {label: column for column, label in enumerate(reference.classes)}
    unknown = next((label for label in history.classes if label not in place), None)
    if unknown is not None:
        raise InputError(
            f"the history has the class {unknown!r}, which the reference ({reference.source}) does not name; add a row "
            "for it (a share of 0 will do)"
        )
    counts = np.zeros((len(history.names), len(reference.classes)), dtype=np.int64)
    counts[:, [place[label] for label in history.classes]] = history.counts
    return History(history.names, reference.classes, counts)
