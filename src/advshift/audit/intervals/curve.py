"""All that is said of a model at each radius: plug-in, de-biased and guaranteed values, and which interval is shown."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.audit.intervals.band import MinimumInterval
from advshift.audit.intervals.debiased_chi_square import debiased_chi_square
from advshift.audit.intervals.debiased_kl import debiased_kl, reach, studentised
from advshift.audit.intervals.delta import error_of_means
from advshift.audit.intervals.dual_bound import dual_upper
from advshift.audit.intervals.exponential import ExponentialTerms
from advshift.audit.intervals.limits import union_lower, union_upper
from advshift.audit.intervals.sample import ClassSample, Missing, fill_missing
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import ChiSquareBall, KLBall, UncertaintySet
from advshift.types import Array

__all__ = ["REASONS", "IntervalPoint", "guaranteed_upper", "worst_case_intervals"]

REASONS = {
    "empty-classes": "classes of the reference have no examples, so that their risk is unknown; the interval is the "
    "guaranteed one, which allows for any risk there",
    "no-smooth-dual": "the worst case over this set is not smooth in the class risks, so that its bias cannot be "
    "removed; the interval is the guaranteed one",
    "few-decide": "the worst case rests on so few examples or classes that a normal approximation cannot be trusted; "
    "the interval is the guaranteed one",
    "not-narrower": "the de-biased interval would reach beyond the guaranteed bound; the interval is the guaranteed "
    "one",
    "unbounded": "the values have no bounds, so that no guaranteed bound exists, and the de-biased interval cannot be "
    "trusted here: no interval is shown",
}


class IntervalPoint(NamedTuple):
    """What is said at one radius; None stands for what cannot be said.

    Attributes
    ----------
    radius
        The radius, or None for a set without one.
    plug_in
        The worst case of the observed class risks: too large on average.
    debiased
        The estimate of the true class risks' worst case without that bias; never above the plug-in value.
    lower, upper
        The interval that is shown: the worst case of the true class risks lies in it with the confidence asked for.
    interval
        Of which kind it is; None if there is none.
    guaranteed_upper
        A proven bound, exceeded with at most one minus the confidence, whatever the class risks are.
    reason
        Why the de-biased interval is not the one that is shown, a key of `REASONS`; None where it is.
    """

    radius: float | None
    plug_in: float
    debiased: float | None
    lower: float | None
    upper: float | None
    interval: Literal["debiased", "guaranteed"] | None
    guaranteed_upper: float | None
    reason: str | None


def worst_case_intervals(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    confidence: float = 0.95,
    missing: Missing = "worst",
    reference_size: int | None = None,
    terms: ExponentialTerms | None = None,
) -> list[IntervalPoint]:
    """Infer the worst case of the *true* class risks over a set, at each of its radii.

    Parameters
    ----------
    sample
        The metric's statistics by class.
    reference
        The label distribution around which the mix moves.
    uncertainty_set
        The set; its radius may be an array of shape `(radii,)`.
    confidence
        Of the two-sided interval, and of the guaranteed bound.
    missing
        What is assumed of a class without examples, see `fill_missing`. Only `"exclude"` leaves a de-biased interval.
    reference_size
        From how many labels the reference was estimated, if its own error is to be counted in the de-biased interval.
        The guaranteed bound is always for the reference as given.
    terms
        What `exponential_terms` gives at `rate_grid` of the smallest positive radius, if it is at hand.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([100] * 50, [10] * 25 + [30] * 25, binary=True)
    >>> point, = worst_case_intervals(sample, np.full(50, 0.02), KLBall(np.array([0.1])))
    >>> point.interval, round(point.plug_in, 3), point.lower < point.debiased < point.upper < point.guaranteed_upper
    ('debiased', 0.244, True)
    """
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1; got {confidence!r}")
    risks, centre = fill_missing(sample, reference, missing)
    plug_in = np.atleast_1d(as_numpy(uncertainty_set.worst_case(risks, centre).value))
    radii = _radii(uncertainty_set, len(plug_in))
    bounded = sample.bounds is not None
    level = 1.0 - confidence
    bound = guaranteed_upper(sample, centre, uncertainty_set, level=level) if bounded else np.full(len(plug_in), np.nan)
    found, reason = _debiased(sample, centre, uncertainty_set, confidence, reference_size, terms, len(plug_in))
    low, high = _within(sample, found.low), _within(sample, found.high)
    shown = np.isfinite(low) & np.isfinite(high) & ~(high > bound)
    fallback = _guaranteed(sample, centre, uncertainty_set, level, bool(shown.all()) or not bounded, len(plug_in))
    points = []
    for place in range(len(plug_in)):
        why = reason or ("not-narrower" if np.isfinite(low[place]) else "few-decide")
        ends = (low[place], high[place]) if shown[place] else (fallback[0][place], fallback[1][place])
        kind: Literal["debiased", "guaranteed"] = "debiased" if shown[place] else "guaranteed"
        points.append(
            IntervalPoint(
                radius=None if radii is None else float(radii[place]),
                plug_in=float(plug_in[place]),
                debiased=_number(min(_within(sample, found.value[place]), plug_in[place])),
                lower=_number(ends[0]),
                upper=_number(ends[1]),
                interval=kind if np.isfinite(ends[0]) else None,
                guaranteed_upper=_number(bound[place]),
                reason=None if shown[place] else why if bounded else "unbounded",
            )
        )
    return points


def guaranteed_upper(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    level: float = 0.05,
) -> Float[Array, "radii"]:
    """A bound that each radius's worst case exceeds with probability at most `level`: proven, for values with bounds.

    For KL balls half of the level goes to the union over the classes' limits and half to the bound through the dual;
    the smaller counts. For other sets the union has it all.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50] * 100, [10] * 100, binary=True)
    >>> guaranteed_upper(sample, np.full(100, 0.01), KLBall(np.array([0.1]))).round(2).tolist()
    [0.25]
    """
    if not isinstance(uncertainty_set, KLBall):
        return np.atleast_1d(union_upper(sample, reference, uncertainty_set, level=level))
    union = np.atleast_1d(union_upper(sample, reference, uncertainty_set, level=0.5 * level))
    dual = dual_upper(sample, reference, np.atleast_1d(as_numpy(uncertainty_set.radius) + 0.0), level=0.5 * level)
    return np.minimum(union, dual)


def _radii(uncertainty_set: UncertaintySet, count: int) -> Float[Array, "radii"] | None:
    """The radii of the points; None for a set that has no radius of one number per point."""
    first = next(iter(uncertainty_set.parameters.values()), None)
    values = as_numpy(first).reshape(-1) if first is not None else np.zeros(0)
    return values.astype(np.float64) if values.shape == (count,) else None


def _debiased(
    sample: ClassSample,
    reference: Array,
    uncertainty_set: UncertaintySet,
    confidence: float,
    reference_size: int | None,
    terms: ExponentialTerms | None,
    count: int,
) -> tuple[MinimumInterval, str | None]:
    """The de-biased interval, or nothing and the reason."""
    kept = reference > 0
    if not isinstance(uncertainty_set, KLBall | ChiSquareBall):
        return _nothing(count), "no-smooth-dual"
    radii = np.atleast_1d(as_numpy(uncertainty_set.radius) + 0.0)
    if not bool(sample.observed[kept].all()):
        return _nothing(len(radii)), "empty-classes"
    part, mass = sample.select(kept), reference[kept] / reference[kept].sum()
    found = _nothing(len(radii))
    moved = radii > 0
    if moved.any():
        if isinstance(uncertainty_set, KLBall):
            own = None if terms is None else terms.take(np.flatnonzero(kept))
            band, _ = debiased_kl(
                part, mass, radii[moved], confidence=confidence, reference_size=reference_size, terms=own
            )
        else:
            band, _ = debiased_chi_square(
                part, mass, radii[moved], confidence=confidence, reference_size=reference_size
            )
        for whole, piece in zip(found, band, strict=True):
            whole[moved] = piece
    if not moved.all():
        for whole, number in zip(found[:3], _average(part, mass, confidence, reference_size), strict=True):
            whole[~moved] = number
    return found, None


def _average(
    sample: ClassSample, mass: Array, confidence: float, reference_size: int | None
) -> tuple[float, float, float]:
    """The risk at the reference itself, which the plug-in estimates without bias, and its interval."""
    parts = (mass * error_of_means(sample)) ** 2
    shares = (parts / parts.sum())[:, None]
    value = float(mass @ sample.means)
    variance = float(parts.sum())
    if reference_size is not None:
        variance += float(mass @ (sample.means - value) ** 2) / reference_size
    z = studentised(sample, shares, confidence)
    down, up = reach(sample, np.sqrt(shares), z)
    normal = float(np.max(z)) * np.sqrt(variance)
    return value, value - max(normal, float(mass @ down[:, 0])), value + max(normal, float(mass @ up[:, 0]))


def _guaranteed(
    sample: ClassSample, reference: Array, uncertainty_set: UncertaintySet, level: float, unused: bool, count: int
) -> tuple[Float[Array, "radii"], Float[Array, "radii"]]:
    """The two-sided guaranteed interval, half of the level on each side; not computed where it is not shown."""
    if unused:
        return np.full(count, np.nan), np.full(count, np.nan)
    lower = np.atleast_1d(union_lower(sample, reference, uncertainty_set, level=0.5 * level))
    return lower, guaranteed_upper(sample, reference, uncertainty_set, level=0.5 * level)


def _nothing(count: int) -> MinimumInterval:
    value, low, high = (np.full(count, np.nan) for _ in range(3))
    return MinimumInterval(value, low, high, np.zeros(count, int), np.zeros(count, bool))


def _within(sample: ClassSample, value: Array) -> Array:
    return value if sample.bounds is None else np.clip(value, *sample.bounds)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
