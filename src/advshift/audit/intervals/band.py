"""A confidence band along a dual, and the interval of its minimum.

The worst case is the minimum of a dual function of one variable: `V = min_x a(x) + b(x)·W(x)`. With an estimate of
`W(x)` and a limit on either side at every point of a grid:

- from above, `V` is at most the dual at *any* point, so the smallest upper limit along the band is a limit for `V`;
- from below, the smallest lower limit along the band cannot exceed the lower limit at the minimiser, wherever that
  is, so it fails no more often than the limit at one point does. Beyond the last point that can be trusted the dual
  is bounded from below by convexity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from advshift.types import Array

__all__ = ["DualBand", "MinimumInterval", "minimum_interval", "trust"]

_RELATIVE = 0.2  # relative standard deviation of the dual's sum up to which its root or logarithm is nearly normal
_SINGLE = 0.7  # the same of the terms that decide, up to which their skewness does no harm
_SHARED = 4.0  # deciding classes above which their terms' skewness averages out
_UNBOUNDED_SINGLE = 0.5  # for values without bounds, whose own skewness is unknown
_UNBOUNDED_CLASSES = 4.0  # for these, how many classes must share the decision
_UNBOUNDED_FREEDOM = 40.0  # and how well the variance must be known


class DualBand(NamedTuple):
    """Estimates of `W` along a grid, their limits, and up to where the grid can be trusted.

    `deciding` is the effective number of classes that the variance comes from, `slope` a lower limit of the slope that
    the convex function behind `W` has from each point on.
    """

    centre: Float[Array, "points"]
    low: Float[Array, "points"]
    high: Float[Array, "points"]
    trusted: Bool[Array, "points"]
    deciding: Float[Array, "points"]
    slope: Float[Array, "points"]

    @property
    def last(self) -> int:
        """The last point that can be trusted; -1 if none can."""
        return int(self.trusted.sum()) - 1


def trust(
    relative: Float[Array, "points"],
    single: Float[Array, "points"],
    deciding: Float[Array, "points"],
    freedom: Float[Array, "points"],
    *,
    bounded: bool,
    exact: bool = False,
) -> Bool[Array, "points"]:
    """The points up to the first at which the normal approximation fails.

    Parameters
    ----------
    relative
        The relative standard deviation of the sum that the dual takes the root or logarithm of.
    single
        The same for one of its terms, averaged over the classes by their part of the variance.
    deciding
        The effective number of classes that the variance comes from.
    freedom
        The degrees of freedom of that variance.
    bounded
        Whether the values have bounds; without them their skewness is unknown, and more is asked.
    exact
        Whether the terms are unbiased at any order, so that noisy ones do no harm where many are averaged.
    """
    limit = np.full(relative.shape, _SINGLE if bounded else _UNBOUNDED_SINGLE)
    if exact:
        limit *= np.sqrt(np.maximum(deciding / _SHARED, 1.0))
    fine = (relative < _RELATIVE) & (single < limit)
    if not bounded:
        fine &= (deciding >= _UNBOUNDED_CLASSES) & (freedom >= _UNBOUNDED_FREEDOM)
    return np.logical_and.accumulate(fine)


class MinimumInterval(NamedTuple):
    """The dual's minimum with its limits, one for each radius.

    `at` is the place of the smallest upper limit on the grid, `edge` tells that it is the last trusted point.
    """

    value: Float[Array, "radii"]
    low: Float[Array, "radii"]
    high: Float[Array, "radii"]
    at: Int[Array, "radii"]
    edge: Bool[Array, "radii"]


def minimum_interval(
    band: DualBand,
    offset: Float[Array, "radii points"],
    scale: Float[Array, "radii 1"],
    beyond: Float[Array, "radii"],
) -> MinimumInterval:
    """The interval of `min_x offset + scale·W`; `beyond` bounds it from below at all points after the trusted ones."""
    last = band.last
    if last < 0:
        nothing = np.full(len(offset), np.nan)
        return MinimumInterval(nothing, nothing, nothing, np.zeros(len(offset), int), np.ones(len(offset), bool))
    kept = slice(0, last + 1)
    lows = offset[:, kept] + scale * band.low[kept]
    highs = offset[:, kept] + scale * band.high[kept]
    low = np.minimum(_smallest(lows), beyond)
    at = highs.argmin(axis=1)
    value = _smallest(offset[:, kept] + scale * band.centre[kept])
    high = highs.min(axis=1)
    return MinimumInterval(np.clip(value, low, high), low, high, at, at == last)


def _smallest(values: Float[Array, "radii points"]) -> Float[Array, "radii"]:
    """The minimum of a sampled smooth function, refined by the parabola through the lowest point's neighbours."""
    rows, place = np.arange(len(values)), values.argmin(axis=1)
    if values.shape[1] < 3:
        return values[rows, place]
    middle = np.clip(place, 1, values.shape[1] - 2)
    before, here, after = (values[rows, middle + step] for step in (-1, 0, 1))
    curvature = before - 2.0 * here + after
    drop = (after - before) ** 2 / (8.0 * np.where(curvature > 0, curvature, np.inf))
    return np.where(middle == place, here - drop, values[rows, place])
