"""The KL ball's worst case without the plug-in's bias: its dual needs one sum, and that can be estimated unbiasedly.

V = min_λ r/λ + log S(λ)/λ,    S(λ) = Σ p_y exp(λ e_y)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from advshift.audit.intervals.band import DualBand, MinimumInterval, minimum_interval, trust
from advshift.audit.intervals.delta import error_of_means, quantile
from advshift.audit.intervals.exponential import ExponentialTerms, exponential_terms
from advshift.audit.intervals.sample import ClassSample
from advshift.types import Array

__all__ = ["debiased_kl", "freedom_of", "kl_band", "rate_grid", "reach", "rescale", "scale_of", "studentised"]

_STEP = 0.07  # of the grid, in the logarithm of the rate: the dual is flat at its minimum
_LARGEST = 600.0  # exponent of a limit; no such limit is trusted
_HIGHEST = 300.0  # rate, in units of the inverse range of the risks: its double still fits in a float


def rate_grid(smallest: float) -> Float[Array, "rates"]:
    """Rates that reach from below the solution for the smallest positive radius up to the largest that fits.

    For risks of range 1 the divergence at rate `λ` is at most `λ²/8` (Hoeffding), so the solution is at least `√(8r)`.
    """
    start = 0.9 * np.sqrt(8.0 * max(smallest, 1e-9))
    return np.exp(np.arange(np.log(start), np.log(max(_HIGHEST, 2.0 * start)), _STEP))


def debiased_kl(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    radii: Float[Array, "radii"],
    *,
    confidence: float = 0.95,
    reference_size: int | None = None,
    terms: ExponentialTerms | None = None,
) -> tuple[MinimumInterval, DualBand]:
    """The de-biased worst case over KL balls, with its interval, for positive radii.

    Every class must have examples. `terms` may hold what `exponential_terms` gives at the rates of `rate_grid`.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50, 50], [5, 10], binary=True)
    >>> found, _ = debiased_kl(sample, np.array([0.5, 0.5]), np.array([0.1]))
    >>> bool(found.low[0] < found.value[0] < found.high[0])
    True
    """
    shift, scale = (0.0, 1.0) if sample.binary else scale_of(sample)
    scaled = sample if sample.binary else rescale(sample, shift, scale)
    rates = rate_grid(float(radii.min()))
    terms = exponential_terms(scaled, rates) if terms is None else terms
    band = kl_band(scaled, reference, rates, terms, confidence=confidence, reference_size=reference_size)
    offset = radii[:, None] / rates
    found = minimum_interval(band, offset, np.ones((len(radii), 1)), _beyond(band, rates, radii))
    value, low, high = (shift + scale * part for part in found[:3])
    return found._replace(value=value, low=low, high=high), band


def _beyond(band: DualBand, rates: Array, radii: Array) -> Float[Array, "radii"]:
    """A lower limit of the dual at all rates beyond the last trusted one.

    `log S` is convex, so that with its slope `s` before that point the dual beyond it lies between its value there and
    `s`. And `log S(λ)/λ` does not fall.
    """
    last = band.last
    return np.maximum(band.low[last], np.minimum(radii / rates[last] + band.low[last], band.slope[last]))


def _slope(
    rates: Array, logs: Float[Array, "rates"], errors: Float[Array, "classes rates"], z: Array | float
) -> Float[Array, "rates"]:
    """A lower limit of the mean slope of `log S` over the last halving of each rate.

    `errors` are the classes' standard deviations of `log S`. A class's errors at two rates go together, so that they
    partly cancel in the difference.
    """
    steps = int(np.rint(np.log(2.0) / _STEP))
    slope = np.full(len(rates), -np.inf)
    if len(rates) <= steps:
        return slope
    noise = np.sqrt(((errors[:, steps:] - errors[:, :-steps]) ** 2).sum(axis=0))
    z = np.broadcast_to(z, len(rates))[steps:]
    slope[steps:] = (logs[steps:] - logs[:-steps] - z * noise) / (rates[steps:] - rates[:-steps])
    return slope


def kl_band(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    rates: Float[Array, "rates"],
    terms: ExponentialTerms,
    *,
    confidence: float,
    reference_size: int | None = None,
) -> DualBand:
    """Limits of `log S(λ)/λ` along the rates.

    The estimate is `(log Ŝ + v/2Ŝ²)/λ` with standard deviation `√v/(λŜ)`. Where few classes decide, a normal interval
    is too short on the side of larger variance, so that the half-widths are at least those of Wilson's intervals with
    a continuity correction, one per class, each at the part of the quantile that its share of the variance gives it.
    """
    mass = reference[:, None]
    total = (mass * terms.lower).sum(axis=0)
    unbiased = (mass**2 * terms.variance).sum(axis=0)
    parts = mass**2 * np.maximum(terms.variance, terms.smooth)
    variance = np.maximum(unbiased, (mass**2 * terms.smooth).sum(axis=0))
    weights = mass * terms.lower / total
    shares = parts / parts.sum(axis=0)
    correction = np.maximum(unbiased, 0.0) / (2.0 * total**2)
    relative_variance = variance / total**2
    if reference_size is not None:
        noise = np.maximum((weights**2 / mass).sum(axis=0) - 1.0, 0.0) / reference_size
        correction, relative_variance = correction + 0.5 * noise, relative_variance + noise
    relative = np.sqrt(relative_variance)
    deciding = 1.0 / (shares**2).sum(axis=0)
    z = studentised(sample, shares, confidence)
    single = rates * np.sqrt((shares * (error_of_means(sample) ** 2)[:, None]).sum(axis=0))
    normal = z * relative / rates
    down, up = reach(sample, np.sqrt(shares), z)
    below = np.maximum(normal, (weights * down).sum(axis=0))
    above = np.maximum(normal, np.log((weights * np.exp(np.minimum(rates * up, _LARGEST))).sum(axis=0)) / rates)
    centre = (np.log(total) + correction) / rates
    cut = np.log((mass * terms.upper).sum(axis=0) / total) / rates
    trusted = trust(
        relative,
        single,
        deciding,
        freedom_of(sample, shares),
        bounded=sample.bounds is not None,
        exact=sample.binary,
    )
    slope = _slope(rates, centre * rates, np.sqrt(parts) / total, z)
    return DualBand(centre, centre - below, centre + cut + above, trusted, deciding, slope)


def freedom_of(sample: ClassSample, shares: Float[Array, "classes points"]) -> Float[Array, "points"]:
    """Welch's degrees of freedom of a variance of which the classes have these shares."""
    inverse = (shares**2 / np.maximum(sample.counts[:, None] - 1.0, 0.5)).sum(axis=0)
    return np.maximum(1.0 / np.maximum(inverse, np.finfo(float).tiny), 1.0)


def studentised(sample: ClassSample, shares: Array, confidence: float) -> float | Float[Array, "points"]:
    """The normal quantile, or Student's at Welch's degrees of freedom where variances had to be estimated."""
    if sample.binary:
        return quantile(confidence)
    return stdtrit(freedom_of(sample, shares), 0.5 + 0.5 * confidence)


def reach(
    sample: ClassSample, weights: Float[Array, "classes points"], z: float | Float[Array, "points"]
) -> tuple[Float[Array, "classes points"], Float[Array, "classes points"]]:
    """How far each class's risk reaches down and up when it is given the quantile `z·weight`.

    Within bounds by Wilson's interval with a continuity correction, for as many 0/1 values as would give the mean
    its standard error. Without bounds by the standard error, upwards on a logarithmic scale where that is longer:
    the spread of a loss grows with its mean.
    """
    means, errors = sample.means[:, None], error_of_means(sample)[:, None]
    if sample.bounds is None:
        down = z * weights * errors
        ratio = np.divide(down, means, out=np.zeros_like(down), where=means > 0)
        return down, np.maximum(down, means * np.expm1(np.minimum(ratio, 5.0)))
    low, high = sample.bounds
    share = (means - low) / (high - low)
    centre = (sample.counts[:, None] * share + 1.0) / (sample.counts[:, None] + 2.0)
    counts = centre * (1.0 - centre) / np.maximum(errors / (high - low), 1e-9) ** 2
    square = (z * weights) ** 2 / counts
    limits = []
    for sign in (-1.0, 1.0):
        shifted = np.clip(share + sign * 0.5 * weights / counts, 0.0, 1.0)
        root = np.sqrt(square * shifted * (1.0 - shifted) + 0.25 * square**2)
        limits.append(low + (high - low) * (shifted + 0.5 * square + sign * root) / (1.0 + square))
    return np.maximum(means - limits[0], 0.0), np.maximum(limits[1] - means, 0.0)


def scale_of(sample: ClassSample) -> tuple[float, float]:
    """Where the values' scale begins and how long it is: their bounds, or 0 and the largest class mean."""
    if sample.bounds is not None:
        return sample.bounds[0], sample.bounds[1] - sample.bounds[0]
    low, high = min(float(sample.means.min()), 0.0), float(sample.means.max())
    return low, high - low if high > low else 1.0


def rescale(sample: ClassSample, shift: float, scale: float) -> ClassSample:
    """The statistics of `(value − shift)/scale`."""
    counts, sums, squares = sample.counts, sample.sums, sample.square_sums
    return sample._replace(
        sums=(sums - shift * counts) / scale,
        square_sums=(squares - 2.0 * shift * sums + shift**2 * counts) / scale**2,
        bounds=None if sample.bounds is None else (0.0, 1.0),
    )
