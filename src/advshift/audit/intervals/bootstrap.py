"""The bootstrap of class statistics, in forms that do not double the plug-in's bias.

0/1 values are drawn again from the binomial distribution with the class's observed share: exactly what resampling its
examples gives. Of other values only sums and sums of squares are known; their means are drawn from the normal
distribution with the observed variance, which assumes that the examples of a class are many or nearly normal.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from advshift.audit.intervals.delta import quantile
from advshift.audit.intervals.sample import ClassSample
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import UncertaintySet
from advshift.types import Array

__all__ = ["bootstrap_interval", "resampled_means"]

Form = Literal["basic", "bias-corrected"]


def resampled_means(
    sample: ClassSample, replicates: int, generator: np.random.Generator
) -> Float[Array, "replicates classes"]:
    """Draw the classes' means again."""
    means = sample.means
    if sample.binary:
        return generator.binomial(sample.counts.astype(np.int64), means, (replicates, len(means))) / sample.counts
    spread = np.sqrt(sample.variances / sample.counts)
    return means + spread * generator.standard_normal((replicates, len(means)))


def bootstrap_interval(
    sample: ClassSample,
    reference: Float[Array, "classes"],
    uncertainty_set: UncertaintySet,
    *,
    confidence: float = 0.95,
    replicates: int = 1000,
    form: Form = "basic",
    generator: np.random.Generator,
) -> tuple[Float[Array, "*radii"], Float[Array, "*radii"]]:
    """A bootstrap interval of the worst case. Every class must have examples.

    The basic form reflects the quantiles of the replicates at the plug-in value. The bias-corrected form shifts the
    quantiles by twice the normal score of the share of replicates below it. Both fail where the plug-in's bias is
    larger than its spread, and at ties for sets whose maximiser jumps (simplex, tv, caps, top-k).

    >>> import numpy as np
    >>> from advshift.audit.intervals import class_sample
    >>> sample = class_sample([50, 50], [5, 10], binary=True)
    >>> generator = np.random.default_rng(0)
    >>> low, high = bootstrap_interval(sample, np.array([0.5, 0.5]), KLBall(0.1), generator=generator)
    >>> bool(low < high)
    True
    """
    if form not in ("basic", "bias-corrected"):
        raise InputError(f"form must be 'basic' or 'bias-corrected'; got {form!r}")
    centre = as_numpy(uncertainty_set.value(sample.means, reference))
    means = resampled_means(sample, replicates, generator)
    means = means.reshape(replicates, *(1,) * centre.ndim, len(reference))
    values = as_numpy(uncertainty_set.value(means, reference)).reshape(replicates, *centre.shape)
    tail = 0.5 - 0.5 * confidence
    if form == "basic":
        low, high = np.quantile(values, [tail, 1.0 - tail], axis=0)
        return 2.0 * centre - high, 2.0 * centre - low
    below = np.clip((values < centre).mean(axis=0), 0.5 / replicates, 1.0 - 0.5 / replicates)
    shift, z = 2.0 * ndtri(below), quantile(confidence)
    return _quantile(values, ndtr(shift - z)), _quantile(values, ndtr(shift + z))


def _quantile(values: Array, levels: Array) -> Float[Array, "*radii"]:
    """The quantile at a level of its own for each column."""
    ordered = np.sort(values, axis=0)
    place = np.rint(levels * (len(ordered) - 1)).astype(int)
    return np.take_along_axis(ordered, place[None], axis=0)[0]
