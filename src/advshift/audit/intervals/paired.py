"""Two models on the same examples: the difference of their worst cases, each under its own adversary."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.audit.intervals.curve import IntervalPoint, worst_case_intervals
from advshift.audit.intervals.delta import error_of_means
from advshift.audit.intervals.sample import ClassSample, Missing, fill_missing
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["Difference", "compare_worst_cases"]


class Difference(NamedTuple):
    """The second model's worst case less the first one's at a radius; None stands for what cannot be said."""

    radius: float | None
    difference: float
    lower: float | None
    upper: float | None


def compare_worst_cases(
    first: ClassSample,
    second: ClassSample,
    products: Float[Array, "classes"],
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    confidence: float = 0.95,
    missing: Missing = "worst",
    reference_size: int | None = None,
) -> list[Difference]:
    """Compare worst cases with an interval that knows how the models' values go together within each class.

    The limits of the two worst cases, at distances `a` and `b` from their estimates on the sides that matter, are
    combined as in Zou and Donner's method of variance estimates recovery, `√(a² + b² − 2ρab)`. The correlation `ρ` is
    that of the first-order influences, `Σ π₁ π₂ cov/n` over the product of the standard deviations. Where either
    interval is the guaranteed one, both are, at half of the level each, and they are simply subtracted.

    Parameters
    ----------
    first, second
        The two models' statistics; the counts are those of the same examples.
    products
        Per class the sum over its examples of the product of the two models' values.
    reference, uncertainty_set, confidence, missing, reference_size
        As in `worst_case_intervals`.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> first = class_sample([100] * 20, [20] * 10 + [30] * 10, binary=True)
    >>> second = class_sample([100] * 20, [15] * 10 + [25] * 10, binary=True)
    >>> products = np.array([12.0] * 10 + [20.0] * 10)
    >>> found, = compare_worst_cases(first, second, products, np.full(20, 0.05), KLBall(np.array([0.1])))
    >>> round(found.difference, 2), found.upper < 0
    (-0.05, True)
    """
    if not np.array_equal(first.counts, second.counts):
        raise InputError("a paired comparison needs the same examples for both models, but their counts differ")
    if np.shape(products) != first.counts.shape:
        raise InputError(f"products must hold one number per class: {len(first.counts)}; got {np.shape(products)}")
    infer = partial(
        worst_case_intervals,
        reference=reference,
        uncertainty_set=uncertainty_set,
        missing=missing,
        reference_size=reference_size,
    )
    curves = [infer(sample, confidence=confidence) for sample in (first, second)]
    correlation = _correlation(first, second, products, reference, uncertainty_set, missing)
    apart = 0.5 + 0.5 * confidence
    wide: list[list[IntervalPoint]] | None = None
    differences = []
    for place, (one, two) in enumerate(zip(*curves, strict=True)):
        if one.interval == two.interval == "debiased":
            differences.append(_joined(one, two, float(correlation[place])))
            continue
        if wide is None:
            wide = [infer(sample, confidence=apart) for sample in (first, second)]
        differences.append(_subtracted(wide[0][place], wide[1][place]))
    return differences


def _joined(one: IntervalPoint, two: IntervalPoint, correlation: float) -> Difference:
    ends = [one.lower, one.debiased, one.upper, two.lower, two.debiased, two.upper]
    low, middle, high, low_two, middle_two, high_two = (float(end) for end in ends if end is not None)
    difference = middle_two - middle
    down = _combined(middle_two - low_two, high - middle, correlation)
    up = _combined(high_two - middle_two, middle - low, correlation)
    return Difference(one.radius, difference, difference - down, difference + up)


def _combined(one: float, two: float, correlation: float) -> float:
    return float(np.sqrt(max(one**2 + two**2 - 2.0 * correlation * one * two, 0.0)))


def _subtracted(one: IntervalPoint, two: IntervalPoint) -> Difference:
    estimates = [point.plug_in if point.debiased is None else point.debiased for point in (one, two)]
    difference = estimates[1] - estimates[0]
    if one.lower is None or one.upper is None or two.lower is None or two.upper is None:
        return Difference(one.radius, difference, None, None)
    lower, upper = two.lower - one.upper, two.upper - one.lower
    return Difference(one.radius, float(np.clip(difference, lower, upper)), lower, upper)


def _correlation(
    first: ClassSample,
    second: ClassSample,
    products: Array,
    reference: Array,
    uncertainty_set: UncertaintySet,
    missing: Missing,
) -> Float[Array, "radii"]:
    """The correlation of the worst cases' first-order errors; a class with one example counts as uncorrelated."""
    influences, errors = [], []
    for sample in (first, second):
        risks, centre = fill_missing(sample, reference, missing)
        worst = uncertainty_set.worst_case(risks, centre)
        influences.append(np.atleast_2d(as_numpy(worst.distribution)))
        errors.append(np.where(sample.observed, error_of_means(sample), 0.0))
    counts = np.maximum(first.counts, 1.0)
    scatter = products - first.sums * second.sums / counts
    covariance = np.where(first.counts > 1, scatter / np.maximum(counts - 1.0, 1.0) / counts, 0.0)
    joint = (influences[0] * influences[1] * covariance).sum(axis=1)
    variances = [((part * error) ** 2).sum(axis=1) for part, error in zip(influences, errors, strict=True)]
    return np.clip(joint / np.sqrt(variances[0] * variances[1]), -1.0, 1.0)
