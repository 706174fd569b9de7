"""Kernel mean matching on class-conditional embeddings (Zhang, Schölkopf, Muandet and Wang, ICML 2013)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.priors.base import BLOCK, Found, Source, class_means
from advshift.priors.checks import as_features
from advshift.priors.moments import MomentEstimator, soft_noise, weighted_mean
from advshift.priors.quadratic import minimise_quadratic, tangent_inverse
from advshift.types import Array, ArrayLike

__all__ = ["KernelMeanMatching", "median_distance"]

Inputs = Literal["probabilities", "features"]


class _Embedding(NamedTuple):
    """The class means of an explicit or implicit feature map, evaluated as `κ_y(x) = mean over class y of k(x, x_i)`.

    With random features, `points` are the frequencies and `values` the class means of the features. Without, `points`
    are the source's rows and `values` the classes' weights on them.
    """

    points: Array
    values: Any
    rate: float
    random: bool

    def __call__(self, rows: Array) -> Float[Array, "examples classes"]:
        found = np.empty((len(rows), self.values.shape[1]))
        length = max(1, BLOCK // max(self.points.shape[0 if not self.random else 1], 1))
        for start in range(0, len(rows), length):
            block = rows[start : start + length]
            features = wave(block, self.points) if self.random else self._kernel(block)
            found[start : start + length] = features @ self.values
        return found

    def _kernel(self, block: Array) -> Array:
        squares = (block**2).sum(axis=1)[:, None] + (self.points**2).sum(axis=1) - 2.0 * block @ self.points.T
        return np.exp(-self.rate * np.maximum(squares, 0.0))


class _Embedded(NamedTuple):
    """`G = (mean of κ_y over class z)`, the source's label distribution, the source as `κ`, and the embedding."""

    means: Float[Array, "classes classes"]
    prior: Float[Array, " classes"]
    source: Source
    embedding: _Embedding


class KernelMeanMatching(MomentEstimator):
    """Minimise `‖Σ_y q_y m_y - m_t‖²` over the simplex, `m_y` and `m_t` the mean embeddings of the classes and target.

    In inner products: `q'G q - 2 h'q` with `G_yz` the mean kernel between classes `y` and `z`, and `h_y` between class
    `y` and the target. The kernel is Gaussian, `exp(-‖x - x'‖²/(2 σ²))`.

    Parameters
    ----------
    inputs
        `"probabilities"`: rows are class probabilities. `"features"`: rows are any real vectors, such as a layer's
        activations.
    bandwidth
        `σ`; the median distance between source rows by default.
    features
        0 evaluates the kernel on every pair, in blocks. A number takes that many random Fourier features: linear in the
        number of rows.

    >>> source = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> estimator = KernelMeanMatching(covariance="none").fit(source, [0, 0, 1, 1])
    >>> estimator.estimate(source[:3]).prior.round(4).tolist()
    [0.6667, 0.3333]
    """

    name = "kmm"

    def __init__(
        self, *, inputs: Inputs = "probabilities", bandwidth: float | None = None, features: int = 0, **options: Any
    ) -> None:
        super().__init__(**options)
        if inputs not in get_args(Inputs):
            raise InputError(f"inputs must be 'probabilities' or 'features'; got {inputs!r}")
        if inputs == "features" and self.calibration is not None:
            raise InputError("calibration is for probabilities; with inputs='features' leave it out")
        if bandwidth is not None and not bandwidth > 0:
            raise InputError(f"bandwidth must be above 0; got {bandwidth}")
        if features < 0:
            raise InputError(f"features must be 0 (exact) or a number of random features; got {features}")
        self.inputs = inputs
        self.bandwidth = bandwidth
        self.features = features

    def _checked(self, values: ArrayLike, name: str) -> Any:
        return as_features(values, name) if self.inputs == "features" else super()._checked(values, name)

    def _classes(self, rows: Array) -> int | None:
        return None if self.inputs == "features" else super()._classes(rows)

    def _learn(self, source: Source) -> _Embedded:
        embedding = self._embed(source)
        embedded = source._replace(rows=embedding(source.rows))
        means = class_means(embedded, embedded.rows)
        return _Embedded(0.5 * (means + means.T), source.prior, embedded, embedding)

    def _embed(self, source: Source) -> _Embedding:
        bandwidth = self.bandwidth or median_distance(self._raw.rows)
        rate = 0.5 / bandwidth**2
        if self.features == 0:
            from scipy.sparse import csr_matrix

            weights = np.ones(len(source.labels)) if source.weights is None else source.weights
            shares = weights / source.counts[source.labels]
            shape = (len(source.labels), source.classes)
            entries = (shares, (np.arange(len(source.labels)), source.labels))
            return _Embedding(source.rows, csr_matrix(entries, shape=shape), rate, False)
        generator = np.random.default_rng(0)
        columns = source.rows.shape[1]
        frequencies = generator.normal(scale=1.0 / bandwidth, size=(columns, (self.features + 1) // 2))
        means = class_means(source, wave(source.rows, frequencies))
        return _Embedding(frequencies, means, rate, True)

    def _class_means(self, source: Source) -> Float[Array, "columns classes"]:
        return self._learn(source).means

    def _mean(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " columns"]:
        return weighted_mean(learned.embedding(target), weights)

    def _total(self, learned: Any, weights: Array) -> Float[Array, " columns"]:
        return np.asarray(weights @ learned.source.rows)

    def _noise(self, learned: Any, target: Array, found: Found) -> Float[Array, "columns columns"]:
        embedded = learned.embedding(target)
        return soft_noise(learned.means, learned.source, embedded, found.prior, weighted_mean(embedded, None))

    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        fit = minimise_quadratic(learned.means, mean, start=None if start is None else start.prior > 0)
        return Found(fit.point, fit.converged, fit.iterations)

    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        return tangent_inverse(learned.means)

    def _diagnose(self, learned: Any, found: Found) -> dict[str, float]:
        spectrum = np.linalg.eigvalsh(learned.means)
        condition = float(spectrum[-1] / spectrum[0]) if spectrum[0] > 0 else float("inf")
        return {"rank": float(np.sum(spectrum > 1e-10 * spectrum[-1])), "condition": condition}


def wave(rows: Array, frequencies: Array) -> Float[Array, "examples features"]:
    """Random Fourier features: cosines and sines whose inner products approximate the Gaussian kernel."""
    phase = rows @ frequencies
    return np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(frequencies.shape[1])


def median_distance(rows: Array) -> float:
    """The median distance between rows, on at most 1,000 of them spread evenly.

    >>> median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]))
    5.0
    """
    from scipy.spatial.distance import pdist

    chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), 1000)).astype(int)]
    distances = pdist(chosen)
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0
