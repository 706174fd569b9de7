"""What the predictions leave open: label distributions that explain them equally well."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from advshift.types import Array

__all__ = ["open_directions", "wander"]

_TOLERANCE = 1e-9  # of a singular value to the largest
_STEPS = 20  # of the walk between two draws


def open_directions(
    matrix: Float[Array, "rows classes"], tolerance: float = _TOLERANCE
) -> Float[Array, "classes directions"]:
    """The changes of a label distribution that a matrix does not see: `M v = 0` and `Σ v = 0`.

    >>> open_directions(np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])).round(3).ravel().tolist() in (
    ...     [0.0, 0.707, -0.707], [0.0, -0.707, 0.707], [-0.0, 0.707, -0.707], [-0.0, -0.707, 0.707])
    True
    """
    scale = max(float(np.linalg.norm(matrix, 2)), 1e-300)
    stacked = np.concatenate([matrix / scale, np.full((1, matrix.shape[1]), matrix.shape[1] ** -0.5)])
    _, spectrum, vectors = np.linalg.svd(stacked, full_matrices=True)
    seen = int(np.sum(spectrum > tolerance))
    return np.ascontiguousarray(vectors[seen:].T)


def wander(
    prior: Float[Array, " classes"], directions: Float[Array, "classes directions"], draws: int, seed: int
) -> Float[Array, "draws classes"]:
    """How far label distributions lie from this one that differ from it along the directions alone.

    Uniform over all of them, by hit and run: a random direction, and a random place on its way through the simplex.
    """
    generator = np.random.default_rng(seed)
    found, point = np.zeros((draws, len(prior))), prior.copy()
    for number in range(draws * _STEPS if directions.shape[1] else 0):
        way = directions @ generator.standard_normal(directions.shape[1])
        falling, rising = way < 0, way > 0
        high = float(np.min(-point[falling] / way[falling], initial=np.inf))
        low = float(np.max(-point[rising] / way[rising], initial=-np.inf))
        if np.isfinite(high) and np.isfinite(low):
            point = np.maximum(point + generator.uniform(min(low, high), high) * way, 0.0)
        found[number // _STEPS] = point - prior
    return found
