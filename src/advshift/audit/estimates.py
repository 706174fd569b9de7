"""The worst case of one model over a grid of radii: every estimate of it, and the interval that is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from advshift.audit.feared import Feared
from advshift.audit.reading import Warned
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError
from advshift.types import Array, WorstCase

__all__ = ["EmptyClass", "Estimates", "Model", "estimate"]

EmptyClass = Literal["worst", "average", "exclude"]


@dataclass(frozen=True)
class Model:
    """One model's statistics over the reference's classes, and its risks with unknown ones filled in.

    `reference` differs from the one asked for where classes without examples are excluded.
    """

    name: str
    statistics: ClassStatistics
    column: int
    risks: Float[Array, "classes"]
    reference: Float[Array, "classes"]
    bounds: tuple[float | int, float | int] | None
    binary: bool

    @property
    def average(self) -> float:
        """The risk at the reference."""
        return float(self.reference @ self.risks)


@dataclass
class Estimates:
    """Estimates for each radius; an array of nan where there is none."""

    plug_in: WorstCase
    debiased: Any
    lower: Any
    upper: Any
    interval: list[str | None]
    cross_fitted: Any
    guaranteed_upper: Any
    warnings: list[Warned] = field(default_factory=list)


def model_of(
    name: str,
    statistics: ClassStatistics,
    column: int,
    reference: Float[Array, "classes"],
    bounds: tuple[float | int, float | int] | None,
    empty_class: EmptyClass,
) -> Model:
    """Fill in the risks of classes that have no examples."""
    if empty_class not in get_args(EmptyClass):
        raise InputError(f"empty classes may be taken as {', '.join(get_args(EmptyClass))}; got {empty_class!r}")
    binary = statistics.binary[column]
    bounds = (0.0, 1.0) if binary and bounds is None else bounds
    known = statistics.count > 0
    weights = np.where(known, reference, 0.0)
    if not weights.sum() > 0:
        raise InputError("no class that the reference gives mass to has examples; nothing can be said of its risk")
    means = np.where(known, statistics.means[:, column], 0.0)
    average = float(weights @ means / weights.sum())
    top = float(means[known].max()) if bounds is None else bounds[1]
    risks = np.where(known, means, top if empty_class == "worst" else average)
    if empty_class == "exclude":
        reference = weights / weights.sum()
    return Model(name, statistics, column, risks, reference, bounds, binary)


def estimate(model: Model, feared: Feared) -> Estimates:
    """Estimate the worst case at every radius."""
    worst = feared.at(feared.radii).worst_case(model.risks, model.reference)
    value, distribution, multiplier, converged = worst
    worst = WorstCase(
        np.atleast_1d(value), np.atleast_2d(distribution), np.atleast_1d(multiplier), np.atleast_1d(converged)
    )
    unknown = np.full(len(feared.radii), np.nan)
    return Estimates(worst, unknown, unknown, unknown, [None] * len(feared.radii), unknown, unknown)
