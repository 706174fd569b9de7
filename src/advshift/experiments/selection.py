"""Which recorded runs belong together, and what their methods are called in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from advshift.errors import InputError
from advshift.experiments.records import Record

__all__ = ["name_of", "runs_of", "seeds_of"]

T = TypeVar("T")

NAMES = {
    "erm": "ERM",
    "advshift": "AdvShift",
    "exact": "exact adversary",
    "exact-late": "exact adversary, late",
    "agnostic": "agnostic",
    "tilted": "tilted",
    "group-dro": "group DRO",
    "class-cvar": "class CVaR",
    "balanced": "balanced",
    "class-balanced": "class-balanced",
    "ldam": "LDAM",
    "ldam-drw": "LDAM-DRW",
    "logit-adjusted": "logit adjustment",
    "balanced-softmax": "balanced softmax",
    "focal": "focal",
    "deferred": "deferred weights",
    "fixed": "FIXED",
    "continued": "as before",
    "robust": "exact adversary",
    "best": "chosen of our own",
    "erm-held-out": "ERM, a part held out",
    "advshift-uniform-start": "AdvShift, r = 0.1, uniform start",
}

WITH_NUMBER = {
    "fine-tune": "fine-tune, {} epochs",
    "clip": "clip {}",
    "short": "exact adversary, r = {}, after 15 epochs",
}


def name_of(method: str) -> str:
    """A method in words; a number behind it is its radius.

    >>> name_of("advshift-0.1"), name_of("fixed-2")
    ('AdvShift, r = 0.1', 'FIXED, τ = 2')
    """
    stem, _, number = method.rpartition("-")
    if number.replace(".", "").isdigit() and stem:
        if stem == "fixed":
            return f"FIXED, τ = {number}"
        if stem in ("tilted", "agnostic", "class-cvar"):
            return f"{NAMES[stem]}, {number}"
        if stem in WITH_NUMBER:
            return WITH_NUMBER[stem].format(number)
        return f"{NAMES.get(stem, stem)}, r = {number}"
    return NAMES.get(method, method.replace("-", " "))


def runs_of(records: Mapping[str, Record], group: str, method: str) -> list[Record]:
    """The finished runs of a method, by seed; an error where there are none."""
    found = [
        record
        for record in records.values()
        if record.about["group"] == group and record.about["method"] == method and record.finished
    ]
    if not found:
        raise InputError(f"no finished run of {method!r} in the group {group!r} is recorded")
    return sorted(found, key=lambda record: int(record.about["seed"]))


def seeds_of(runs: Sequence[Record], measure: Callable[[Record], T]) -> dict[int, T]:
    """What each seed's run measures."""
    return {int(run.about["seed"]): measure(run) for run in runs}
