"""The proportions of a mixture with known components: a concave maximum, found to a certified gap.

The rows are probabilities `f(y | x)` under a reference `p`; `f / p` is proportional to `p(x | y)`, so that the
log-likelihood of the proportions `q` is `Σ_n log Σ_y f_ny q_y / p_y`. It is concave, and at any `q` the largest entry
of its gradient tells how far the maximum can be: `max_y g_y - 1`. A few EM steps come first. With few classes each step
after them minimises the quadratic model over the simplex (sequential quadratic programming) and searches along the line
to its minimiser. With many, where a curvature costs as much as hundreds of gradients, EM is extrapolated first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from advshift.priors.quadratic import minimise_quadratic
from advshift.types import Array

__all__ = ["SMALL", "Mixture", "MixtureFit", "maximise_mixture"]

_CHUNK = 1 << 16  # numbers of a block of rows: both products with it run from the cache
_BLOCK = 1 << 21  # numbers of a block of rows of the curvature, a matrix product
_WARM_UP = 4  # EM steps before the first curvature
SMALL = 128  # up to this many classes the curvature is renewed at every step, and kept in float64
_ROUNDING = 1e-14  # relative: what the sum over the rows may lose
_EXCHANGES = 50  # in the minimisation of one quadratic model; a good one takes about 10
_MEMORY = 10  # differences that the extrapolation of EM remembers


class MixtureFit(NamedTuple):
    """The maximiser, its value per row, the certified gap to the maximum, and the values on the way."""

    prior: Float[Array, " classes"]
    value: float
    gap: float
    iterations: int
    converged: bool
    values: tuple[float, ...]


class Mixture:
    """The objective `λ·mean log Σ_y f_ny q_y/p_y + Σ_y a_y log q_y` with `λ + Σa = 1`, evaluated in blocks of rows.

    Parameters
    ----------
    rows
        Probabilities, one row per example; never copied.
    reference
        `p`, the label distribution under which the rows are probabilities.
    weights
        A weight per row; equal by default.
    pseudo
        `a`, the strength of a Dirichlet prior per class; none by default.
    """

    def __init__(
        self,
        rows: Float[Array, "examples classes"],
        reference: Float[Array, " classes"],
        *,
        weights: Float[Array, " examples"] | None = None,
        pseudo: Float[Array, " classes"] | None = None,
    ) -> None:
        self.rows = rows
        self.inverse = 1.0 / reference
        share = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights / weights.sum()
        self.pseudo = np.zeros(rows.shape[1]) if pseudo is None else pseudo
        self.shares = share * (1.0 - self.pseudo.sum())

    def evaluate(self, prior: Float[Array, " classes"]) -> tuple[float, Float[Array, " classes"]]:
        """The value and its gradient in one pass over the rows; `Σ q·g = 1` at every `q`."""
        scaled = prior * self.inverse
        value, gradient = 0.0, np.zeros(len(prior))
        for start in range(0, len(self.rows), self._length(_CHUNK)):
            block = self.rows[start : start + self._length(_CHUNK)].astype(np.float64, copy=False)
            share = self.shares[start : start + len(block)]
            density = block @ scaled
            value += float(share @ np.log(density))
            gradient += (share / density) @ block
        gradient *= self.inverse
        if self.pseudo.any():
            value += float(self.pseudo @ np.log(prior))
            gradient += self.pseudo / prior
        return value, gradient

    def curvature(self, prior: Float[Array, " classes"]) -> Float[Array, "classes classes"]:
        """The negative Hessian: `λ·mean ss' + diag(a/q²)` with the scores `s = (f/p) / Σ f q/p`."""
        scaled = prior * self.inverse
        narrow = np.float32 if len(prior) > SMALL else np.float64
        found = np.zeros((len(prior), len(prior)))
        for start in range(0, len(self.rows), self._length(_BLOCK)):
            block = self.rows[start : start + self._length(_BLOCK)]
            share = self.shares[start : start + len(block)]
            factor = np.sqrt(share) / (block @ scaled)
            scores = (block * factor[:, None]).astype(narrow, copy=False)
            found += scores.T @ scores
        found *= self.inverse[:, None] * self.inverse
        if self.pseudo.any():
            found[np.diag_indices_from(found)] += self.pseudo / prior**2
        return found

    def _length(self, numbers: int) -> int:
        return max(1, numbers // len(self.inverse))


class _Point(NamedTuple):
    prior: Array
    value: float
    gradient: Array

    @property
    def gap(self) -> float:
        """No distribution is better by more than this, because the objective is concave."""
        return max(float(self.gradient.max()) - 1.0, 0.0)


def maximise_mixture(
    mixture: Mixture, start: Float[Array, " classes"], *, tolerance: float = 1e-9, limit: int = 1000
) -> MixtureFit:
    """Maximise from `start` until the certified gap is at most `tolerance`, never going down.

    Parameters
    ----------
    mixture
        The objective.
    start
        A distribution without zeros, with which EM can reach every other.
    tolerance
        The gap at which to stop, in units of the log-likelihood per row.
    limit
        The most passes over the rows.
    """
    state = _Search(mixture, _at(mixture, start), limit)
    for _ in range(_WARM_UP):
        if state.point.gap > tolerance:
            state.accept(state.expectation_maximisation())
    if len(start) > SMALL:
        _extrapolate(state, tolerance, passes=min(limit, len(start) // 8))
    while state.point.gap > tolerance and state.passes < limit:
        if not state.newton():
            before = state.point.value
            state.accept(state.expectation_maximisation())
            if state.point.value <= before:
                break
    point = state.point
    return MixtureFit(point.prior, point.value, point.gap, state.passes, point.gap <= tolerance, tuple(state.values))


def _at(mixture: Mixture, prior: Array) -> _Point:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value, gradient = mixture.evaluate(prior)
    return _Point(prior, value, gradient)


def _extrapolate(state: _Search, tolerance: float, passes: int) -> None:
    """Anderson's extrapolation of EM in the logarithm: the combination of past steps that should not move.

    A point that is no better is thrown away with the memory, and a plain EM step is taken instead. It ends where a step
    gains less than the tolerance.
    """
    points: list[Array] = []
    moves: list[Array] = []
    gain = np.inf
    while state.point.gap > tolerance and state.passes < passes and gain > tolerance:
        prior, gradient, value = state.point.prior, state.point.gradient, state.point.value
        points, moves = [*points, np.log(prior)][-_MEMORY - 1 :], [*moves, np.log(gradient)][-_MEMORY - 1 :]
        if len(points) == 1 or not state.accept(state.evaluate(_combined(points, moves, np.sqrt(prior)))):
            state.accept(state.expectation_maximisation())
            points, moves = (points, moves) if len(points) == 1 else ([], [])
        gain = state.point.value - value


def _combined(points: list[Array], moves: list[Array], scale: Array) -> Any:
    changes = np.diff(np.stack(moves, axis=1), axis=1)
    shares = np.linalg.lstsq(scale[:, None] * changes, scale * moves[-1], rcond=1e-10)[0]
    logarithm = points[-1] + moves[-1] - (np.diff(np.stack(points, axis=1), axis=1) + changes) @ shares
    prior = np.maximum(np.exp(logarithm - logarithm.max()), 1e-300)
    return prior / prior.sum()


class _Search:
    """The best point so far, the curvature in use, and how often the rows were read."""

    def __init__(self, mixture: Mixture, point: _Point, limit: int) -> None:
        self.mixture, self.point, self.limit = mixture, point, limit
        self.passes, self.values = 1, [point.value]
        self.curvature: Array | None = None
        self.stale = True
        self.strength = 0.0  # of the pull towards the present point, relative to the mean of the diagonal

    def accept(self, point: _Point) -> bool:
        """Take the point unless it is worse, or as good to the last digits with a larger gap."""
        lost = self.point.value - point.value
        if lost <= 0 or (lost <= _ROUNDING * (1.0 + abs(point.value)) and point.gap < self.point.gap):
            self.point = point
            self.values.append(point.value)
            return True
        return False

    def evaluate(self, prior: Array) -> _Point:
        self.passes += 1
        return _at(self.mixture, prior)

    def expectation_maximisation(self) -> _Point:
        moved = self.point.prior * self.point.gradient
        return self.evaluate(moved / moved.sum())

    def newton(self) -> bool:
        """One step with the curvature in use, renewed when it is small or has stopped helping."""
        if self.curvature is None or self.stale:
            self.curvature = self.mixture.curvature(self.point.prior)
            self.passes += 1
        fresh, gap, prior = self.stale, self.point.gap, self.point.prior
        goal = self._inside(self._lowest(self.curvature))
        moved = self._line_search(goal - prior)
        self.stale = len(prior) <= SMALL or not moved or self.point.gap > 0.1 * gap
        return moved or not fresh

    def _lowest(self, curvature: Array) -> Array:
        """Minimise the quadratic model, pulled to this point where it is too flat, as with fewer rows than classes."""
        prior = self.point.prior
        while True:
            raised = curvature + self.strength * np.trace(curvature) / len(prior) * np.eye(len(prior))
            vector = self.point.gradient + raised @ prior
            fit = minimise_quadratic(raised, vector, start=prior > 0, limit=_EXCHANGES)
            if fit.converged or self.strength >= 1.0:
                return fit.point
            self.strength = max(100.0 * self.strength, 1e-6)

    def _inside(self, goal: Array) -> Array:
        """Keep a class with a Dirichlet prior away from zero, where its logarithm ends."""
        floor = np.where(self.mixture.pseudo > 0, 0.01 * self.point.prior, 0.0)
        raised = np.maximum(goal, floor)
        return raised / raised.sum()

    def _line_search(self, direction: Array) -> bool:
        slope = float(self.point.gradient @ direction)
        length = 1.0
        for _ in range(12):
            prior = np.maximum(self.point.prior + length * direction, 0.0)
            trial = self.evaluate(prior / prior.sum())
            enough = self.point.value + 1e-4 * length * slope
            if (trial.value >= enough or trial.gap < self.point.gap) and self.accept(trial):
                return True
            length *= 0.4
        return False
