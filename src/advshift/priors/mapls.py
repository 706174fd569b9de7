"""Maximum a posteriori label shift: EM with a Dirichlet prior (Ye et al., WACV 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.numerics.backend import check_distribution
from advshift.priors.em import EM
from advshift.priors.mixture import Mixture, maximise_mixture
from advshift.types import Array, ArrayLike

__all__ = ["MAPLS", "adaptive_share"]


class MAPLS(EM):
    """Maximise `λ·mean log Σ_y f_y q_y/p_y + (1 - λ)·Σ_y u_y log q_y`, the fixed point of `q ← λ·EM(q) + (1 - λ)·u`.

    A Dirichlet prior with parameters `a` has this form with `λ = N/(N + Σ(a-1))` and `u ∝ a - 1`. The prior keeps the
    estimate off the boundary, which pays with many classes and few target rows.

    Parameters
    ----------
    share
        `λ`, how much the data counts, above 0 and up to 1; by default found from how far the plain estimate is from
        `u` and from the source, by the rule of the authors' code.
    towards
        `u`, the label distribution that the prior pulls to; uniform by default.
    concentration
        `a`, a number or one per class, at least 1; sets share and towards.

    >>> source = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    >>> estimator = MAPLS(concentration=2.0, covariance="none").fit(source, [0, 1, 1, 0])
    >>> estimator.estimate([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]).prior.round(4).tolist()
    [0.5959, 0.4041]
    """

    name = "mapls"

    def __init__(
        self,
        *,
        share: float | None = None,
        towards: ArrayLike | None = None,
        concentration: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if share is not None and not 0 < share <= 1:
            raise InputError(f"share must lie above 0 and at most at 1; got {share}")
        if concentration is not None and (share is not None or towards is not None):
            raise InputError("concentration sets share and towards: give it alone, or those two")
        self.share = share
        self.towards = None if towards is None else np.asarray(towards, dtype=np.float64)
        self.concentration = None if concentration is None else np.asarray(concentration, dtype=np.float64)
        if self.concentration is not None and not (self.concentration >= 1).all():
            raise InputError("every concentration must be 1 or more, else the posterior has no maximum inside")
        if self.towards is not None:
            check_distribution(self.towards, "towards")

    def _pseudo(self, learned: Any, target: Array, weights: Array | None) -> Float[Array, " classes"] | None:
        classes = len(learned.prior)
        if self.concentration is not None:
            extra = np.broadcast_to(self.concentration - 1.0, (classes,))
            return extra / (len(target) + extra.sum())
        towards = np.full(classes, 1.0 / classes) if self.towards is None else self.towards
        if len(towards) != classes:
            raise InputError(f"towards must have {classes} classes; got {len(towards)}")
        share = self.share
        if share is None:
            plain = maximise_mixture(Mixture(target, learned.prior, weights=weights), learned.prior, tolerance=1e-7)
            share = adaptive_share(plain.prior, learned.prior, towards)
        return (1.0 - share) * towards


def adaptive_share(plain: Array, source: Array, towards: Array) -> float:
    """How much the data counts: more the farther the plain estimate is from `towards`, and the nearer to the source.

    `λ = 0.9·c(T,U) + 0.1·(1 - c(T,S))` with `c(D) = γD/(1 + γD)` on KL divergences, `γ` set by `KL(S‖U)`: the rule
    and its constants are those of the method's published code (ChangkunYe/MAPLS, `label_shift/mapls.py`).

    >>> uniform = np.array([0.5, 0.5])
    >>> round(adaptive_share(np.array([0.9, 0.1]), uniform, uniform), 3)
    0.9
    """
    confident = 1.0 - _saturated(_divergence(source, towards), 0.5)
    rate = 2.0 * confident / (1.0 - confident) if confident < 1 else np.inf
    far = _saturated(_divergence(plain, towards), rate)
    moved = _saturated(_divergence(plain, source), rate)
    return min(max(0.9 * far + 0.1 * (1.0 - moved), 1e-3), 1.0)


def _saturated(divergence: float, rate: float) -> float:
    if divergence == 0.0:
        return 0.0
    return 1.0 if np.isinf(rate) else rate * divergence / (1.0 + rate * divergence)


def _divergence(first: Array, second: Array) -> float:
    from scipy.special import rel_entr

    return float(max(rel_entr(first, second + 1e-8).sum(), 0.0))
