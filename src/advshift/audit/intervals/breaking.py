"""The breaking point's interval, from the band around the curve of worst cases; and what each class's risk is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from advshift.audit.intervals.curve import IntervalPoint
from advshift.audit.intervals.sample import ClassSample, Missing, fill_missing
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["breaking_interval", "marginal_effects"]


def breaking_interval(points: Sequence[IntervalPoint], target: float) -> tuple[float, float]:
    """Where the worst case may reach a target: the radii at which the upper and at which the lower limits reach it.

    A radius is kept as possible while the interval there holds the target, so that the true breaking point is kept
    with the intervals' confidence. Between the points' radii the limits are joined by straight lines; the worst case is
    concave in the radius, so that a fine grid is wanted where it bends.

    Returns
    -------
    tuple
        The smallest and the largest possible radius: 0 if the first upper limit reaches the target, infinity where
        no lower limit does.

    >>> points = [IntervalPoint(r, r, r, r - 0.1, r + 0.1, "debiased", None, None) for r in (0.0, 0.5, 1.0)]
    >>> low, high = breaking_interval(points, 0.4)
    >>> round(low, 6), round(high, 6)
    (0.3, 0.5)
    """
    ordered = sorted((point for point in points if point.radius is not None), key=lambda point: point.radius or 0.0)
    if not ordered:
        raise InputError("a breaking point needs a set with a radius, and its curve at some radii")
    radii = np.array([point.radius for point in ordered], dtype=np.float64)
    upper = np.array([np.inf if point.upper is None else point.upper for point in ordered])
    lower = np.array([-np.inf if point.lower is None else point.lower for point in ordered])
    return _first_reach(radii, upper, target, before=0.0), _first_reach(radii, lower, target, before=float(radii[0]))


def _first_reach(radii: Array, limits: Array, target: float, *, before: float) -> float:
    """The first radius at which a line through the limits reaches the target."""
    reached = np.flatnonzero(limits >= target)
    if not len(reached):
        return float("inf")
    place = int(reached[0])
    if place == 0:
        return before
    left, right = float(limits[place - 1]), float(limits[place])
    if not np.isfinite(left) or not np.isfinite(right):
        return float(radii[place - 1] if np.isfinite(left) or right == np.inf else radii[place])
    part = (target - left) / (right - left)
    return float(radii[place - 1] + part * (radii[place] - radii[place - 1]))


def marginal_effects(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    missing: Missing = "worst",
) -> Float[Array, "*radii classes"]:
    """How much the worst case falls when a class's risk falls by a little: its share in the worst mix (Danskin).

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50, 50], [5, 10], binary=True)
    >>> marginal_effects(sample, np.array([0.5, 0.5]), KLBall(0.1)).round(3).tolist()
    [0.28, 0.72]
    """
    risks, centre = fill_missing(sample, reference, missing)
    return as_numpy(uncertainty_set.worst_case(risks, centre).distribution)
