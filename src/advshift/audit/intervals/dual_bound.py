"""A guaranteed upper bound on the KL ball's worst case, through its dual; `docs/audit-bounds.md` holds the proof.

For every rate `λ` the worst case is at most `(r + log S(λ))/λ`, `S = Σ p_y exp(λ e_y)`. The sum is bounded from above
by an e-value: with certificates `g_y` for the weights `a_y ≥ θ p_y`,

    E exp(θS) Π_y g_y^(θp_y/a_y) ≤ 1     so     P( Σ_θ w_θ exp(θS) Π_y g_y^(θp_y/a_y) ≥ 1/δ ) ≤ δ

for weights `w_θ` with sum one. The level is shared among rates beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from advshift.audit.intervals.certificate import Precision, binomial_masses, certificate
from advshift.audit.intervals.sample import ClassSample
from advshift.errors import InputError
from advshift.types import Array

__all__ = ["dual_upper"]

_RATES = np.exp(np.arange(np.log(0.05), np.log(160.0), np.log(1.25)))
_TYPICAL = 0.2  # standard deviation of class risks from which the rates' shares of the level are centred
_WIDTH = 0.7  # of the shares, in the logarithm of the rate
_IGNORED = 1e-4  # a rate with a smaller share is not tried
_CUT = 0.1  # part of the level that pays for leaving implausible counts out
_LARGEST = 600.0
_HALVINGS = 40
_FEW = 3  # distinct counts up to which every count gets certificates of its own
_THINNED = 1000  # most examples of a class that are made use of
_COARSE = Precision(points=256, ratio=2.0, rounds=6)
_FINE = Precision()


class _Kind(NamedTuple):
    """Classes that share certificates: where they are, how many examples those are for, and the kernel to outcomes."""

    place: Array
    size: int
    kernel: Array | None


def dual_upper(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    radii: Float[Array, "radii"],
    *,
    level: float = 0.05,
) -> Float[Array, "radii"]:
    """Bound the worst case over KL balls from above; each radius's bound fails with probability at most `level`.

    For 0/1 values and others within bounds. The values of different examples must be independent, and those of a
    class identically distributed. A class without examples counts with the upper bound.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50] * 200, [10] * 200, binary=True)
    >>> dual_upper(sample, np.full(200, 1 / 200), np.array([0.1])).round(2).tolist()
    [0.24]
    """
    if sample.bounds is None:
        raise InputError("values without bounds have no guaranteed limits; give bounds=(low, high) if there are any")
    low, high = sample.bounds
    kept = reference > 0
    scaled = sample.select(kept)._replace(sums=((sample.sums - low * sample.counts) / (high - low))[kept])
    mass = reference[kept] / reference[kept].sum()
    precision = _FINE if len(np.unique(scaled.counts)) <= _FEW else _COARSE
    kinds = _kinds(scaled)
    cut = _CUT * level / len(mass) if all(kind.kernel is None for kind in kinds) else 0.0
    left = level * (1.0 - _CUT) if cut else level
    shares = _shares(radii)
    best = np.ones(len(radii))
    for rate, share in zip(_RATES, shares.T, strict=True):
        if share.max() > _IGNORED:
            scales, exponents = _evidence(scaled, mass, float(rate), kinds, cut, precision)
            sums = _invert(scales, exponents, np.log(1.0 / (left * np.maximum(share, 1e-300))))
            best = np.minimum(best, (radii + np.log(np.minimum(sums, np.exp(rate)))) / rate)
    return low + (high - low) * best


def _shares(radii: Array) -> Float[Array, "radii rates"]:
    """The rates' shares of the level, for each radius; they depend on nothing that was observed."""
    centre = np.maximum(np.sqrt(2.0 * radii) / _TYPICAL, 0.1)
    weights = np.exp(-0.5 * (np.log(_RATES / centre[:, None]) / _WIDTH) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    kept = np.where(weights > _IGNORED, weights, 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def _kinds(sample: ClassSample) -> list[_Kind]:
    """Group the classes by the count that their certificates are made for."""
    counts = sample.counts.astype(int)
    levels = _levels(counts[counts > 0])
    kinds = []
    for lower, upper in zip(levels, [*levels[1:], np.inf], strict=True):
        place = np.flatnonzero((counts >= lower) & (counts < upper))
        if len(place):
            kinds.append(_Kind(place, int(lower), _kernel(sample.select(place), int(lower))))
    return kinds


def _levels(counts: Array) -> list[int]:
    """The counts for which certificates are made: all if there are few, else a geometric sequence from the least."""
    distinct = np.unique(np.minimum(counts, _THINNED))
    if len(distinct) <= _FEW:
        return [int(count) for count in distinct]
    steps = int(np.ceil(np.log(distinct[-1] / distinct[0]) / np.log(1.4))) + 1
    wanted = np.geomspace(distinct[0], distinct[-1], max(steps, 2))
    return [int(count) for count in np.unique(np.floor(wanted + 1e-9))]


def _kernel(sample: ClassSample, count: int) -> Float[Array, "classes outcomes"] | None:
    """The conditional distribution, given what was observed, of a binomial count that is `count` examples' worth.

    For 0/1 values it is the number of ones in a random part of the class; None where that is the whole class. Other
    values are replaced by independent zeros and ones with those means: given the sum, none is spread wider than the
    binomial distribution.
    """
    if not sample.binary:
        return binomial_masses(count, np.clip(sample.means, 0.0, 1.0))
    if bool((sample.counts == count).all()):
        return None
    ones, total = sample.sums[:, None], sample.counts[:, None]
    drawn = np.arange(count + 1.0)
    with np.errstate(invalid="ignore"):
        logs = _log_choose(ones, drawn) + _log_choose(total - ones, count - drawn) - _log_choose(total, count + 0.0)
    possible = (drawn <= ones) & (count - drawn <= total - ones)
    return np.where(possible, np.exp(np.where(possible, logs, 0.0)), 0.0)


def _log_choose(total: Array, part: Array | float) -> Array:
    return gammaln(total + 1.0) - gammaln(part + 1.0) - gammaln(np.maximum(total - part, 0.0) + 1.0)


def _evidence(
    sample: ClassSample, mass: Array, rate: float, kinds: list[_Kind], cut: float, precision: Precision
) -> tuple[Float[Array, "scales"], Float[Array, "scales"]]:
    """For falling `θ` the logarithms of `Π_y g_y^(θp_y/a_y)`; classes without examples count with `exp(λ)`."""
    largest = float(mass.max())
    step = np.log(precision.ratio)
    scales_count = int(np.ceil(np.log(_LARGEST / (4.0 * largest)) / step))
    offsets = np.floor(np.log(largest / mass) / step + 1e-12).astype(int)
    offsets = np.minimum(offsets, int(np.ceil(np.log(256.0) / step)))
    rows = scales_count + int(offsets.max())
    scales = _LARGEST * np.exp(-rate) * precision.ratio ** -np.arange(float(scales_count)) / largest
    empty = float(mass[sample.counts <= 0].sum())
    exponents = -scales * empty * np.exp(rate)
    row = np.arange(scales_count)[:, None]
    for kind in kinds:
        made = certificate(kind.size, rate, rows, cut, precision)
        values = _conditional(sample.select(kind.place), kind, made.exponents)
        index = row + offsets[kind.place]
        power = scales[:, None] * mass[kind.place] / made.weights[index]
        exponents = exponents + (power * values[np.arange(len(kind.place)), index]).sum(axis=1)
    return scales, exponents


def _conditional(sample: ClassSample, kind: _Kind, exponents: Array) -> Float[Array, "classes weights"]:
    """The logarithm of the conditional expectation of `g` given each class's observation, or a number below it."""
    if kind.kernel is None:
        return exponents[:, sample.sums.astype(int)].T
    values = np.exp(exponents)
    if not sample.binary:
        slopes = np.minimum.accumulate(np.diff(values, axis=1), axis=1)
        concave = values[:, :1] + np.concatenate([np.zeros((len(values), 1)), np.cumsum(slopes, axis=1)], axis=1)
        found = np.maximum(kind.kernel @ concave.T, values[:, -1])
    else:
        found = kind.kernel @ values.T
    with np.errstate(divide="ignore"):
        return np.log(found)


def _invert(scales: Array, exponents: Array, logs: Float[Array, "radii"]) -> Float[Array, "radii"]:
    """The sum `S` at which the evidence reaches `exp(logs)`, from above, by halving."""
    usable = np.isfinite(exponents)
    if not usable.any():
        return np.full(len(logs), np.inf)
    scales, exponents = scales[usable], exponents[usable] - np.log(len(scales))
    high = ((logs[:, None] - exponents) / scales).min(axis=1)
    low = high - 1.01 * np.log(len(scales) + 1.0) / scales.min()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        powers = scales * middle[:, None] + (exponents - logs[:, None])
        beyond = np.exp(np.minimum(powers, 1.0)).sum(axis=1) >= 1.0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high
