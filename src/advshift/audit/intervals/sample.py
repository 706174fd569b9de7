"""What inference needs to know of a model: per class a count, a sum and a sum of squares."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Shaped

from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.types import Array, ArrayLike

__all__ = ["ClassSample", "Missing", "class_sample", "fill_missing"]

Missing = Literal["worst", "average", "exclude"]


class ClassSample(NamedTuple):
    """The values of a metric on a labelled sample, summed by class; make one with `class_sample`.

    Attributes
    ----------
    binary
        Whether every value is 0 or 1, so that a class's sum is binomial.
    bounds
        The interval in which every value must lie by its definition, or None if there is none.
    """

    counts: Float[Array, "classes"]
    sums: Float[Array, "classes"]
    square_sums: Float[Array, "classes"]
    binary: bool
    bounds: tuple[float, float] | None

    @property
    def observed(self) -> Bool[Array, "classes"]:
        """The classes that have examples."""
        return self.counts > 0

    @property
    def means(self) -> Float[Array, "classes"]:
        """The classes' mean values; nan without examples."""
        return np.divide(self.sums, self.counts, out=np.full(self.sums.shape, np.nan), where=self.counts > 0)

    @property
    def variances(self) -> Float[Array, "classes"]:
        """Unbiased variances of a class's values; the pooled variance where a class has fewer than two examples."""
        scatter = np.maximum(self.square_sums - np.where(self.observed, self.means, 0.0) * self.sums, 0.0)
        freedom = self.counts - 1.0
        pooled = scatter[freedom > 0].sum() / max(freedom[freedom > 0].sum(), 1.0)
        return np.where(freedom > 0, scatter / np.maximum(freedom, 1.0), pooled)

    def select(self, classes: Shaped[Array, "kept"]) -> ClassSample:
        """The same for some of the classes."""
        return self._replace(
            counts=self.counts[classes], sums=self.sums[classes], square_sums=self.square_sums[classes]
        )


def class_sample(
    counts: ArrayLike,
    sums: ArrayLike,
    square_sums: ArrayLike | None = None,
    *,
    binary: bool = False,
    bounds: tuple[float, float] | None = None,
) -> ClassSample:
    """Check a metric's statistics by class.

    Parameters
    ----------
    counts, sums, square_sums
        Per class how many examples there are, the sum of their values and of the squared values. For 0/1 values the
        last is the sum itself and may be left out.
    binary, bounds
        What the values are, as in `ClassSample`.

    >>> class_sample([10, 20], [1, 4], binary=True).means.tolist()
    [0.1, 0.2]
    """
    if square_sums is None and not binary:
        raise InputError("values other than 0 and 1 need the sums of their squares too; give square_sums")
    arrays = [as_numpy(array).astype(np.float64) for array in (counts, sums, sums if binary else square_sums)]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise InputError(f"counts, sums and square_sums must hold one number per class; got shapes {sorted(shapes)}")
    if not all(np.isfinite(array).all() for array in arrays) or not bool((arrays[0] >= 0).all()):
        raise InputError("counts, sums and square_sums must be finite, and the counts not negative")
    count, total, squares = arrays
    sample = ClassSample(count, total, squares, binary=binary, bounds=(0.0, 1.0) if binary else bounds)
    _check_range(sample)
    return sample


def _check_range(sample: ClassSample) -> None:
    whole = (sample.counts % 1 == 0).all() and (not sample.binary or (sample.sums % 1 == 0).all())
    if not whole:
        raise InputError("counts must be whole numbers, and sums too where the values are 0 or 1")
    if sample.bounds is None:
        return
    low, high = sample.bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"bounds must be two finite numbers, the lower first; got {sample.bounds}")
    slack = 1e-9 * (high - low) * np.maximum(sample.counts, 1.0)
    outside = (sample.sums < low * sample.counts - slack) | (sample.sums > high * sample.counts + slack)
    if outside.any():
        raise InputError(f"{int(outside.sum())} classes have a mean outside the bounds [{low:g}, {high:g}]")


def fill_missing(
    sample: ClassSample, reference: Float[Array, "classes"], missing: Missing = "worst"
) -> tuple[Float[Array, "classes"], Float[Array, "classes"]]:
    """The class risks with something in the place of unknown ones, and the reference that goes with them.

    Parameters
    ----------
    sample, reference
        The statistics, and the label distribution.
    missing
        For a class without examples, `"worst"` assumes the upper bound of the values (or the largest class risk
        where they have none), `"average"` the mean of the other classes' risks at the reference, and `"exclude"`
        takes the class out of the reference.

    >>> import numpy as np
    >>> sample = class_sample([10, 0], [1, 0], binary=True)
    >>> fill_missing(sample, np.array([0.5, 0.5]), "worst")[0].tolist()
    [0.1, 1.0]
    """
    if missing not in get_args(Missing):
        raise InputError(f"missing must be one of {', '.join(get_args(Missing))}; got {missing!r}")
    known = sample.observed
    weights = np.where(known, reference, 0.0)
    if not weights.sum() > 0:
        raise InputError("no class that the reference gives mass to has examples; nothing can be said of its risk")
    if known.all():
        return sample.means, reference
    average = float(weights @ np.where(known, sample.means, 0.0) / weights.sum())
    top = sample.bounds[1] if sample.bounds is not None else float(np.max(sample.means[known]))
    risks = np.where(known, sample.means, top if missing == "worst" else average)
    return risks, weights / weights.sum() if missing == "exclude" else reference
