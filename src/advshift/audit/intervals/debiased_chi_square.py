"""The chi-square ball's worst case without the plug-in's bias.

    V = min_η √(1+2r)·√Q(η) + η,    Q(η) = Σ p_y (e_y − η)₊²

The mean of `(m−η)₊²` is too large by the variance of `m` where `m > η`; at the kink the two sides' errors cancel.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from advshift.audit.intervals.band import DualBand, MinimumInterval, minimum_interval, trust
from advshift.audit.intervals.debiased_kl import freedom_of, reach, rescale, scale_of, studentised
from advshift.audit.intervals.delta import error_of_means
from advshift.audit.intervals.sample import ClassSample
from advshift.types import Array

__all__ = ["debiased_chi_square"]

_STEP = 0.05  # of the grid, in the logarithm of the distance from the largest risk
_NEAREST = 2e-3  # distance at which the grid ends; the estimate is not to be trusted long before


def debiased_chi_square(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    radii: Float[Array, "radii"],
    *,
    confidence: float = 0.95,
    reference_size: int | None = None,
) -> tuple[MinimumInterval, DualBand]:
    """The de-biased worst case over chi-square balls, with its interval, for positive radii.

    Every class must have examples.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50, 50], [5, 10], binary=True)
    >>> found, _ = debiased_chi_square(sample, np.array([0.5, 0.5]), np.array([0.1]))
    >>> bool(found.low[0] < found.value[0] < found.high[0])
    True
    """
    shift, scale = scale_of(sample)
    scaled = rescale(sample, shift, scale)
    thresholds = _thresholds(scaled, float(radii.min()))
    band = _band(scaled, reference, thresholds, confidence, reference_size)
    stretch = np.sqrt(1.0 + 2.0 * radii)[:, None]
    offset = np.broadcast_to(thresholds, (len(radii), len(thresholds)))
    found = minimum_interval(band, offset, stretch, _beyond(band, thresholds, stretch[:, 0]))
    value, low, high = (shift + scale * part for part in found[:3])
    return found._replace(value=value, low=low, high=high), band


def _beyond(band: DualBand, thresholds: Array, stretch: Array) -> Float[Array, "radii"]:
    """A lower limit of the dual at all thresholds beyond the last trusted one.

    `√Q` is convex in `η`, so that the dual rises beyond a point where its slope is positive already. And `√Q + η` does
    not fall.
    """
    last = band.last
    floor = np.full(len(stretch), thresholds[last] + band.low[last])
    return np.where(1.0 + stretch * band.slope[last] >= 0.0, np.inf, floor)


def _slope(
    thresholds: Array, roots: Float[Array, "points"], errors: Float[Array, "classes points"], z: Array | float
) -> Float[Array, "points"]:
    """A lower limit of the mean slope of `√Q` over the last halving of the distance from the largest risk.

    `errors` are the classes' standard deviations of `√Q`; a class's errors at two thresholds go together.
    """
    steps = int(np.rint(np.log(2.0) / _STEP))
    slope = np.full(len(thresholds), -np.inf)
    noise = np.sqrt(((errors[:, steps:] - errors[:, :-steps]) ** 2).sum(axis=0))
    z = np.broadcast_to(z, len(thresholds))[steps:]
    slope[steps:] = (roots[steps:] - roots[:-steps] - z * noise) / (thresholds[steps:] - thresholds[:-steps])
    return slope


def _thresholds(sample: ClassSample, smallest: float) -> Float[Array, "points"]:
    """Thresholds `η` from below the solution for the smallest radius, at least `mean − range/√(8r)`, to the top."""
    top = float(sample.means.max())
    widest = 1.1 * (1.0 + 1.0 / np.sqrt(8.0 * max(smallest, 1e-9)))
    return top - np.exp(np.arange(np.log(widest), np.log(_NEAREST), -_STEP))


def _band(
    sample: ClassSample, reference: Array, thresholds: Array, confidence: float, reference_size: int | None
) -> DualBand:
    """Limits of `√Q(η)` along the thresholds."""
    mass = reference[:, None]
    above = sample.means[:, None] - thresholds
    positive = np.maximum(above, 0.0)
    errors = error_of_means(sample)[:, None]
    own = (sample.variances / sample.counts)[:, None]
    total = (mass * np.where(above > 0, positive**2 - own, 0.0)).sum(axis=0)
    total = np.maximum(total, 1e-30)
    parts = mass**2 * _variance_of_square(above, errors)
    variance = parts.sum(axis=0)
    shares = parts / np.maximum(variance, np.finfo(float).tiny)
    if reference_size is not None:
        spread = (mass * positive**4).sum(axis=0) - total**2
        variance = variance + np.maximum(spread, 0.0) / reference_size
    relative = np.sqrt(variance) / total
    centre = np.sqrt(total) * (1.0 + relative**2 / 8.0)
    z = studentised(sample, shares, confidence)
    normal = 0.5 * z * relative * np.sqrt(total)
    down, up = reach(sample, np.sqrt(shares), z)
    below = np.maximum(normal, (mass * positive * down).sum(axis=0) / np.sqrt(total))
    reached = (mass * np.maximum(above + up, 0.0) ** 2).sum(axis=0) - (mass * positive**2).sum(axis=0)
    higher = np.maximum(normal, np.sqrt(total + np.maximum(reached, 0.0)) - np.sqrt(total))
    single = np.sqrt((shares * (2.0 * errors / np.maximum(positive, errors)) ** 2).sum(axis=0))
    deciding = 1.0 / np.maximum((shares**2).sum(axis=0), np.finfo(float).tiny)
    trusted = trust(relative, single, deciding, freedom_of(sample, shares), bounded=sample.bounds is not None)
    slope = _slope(thresholds, centre, 0.5 * np.sqrt(parts / total), z)
    return DualBand(centre, centre - below, centre + higher, trusted, deciding, slope)


def _variance_of_square(above: Array, errors: Array) -> Float[Array, "classes points"]:
    """The variance of `(above + error·Z)₊²` for a standard normal `Z`."""
    ratio = above / errors
    share = ndtr(ratio)
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi)
    second = (ratio**2 + 1.0) * share + ratio * density
    fourth = (ratio**4 + 6.0 * ratio**2 + 3.0) * share + (ratio**3 + 5.0 * ratio) * density
    return errors**4 * np.maximum(fourth - second**2, 0.0)
