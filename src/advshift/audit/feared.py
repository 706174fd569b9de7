"""Which mixes of classes an audit looks at: an uncertainty set, over a grid of its radii."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advshift.errors import InputError
from advshift.sets import SETS, UncertaintySet

__all__ = ["Feared", "feared_mixes", "parse_numbers"]

GRIDS = {
    "kl": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
    "reverse-kl": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
    "chi2": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
    "tv": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
    "frequency-cap": (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0),
}


@dataclass(frozen=True)
class Feared:
    """An uncertainty set with the radii to try; for `frequency-cap` a radius is a ratio, for `top-k` it is `k`."""

    name: str
    radii: tuple[float, ...]
    ranges: dict[str, Any] = field(default_factory=dict)

    @property
    def centre(self) -> float:
        """The radius at which the set holds its centre alone."""
        return 1.0 if self.name == "frequency-cap" else 0.0

    @property
    def has_radius(self) -> bool:
        """Whether there is one number to vary."""
        return self.name not in ("simplex", "box")

    def at(self, radii: Sequence[float]) -> UncertaintySet:
        """The sets of these radii, as one set with an array of radii."""
        kind: Any = SETS[self.name]
        if not self.has_radius:
            chosen: UncertaintySet = kind(**self.ranges)
        else:
            column = np.asarray(radii, dtype=np.float64)
            chosen = kind(column[:, None] if self.name == "frequency-cap" else column)
        return chosen


def feared_mixes(
    name: str | None,
    radii: Sequence[float] | None,
    max_ratios: Sequence[float] | None,
    *,
    classes: int,
    ranges: dict[str, Any] | None = None,
    also: float | None = None,
) -> Feared:
    """Choose the set and the grid of radii.

    Parameters
    ----------
    name
        One of `SETS`; None is `kl`, or `frequency-cap` where ratios are given.
    radii
        None takes a grid that suits the set.
    max_ratios
        "No class more than so many times as frequent": the ratios of `frequency-cap`.
    classes
        How many classes may carry mass.
    ranges
        `lower` and `upper` of every class, for `box`.
    also
        One more radius (or ratio, or k).

    >>> feared_mixes(None, None, [2.0], classes=10)
    Feared(name='frequency-cap', radii=(2.0,), ranges={})
    """
    if max_ratios is not None:
        if name not in (None, "frequency-cap") or radii is not None:
            raise InputError(
                "a largest ratio is a set of its own (no class more than so many times as frequent): give either "
                f"--max-ratio or --radii with --set {name or 'kl'}"
            )
        name, radii = "frequency-cap", max_ratios
    name = name or "kl"
    _ = SETS[name]
    if name in ("simplex", "box"):
        if radii is not None or also is not None:
            raise InputError(f"the set {name!r} has no radius; leave the radii out")
        if name == "box" and ranges is None:
            raise InputError("the set 'box' needs the range of each class's share: give --ranges FILE")
        return Feared(name, (math.inf if name == "simplex" else 1.0,), ranges or {})
    if radii is None:
        radii = _top_k_grid(classes) if name == "top-k" else GRIDS[name]
    return Feared(name, _checked(name, [*radii, *([] if also is None else [also])], classes))


def _top_k_grid(classes: int) -> tuple[float, ...]:
    return tuple(sorted({float(math.ceil(classes / divisor)) for divisor in (1, 2, 5, 10, 20, 50, 100)} | {1.0}))


def _checked(name: str, radii: Sequence[float], classes: int) -> tuple[float, ...]:
    least = {"frequency-cap": 1.0, "top-k": 1.0}.get(name, 0.0)
    word = {"frequency-cap": "ratio", "top-k": "k"}.get(name, "radius")
    if not len(radii):
        raise InputError(f"give at least one {word}")
    for radius in radii:
        if not radius >= least:
            raise InputError(f"a {word} must be a number from {least:g} up; got {radius:g}")
        if name == "top-k" and radius > classes:
            raise InputError(f"k must be at most the number of classes, {classes}; got {radius:g}")
    return tuple(sorted({float(radius) for radius in radii}))


def parse_numbers(text: str, what: str) -> tuple[float, ...]:
    """Read numbers that are separated by commas.

    >>> parse_numbers("0, 0.1, inf", "--radii")
    (0.0, 0.1, inf)
    """
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"{what} must be numbers separated by commas, such as 0,0.1,1; got {text!r}") from None
