"""Weights for generalised label shift, with a running average (Tachet des Combes et al., NeurIPS 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.numerics.backend import check_distribution
from advshift.priors.base import Found
from advshift.priors.bbse import BBSE
from advshift.types import Array, ArrayLike

__all__ = ["GLSWeights"]


class GLSWeights(BBSE):
    """Minimise `‖μ - C w‖²` over weights `w ≥ 0` with `p·w = 1`, then average with the weights of before.

    `C_iy = P(prediction i, class y)`; with `q = p ∘ w` it is the constrained least squares of BBSE. The method is meant
    to run along training, where the representation and with it `C` keep moving: the answer is
    `momentum·previous + (1 - momentum)·new`, label distributions standing for their weights.

    Parameters
    ----------
    momentum
        The share of the previous estimate, from 0 up to but not including 1.
    previous
        The label distribution estimated before; the source's by default.

    >>> confusion = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> estimator = GLSWeights(momentum=0.5, covariance="none").fit(confusion, [0, 0, 1, 1])
    >>> estimator.estimate([[0.7, 0.3], [0.5, 0.5]]).weights.round(3).tolist()
    [1.125, 0.875]
    """

    name = "gls"

    def __init__(self, *, momentum: float = 0.0, previous: ArrayLike | None = None, **options: Any) -> None:
        super().__init__(**options)
        if not 0 <= momentum < 1:
            raise InputError(f"momentum must lie in [0, 1); got {momentum}")
        self.momentum = momentum
        self.previous = None if previous is None else np.asarray(previous, dtype=np.float64)
        if self.previous is not None:
            check_distribution(self.previous, "the previous label distribution")

    def _match(self, learned: Any, mean: Array, start: Found | None) -> Found:
        previous = self._raw.prior if self.previous is None else self.previous
        if len(previous) != len(learned.prior):
            raise InputError(f"previous must have {len(learned.prior)} classes; got {len(previous)}")
        unmixed = None if start is None else Found(start.extra, True, 0)
        found = super()._match(learned, mean, unmixed)
        mixed = self.momentum * previous + (1.0 - self.momentum) * found.prior
        return found._replace(prior=mixed, extra=found.prior)

    def _derivative(self, learned: Any, found: Found) -> Float[Array, "classes columns"]:
        return (1.0 - self.momentum) * super()._derivative(learned, found)

    def _noise(self, learned: Any, target: Array, found: Found) -> Float[Array, "columns columns"]:
        return super()._noise(learned, target, found._replace(prior=found.extra))

    def _influence(self, learned: Any, found: Found, shares: Array) -> Float[Array, " classes"]:
        return super()._influence(learned, found._replace(prior=found.extra), shares)
