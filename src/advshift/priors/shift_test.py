"""A test of label shift itself: do the target's predictions fit any mixture of the source's classes?"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import Source
from advshift.priors.cells import cell_shares, make_cells
from advshift.priors.checks import as_labels, as_probabilities, check_columns
from advshift.priors.moments import hard_noise
from advshift.priors.quadratic import minimise_quadratic, tangent_inverse
from advshift.types import Array, ArrayLike

__all__ = ["ShiftTest", "shift_test"]

Method = Literal["auto", "bootstrap", "chi-square"]

_FEW = 400  # cells up to which the bootstrap is the default
_SMOOTHING = 0.5  # examples added to each class, so that a class with few examples is not taken for certain


class ShiftTest(NamedTuple):
    """What the test found.

    Attributes
    ----------
    statistic
        The squared distance of the target's predictions from the nearest mixture, in units of its noise.
    degrees
        The degrees of freedom of its chi-square approximation.
    p_value
        How often a pure label shift would look this far off or farther. Small: the classes themselves have changed,
        and neither an estimate of the label distribution nor a correction by it can be trusted.
    prior
        The nearest mixture.
    class_p_values
        The same for the predictions of each class, from the chi-square limit, adjusted for testing all of them (Holm).
    observed, expected
        The shares of the predicted classes in the target and in the nearest mixture.
    """

    statistic: float
    degrees: int
    p_value: float
    prior: Float[Array, " classes"]
    class_p_values: Float[Array, " classes"]
    observed: Float[Array, " classes"]
    expected: Float[Array, " classes"]

    def deviating(self, level: float = 0.05) -> list[int]:
        """The predicted classes that deviate at this level, the clearest first; none where all fit together."""
        if self.p_value > level:
            return []
        order = np.argsort(self.class_p_values, kind="stable")
        return [int(name) for name in order if self.class_p_values[name] <= level]


class _Fit(NamedTuple):
    statistic: float
    prior: Array
    residual: Array
    noise: Array
    weight: Array
    used: Array


def shift_test(
    probabilities: ArrayLike,
    labels: ArrayLike,
    target: ArrayLike,
    *,
    bins: int = 2,
    method: Method = "auto",
    replicates: int = 500,
    seed: int = 0,
    renormalise: bool = False,
) -> ShiftTest:
    """Test whether the target differs from the source by its label distribution alone.

    Predictions are counted in cells: the predicted class and a bin of its probability. Under label shift the target's
    shares are a mixture of the source's class-conditional shares, `μ = A q`; the statistic is the smallest
    `(μ - A q)' V⁻¹ (μ - A q)` over the simplex, `V` the covariance of both samples. The predicted classes alone could
    be fitted by some `q` nearly always, which is why the cells must outnumber the classes.

    Parameters
    ----------
    probabilities, labels
        The labelled source.
    target
        The unlabelled target, in the source's columns.
    bins
        Bins of confidence per predicted class, 2 or more.
    method
        `"bootstrap"`: p-value from tables drawn with the fitted mixture, each fitted again. `"chi-square"`: from the
        limit. `"auto"`: the bootstrap up to 400 cells.
    replicates, seed
        Of the bootstrap.
    renormalise
        Divide each row by its sum instead of refusing rows that do not sum to one.
    """
    if bins < 2 or replicates < 20 or method not in get_args(Method):
        raise InputError(
            f"shift_test needs bins ≥ 2, replicates ≥ 20 and a method of {', '.join(get_args(Method))}; "
            f"got bins={bins}, replicates={replicates}, method={method!r}"
        )
    rows = as_probabilities(probabilities, "the source", renormalise=renormalise)
    source = Source(rows, as_labels(labels, len(rows), rows.shape[1]), None, rows.shape[1])
    unlabelled = as_probabilities(target, "the target", renormalise=renormalise)
    check_columns(unlabelled, rows.shape[1])
    cells = make_cells(rows, bins)
    shares, mean = cell_shares(cells, source, _SMOOTHING), cells.shares(unlabelled, None)
    size, counts = len(unlabelled), source.counts
    fit = _fit(shares, counts, mean, size)
    degrees = max(int(fit.used.sum()) - int((fit.prior > 0).sum()), 1)
    if method == "chi-square" or (method == "auto" and cells.total > _FEW):
        p_value = _tail(fit.statistic, degrees)
    else:
        p_value = _bootstrap(shares, counts, size, fit, replicates, np.random.default_rng(seed))
    confusion = np.bincount(rows.argmax(axis=1) * source.classes + source.labels, minlength=source.classes**2)
    return ShiftTest(
        statistic=fit.statistic,
        degrees=degrees,
        p_value=p_value,
        prior=fit.prior,
        class_p_values=_class_p_values(shares, fit, cells.of_classes()),
        observed=np.bincount(unlabelled.argmax(axis=1), minlength=source.classes) / size,
        expected=confusion.reshape(source.classes, source.classes) / counts @ fit.prior,
    )


def _fit(shares: Array, counts: Array, mean: Array, size: int) -> _Fit:
    """Generalised least squares on the simplex, the noise evaluated at the solution before."""
    used = shares.sum(axis=1) + mean > 0
    inner, seen = shares[used], mean[used]
    prior = counts / counts.sum()
    for _ in range(3):
        noise = hard_noise(inner, counts, size, prior, inner @ prior)
        weight = _inverse(noise)
        prior = minimise_quadratic(inner.T @ weight @ inner, inner.T @ (weight @ seen)).point
    residual = seen - inner @ prior
    return _Fit(float(residual @ weight @ residual), prior, residual, noise, weight, used)


def _inverse(noise: Array) -> Array:
    """The inverse on changes that sum to zero: a constant direction is added, which those do not meet."""
    scale = float(np.trace(noise)) / len(noise)
    lifted = noise + scale / len(noise) + 1e-9 * scale * np.eye(len(noise))
    inverse: Array = np.linalg.inv(lifted)
    return 0.5 * (inverse + inverse.T)


def _tail(statistic: float, degrees: Any) -> float:
    from scipy.stats import chi2

    return float(chi2.sf(statistic, degrees))


def _bootstrap(
    shares: Array, counts: Array, size: int, fit: _Fit, replicates: int, generator: np.random.Generator
) -> float:
    """Draw both tables from the fitted mixture, fit again, and count."""
    expected = shares @ fit.prior
    sizes = counts.astype(np.int64)
    beyond = 0
    for _ in range(replicates):
        mean = generator.multinomial(size, expected / expected.sum()) / size
        drawn = generator.multinomial(sizes, shares.T / shares.sum(axis=0)[:, None]).T.astype(np.float64)
        pooled = drawn.sum(axis=1, keepdims=True) + 0.5
        again = (drawn + _SMOOTHING * pooled / pooled.sum()) / (sizes + _SMOOTHING)
        beyond += _fit(again, counts, mean, size).statistic >= fit.statistic
    return (1.0 + beyond) / (1.0 + replicates)


def _class_p_values(shares: Array, fit: _Fit, cells: Array) -> Float[Array, " classes"]:
    """Per predicted class, the chi-square of its cells' residuals under their own covariance; adjusted after Holm.

    The fit takes up what the classes in the mixture can explain; one at zero is held by its bound and explains nothing.
    """
    inner = shares[np.ix_(fit.used, fit.prior > 0)]
    explained = inner @ tangent_inverse(inner.T @ fit.weight @ inner) @ inner.T
    spread = fit.noise - explained
    place = np.cumsum(fit.used) - 1
    sets = [np.unique(row[fit.used[row]]) for row in cells]
    return _holm(np.array([_block_p_value(place[found], fit, spread) for found in sets]))


def _block_p_value(chosen: Array, fit: _Fit, spread: Array) -> float:
    block = np.ix_(chosen, chosen)
    values, vectors = np.linalg.eigh(spread[block])
    kept = values > 1e-6 * np.trace(fit.noise[block])
    if not kept.any():
        return 1.0
    score = (vectors.T @ fit.residual[chosen])[kept]
    return _tail(float((score**2 / values[kept]).sum()), int(kept.sum()))


def _holm(plain: Array) -> Float[Array, " tests"]:
    order = np.argsort(plain, kind="stable")
    stepped = np.maximum.accumulate(plain[order] * np.arange(len(plain), 0, -1))
    adjusted = np.empty(len(plain))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
