"""The worst case of one model over a grid of radii: every estimate of it, and the interval that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np
from jaxtyping import Float

from advshift.audit.feared import Feared
from advshift.audit.folds import FOLDS
from advshift.audit.intervals import (
    REASONS,
    ClassSample,
    Difference,
    IntervalPoint,
    class_sample,
    compare_worst_cases,
    cross_fitted_value,
    fill_missing,
    lower_limits,
    upper_limits,
    worst_case_intervals,
)
from advshift.audit.intervals.delta import error_of_means, quantile
from advshift.audit.reading import Warned
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError
from advshift.sets import Simplex, UncertaintySet
from advshift.types import Array, WorstCase

__all__ = ["EmptyClass", "Estimates", "Model", "class_limits", "compare", "estimate", "model_of"]

EmptyClass = Literal["worst", "average", "exclude"]
Point = TypeVar("Point", IntervalPoint, Difference)
DEALS = 5  # how many times aggregated counts are dealt to folds
HALVINGS = 10  # how many ways of halving the folds cross-fitting averages over


@dataclass(frozen=True)
class Model:
    """One model's statistics over the reference's classes, and its risks with unknown ones filled in.

    `asked` is the reference as it was asked for; `reference` differs where classes without examples are excluded.
    """

    name: str
    statistics: ClassStatistics
    column: int
    sample: ClassSample
    risks: Float[Array, "classes"]
    reference: Float[Array, "classes"]
    asked: Float[Array, "classes"]
    empty_class: EmptyClass

    @property
    def average(self) -> float:
        """The risk at the reference."""
        return float(self.reference @ self.risks)


@dataclass
class Estimates:
    """Estimates for each radius; `cross_fitted` is nan where there is none."""

    plug_in: WorstCase
    points: list[IntervalPoint]
    cross_fitted: Float[Array, "radii"]
    warnings: list[Warned] = field(default_factory=list)


def model_of(
    name: str,
    statistics: ClassStatistics,
    column: int,
    reference: Float[Array, "classes"],
    bounds: tuple[float | int, float | int] | None,
    empty_class: EmptyClass,
) -> Model:
    """Sum up a model's statistics, and fill in the risks of classes that have no examples."""
    if empty_class not in get_args(EmptyClass):
        raise InputError(f"empty classes may be taken as {', '.join(get_args(EmptyClass))}; got {empty_class!r}")
    binary = statistics.binary[column]
    sums = statistics.sums[..., column].sum(axis=1)
    squares = statistics.products[..., column, column].sum(axis=1)
    limits = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    sample = class_sample(statistics.count, sums, squares, binary=binary, bounds=limits)
    risks, centre = fill_missing(sample, reference, empty_class)
    return Model(name, statistics, column, sample, risks, centre, reference, empty_class)


def estimate(model: Model, feared: Feared, *, confidence: float, generator: np.random.Generator) -> Estimates:
    """Estimate the worst case at every radius."""
    mixes = feared.at(feared.radii)
    value, distribution, multiplier, converged = mixes.worst_case(model.risks, model.reference)
    worst = WorstCase(
        np.atleast_1d(value), np.atleast_2d(distribution), np.atleast_1d(multiplier), np.atleast_1d(converged)
    )
    points = _at_all_radii(
        feared,
        lambda mixes: worst_case_intervals(
            model.sample, model.asked, mixes, confidence=confidence, missing=model.empty_class
        ),
    )
    cross_fitted, warnings = _cross_fitted(model, feared, generator)
    warnings += [*_fallbacks(model, feared, points), *_biased(model, feared, points)]
    return Estimates(worst, points, cross_fitted, warnings)


def class_limits(model: Model, confidence: float) -> tuple[Float[Array, "classes"], Float[Array, "classes"]]:
    """An interval of each class's risk on its own: exact or guaranteed for values with bounds, else normal."""
    if model.sample.bounds is not None:
        level = 0.5 - 0.5 * confidence
        return lower_limits(model.sample, level), upper_limits(model.sample, level)
    half = quantile(confidence) * error_of_means(model.sample)
    return model.sample.means - half, model.sample.means + half


def compare(first: Model, second: Model, feared: Feared, *, confidence: float) -> list[Difference]:
    """Compare two models on the same examples at every radius: the second's worst case less the first's."""
    products = first.statistics.products[..., first.column, second.column].sum(axis=1)
    return _at_all_radii(
        feared,
        lambda mixes: compare_worst_cases(
            first.sample,
            second.sample,
            products,
            first.asked,
            mixes,
            confidence=confidence,
            missing=first.empty_class,
        ),
    )


def _at_all_radii(feared: Feared, function: Callable[[UncertaintySet], list[Point]]) -> list[Point]:
    """Infer at finite radii, and at an infinite one (the last, if any) as for the worst class."""
    finite = [radius for radius in feared.radii if np.isfinite(radius)]
    found: list[Point] = []
    # Where an estimate leaves the range of numbers it is no estimate, and the interval is the guaranteed one.
    with np.errstate(all="ignore"):
        if finite:
            found += function(feared.at(finite))
        if len(finite) < len(feared.radii):
            found += function(Simplex())
    return found


def _cross_fitted(
    model: Model, feared: Feared, generator: np.random.Generator
) -> tuple[Float[Array, "radii"], list[Warned]]:
    """Choose the worst mix on one half of the folds and score it on the other, over several halvings."""
    deals, halvings, statistics = 1, HALVINGS, model.statistics
    try:
        if statistics.folds == 1:
            deals, halvings = DEALS, HALVINGS // DEALS
            _ = statistics.split(2, np.random.default_rng(0))
        found = [
            cross_fitted_value(
                *_by_fold(statistics.split(FOLDS, generator) if statistics.folds == 1 else statistics, model.column),
                model.reference,
                feared.at(feared.radii),
                repetitions=halvings,
                generator=generator,
            )
            for _ in range(deals)
        ]
    except InputError as error:
        unknown = np.full(len(feared.radii), np.nan)
        return unknown, [Warned("no-cross-fitting", f"{model.name}: there is no cross-fitted value, since {error}.")]
    return np.atleast_1d(np.mean(found, axis=0)), []


def _by_fold(
    statistics: ClassStatistics, column: int
) -> tuple[Float[Array, "classes folds"], Float[Array, "classes folds"]]:
    return statistics.counts.astype(np.float64), statistics.sums[..., column]


def _fallbacks(model: Model, feared: Feared, points: Sequence[IntervalPoint]) -> list[Warned]:
    """Say in a sentence why an interval is not the de-biased one."""
    places: dict[str, list[float]] = {}
    for radius, point in zip(feared.radii, points, strict=True):
        if point.reason is not None:
            places.setdefault(point.reason, []).append(radius)
    return [
        Warned(f"interval-{reason}", f"{model.name}{_at(feared, radii)}: {REASONS[reason]}.")
        for reason, radii in places.items()
    ]


def _at(feared: Feared, radii: Sequence[float]) -> str:
    """Name radii, unless they are all."""
    if len(radii) == len(feared.radii):
        return ""
    word = {"frequency-cap": "ratio", "top-k": "k"}.get(feared.name, "radius")
    return f", at {word} " + ", ".join(f"{radius:g}" for radius in radii)


def _biased(model: Model, feared: Feared, points: Sequence[IntervalPoint]) -> list[Warned]:
    """Say where the plug-in value lies above the interval of what it estimates."""
    biased = [
        (point.plug_in - point.debiased, radius)
        for radius, point in zip(feared.radii, points, strict=True)
        if point.interval == "debiased" and point.debiased is not None and point.plug_in > (point.upper or np.inf)
    ]
    if not biased:
        return []
    most, radius = max(biased)
    message = (
        f"{model.name}{_at(feared, [radius for _, radius in biased])}: the plug-in value is badly biased. It chooses "
        "the worst mix on the very examples that it scores, so chance makes it too large, by about "
        f"{most:.3g} at {radius:g}; read the de-biased value."
    )
    return [Warned("plug-in-biased", message)]
