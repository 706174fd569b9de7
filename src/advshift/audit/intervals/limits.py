"""Limits for every class's risk at once, and the bound that follows: the worst case grows with every class's risk."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, rel_entr

from advshift.audit.intervals.sample import ClassSample
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["clopper_pearson", "lower_limits", "union_lower", "union_upper", "upper_limits"]

_HALVINGS = 60


def clopper_pearson(
    sums: Float[Array, "*batch"], counts: Float[Array, "*batch"], level: float
) -> Float[Array, "*batch"]:
    """The upper limit of a binomial probability that fails with probability at most `level`; 1 without examples.

    >>> import numpy as np
    >>> clopper_pearson(np.array([0.0]), np.array([10.0]), 0.05).round(4).tolist()
    [0.2589]
    """
    rest = np.maximum(counts - sums, 0.0)
    return np.where(rest > 0, betaincinv(sums + 1.0, np.maximum(rest, 0.5), 1.0 - level), 1.0)


def upper_limits(sample: ClassSample, level: float) -> Float[Array, "classes"]:
    """An upper limit of each class's risk that fails with probability at most `level`.

    Clopper and Pearson's for 0/1 values. For others within bounds the smaller of two, each at half the level: the
    Chernoff-Hoeffding limit in its relative-entropy form, `kl(mean ‖ limit) = log(1/level)/n`, and the empirical
    Bernstein limit of Maurer and Pontil. The upper bound for a class without examples.
    """
    if sample.bounds is None:
        raise InputError("values without bounds have no guaranteed limits; give bounds=(low, high) if there are any")
    if sample.binary:
        return clopper_pearson(sample.sums, sample.counts, level)
    low, high = sample.bounds
    counts = np.maximum(sample.counts, 1.0)
    means = np.where(sample.observed, (sample.means - low) / (high - low), 1.0)
    shares = np.clip(means, 0.0, 1.0)
    deviation = np.log(2.0 / level) / counts
    limit = np.minimum(_entropy_limit(shares, deviation), _bernstein_limit(sample, shares, level))
    return low + (high - low) * np.where(sample.observed, limit, 1.0)


def lower_limits(sample: ClassSample, level: float) -> Float[Array, "classes"]:
    """A lower limit of each class's risk that fails with probability at most `level`: `upper_limits` mirrored."""
    low, high = sample.bounds or (0.0, 0.0)
    mirrored = sample._replace(
        sums=(low + high) * sample.counts - sample.sums,
        square_sums=(low + high) ** 2 * sample.counts - 2.0 * (low + high) * sample.sums + sample.square_sums,
    )
    return low + high - upper_limits(mirrored, level)


def _entropy_limit(shares: Array, deviation: Array) -> Float[Array, "classes"]:
    """The largest `u` with `kl(share ‖ u) ≤ deviation`, by halving; the outer end is returned, so the limit is safe."""
    inner, outer = shares, np.ones_like(shares)
    for _ in range(_HALVINGS):
        middle = 0.5 * (inner + outer)
        beyond = rel_entr(shares, middle) + rel_entr(1.0 - shares, 1.0 - middle) > deviation
        inner, outer = np.where(beyond, inner, middle), np.where(beyond, middle, outer)
    return outer


def _bernstein_limit(sample: ClassSample, shares: Array, level: float) -> Float[Array, "classes"]:
    low, high = sample.bounds or (0.0, 1.0)
    freedom = np.maximum(sample.counts - 1.0, 0.0)
    log = np.log(4.0 / level)
    spread = np.sqrt(2.0 * sample.variances * log / np.maximum(sample.counts, 1.0)) / (high - low)
    return np.where(freedom > 0, shares + spread + 7.0 * log / (3.0 * np.maximum(freedom, 1.0)), 1.0)


def union_upper(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    level: float = 0.05,
) -> Float[Array, "*radii"]:
    """The worst case of limits that hold for all classes at once: exceeded with probability at most `level`.

    Each class that may carry mass gets an equal part of the level. The bound holds for all radii together.

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50, 50], [5, 10], binary=True)
    >>> round(float(union_upper(sample, np.array([0.5, 0.5]), KLBall(0.1))), 3)
    0.304
    """
    limits = upper_limits(sample, level / _at_stake(reference, uncertainty_set))
    return as_numpy(uncertainty_set.worst_case(limits, reference).value)


def union_lower(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    level: float = 0.05,
) -> Float[Array, "*radii"]:
    """The same from below: the worst case falls under it with probability at most `level`."""
    limits = lower_limits(sample, level / _at_stake(reference, uncertainty_set))
    return as_numpy(uncertainty_set.worst_case(limits, reference).value)


def _at_stake(reference: Array, uncertainty_set: UncertaintySet) -> int:
    """How many classes may carry mass."""
    return len(reference) if uncertainty_set.support == "all" else int((reference > 0).sum())
