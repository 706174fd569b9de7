"""What every estimator of a label distribution shares: checks, calibration, covariance and the bootstrap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int

from advshift.errors import InputError
from advshift.priors.calibration import Calibration
from advshift.priors.calibrations import make_calibration
from advshift.priors.checks import as_labels, as_probabilities, check_columns
from advshift.priors.unidentified import wander
from advshift.types import Array, ArrayLike, PriorEstimate

__all__ = [
    "Covariance",
    "Found",
    "PriorEstimator",
    "Source",
    "class_means",
    "numerical_rank",
    "rank_and_condition",
    "second_moment",
]

Covariance = Literal["asymptotic", "bootstrap", "none"]

BLOCK = 1 << 21  # numbers in one temporary
_DRAWS = 400  # label distributions that stand for all that the predictions leave open


class Source(NamedTuple):
    """The labelled side: probabilities, labels, a weight per example (they sum to the number of examples)."""

    rows: Float[Array, "examples columns"]
    labels: Int[Array, " examples"]
    weights: Float[Array, " examples"] | None
    classes: int

    @property
    def counts(self) -> Any:
        """The weight of each class."""
        return np.bincount(self.labels, weights=self.weights, minlength=self.classes).astype(np.float64)

    @property
    def prior(self) -> Any:
        """The share of each class."""
        return self.counts / self.counts.sum()


class Found(NamedTuple):
    """What a solver returns: the label distribution, how the search went, and what the covariance needs."""

    prior: Float[Array, " classes"]
    converged: bool
    iterations: int
    extra: Any = None


class PriorEstimator(ABC):
    """Learn from labelled source predictions, then estimate the label distribution behind unlabelled ones.

    Parameters
    ----------
    calibration
        None, or how to calibrate the probabilities on the source: `"temperature"`, `"bcts"`, `"vector"`,
        `"vector-no-bias"` or a `Calibration`.
    covariance
        `"asymptotic"`: from the estimating equations, both samples counted in. `"bootstrap"`: from `replicates`
        refits, calibration included, with random exponential weights on both samples (no class ever drops out).
        `"none"`: no covariance, for speed. Where many label distributions explain the predictions equally well, the
        covariance counts all of them as equally likely.
    replicates
        The number of bootstrap refits.
    seed
        The seed of the bootstrap.
    renormalise
        Divide each row by its sum instead of refusing rows that do not sum to one.
    """

    name: ClassVar[str]

    def __init__(
        self,
        *,
        calibration: str | Calibration | None = None,
        covariance: Covariance = "asymptotic",
        replicates: int = 200,
        seed: int = 0,
        renormalise: bool = False,
    ) -> None:
        if covariance not in get_args(Covariance):
            raise InputError(f"covariance must be one of {', '.join(get_args(Covariance))}; got {covariance!r}")
        if replicates < 2:
            raise InputError(f"replicates must be 2 or more; got {replicates}")
        self.calibration = make_calibration(calibration)
        self.covariance = covariance
        self.replicates = replicates
        self.seed = seed
        self.renormalise = renormalise

    def fit(self, probabilities: ArrayLike, labels: ArrayLike) -> PriorEstimator:
        """Learn how the model behaves on each class of the source.

        Parameters
        ----------
        probabilities
            A row of class probabilities per example. The examples must not have trained the model.
        labels
            The number of the true class per example.
        """
        rows = self._checked(probabilities, "the source")
        found = as_labels(labels, len(rows), self._classes(rows))
        classes = int(found.max()) + 1 if self._classes(rows) is None else rows.shape[1]
        self._raw = Source(rows, found, None, classes)
        self._source, self._calibrator = self._calibrated(None)
        self._learned = self._learn(self._source)
        return self

    def estimate(self, probabilities: ArrayLike) -> PriorEstimate:
        """Estimate the label distribution of a target from its predictions.

        Parameters
        ----------
        probabilities
            A row per example, in the source's columns.
        """
        if not hasattr(self, "_learned"):
            raise InputError(f"{type(self).__name__} must be fitted on a labelled source before it can estimate")
        raw = self._checked(probabilities, "the target")
        check_columns(raw, self._raw.rows.shape[1])
        target = raw if self._calibrator is None else self._calibrator(raw)
        found = self._solve(self._learned, target, None, None)
        replicates = self._bootstrap(raw, found) if self.covariance == "bootstrap" else None
        covariance = self._asymptotic(self._learned, target, found) if self.covariance == "asymptotic" else None
        if replicates is not None:
            covariance = np.cov(replicates, rowvar=False)
        diagnostics = self._diagnose(self._learned, found)
        if covariance is not None and diagnostics["rank"] < len(found.prior):
            replicates, covariance = self._opened(found, replicates, covariance)
        source = self._reference(self._learned)
        return PriorEstimate(
            prior=found.prior,
            source=source,
            covariance=covariance,
            replicates=replicates,
            converged=found.converged,
            iterations=found.iterations,
            source_size=len(self._raw.labels),
            target_size=len(target),
            diagnostics=diagnostics | _weight_diagnostics(found.prior, source, self._source),
            method=self.name,
            source_influence=partial(self._influence, self._learned, found),
        )

    @property
    def calibrator(self) -> Calibration | None:
        """The calibration that `fit` found, for whoever uses the probabilities further; None where there is none."""
        return self._calibrator

    def _checked(self, values: ArrayLike, name: str) -> Any:
        return as_probabilities(values, name, renormalise=self.renormalise)

    def _classes(self, rows: Array) -> int | None:
        """The number of classes that the columns tell, None where they are something else."""
        return int(rows.shape[1])

    def _calibrated(self, weights: Array | None) -> tuple[Source, Calibration | None]:
        raw = self._raw._replace(weights=weights)
        if self.calibration is None:
            return raw, None
        calibrator = copy(self.calibration if weights is None else self._calibrator or self.calibration)
        calibrator.fit(raw.rows, raw.labels, weights)
        return raw._replace(rows=calibrator(raw.rows)), calibrator

    def _bootstrap(self, raw: Array, found: Found) -> Float[Array, "replicates classes"]:
        generator = np.random.default_rng(self.seed)
        replicates = np.empty((self.replicates, len(found.prior)))
        for number in range(self.replicates):
            source, calibrator = self._calibrated(generator.standard_exponential(len(self._raw.labels)))
            target = raw if calibrator is None else calibrator(raw)
            weights = generator.standard_exponential(len(raw))
            replicates[number] = self._solve(self._learn(source), target, weights, found).prior
        return replicates

    def _opened(self, found: Found, replicates: Any, covariance: Any) -> tuple[Any, Any]:
        """Count in what the predictions leave open, which no spread of a solver's answers shows."""
        directions = self._unseen(self._learned, found)
        if replicates is not None:
            away = replicates - found.prior
            away -= away @ directions @ directions.T
            moved = np.maximum(found.prior + away + wander(found.prior, directions, len(away), self.seed), 0.0)
            moved /= moved.sum(axis=1, keepdims=True)
            away = moved - found.prior
            return moved, away.T @ away / len(away)
        away = wander(found.prior, directions, _DRAWS, self.seed)
        return None, covariance + away.T @ away / _DRAWS

    @abstractmethod
    def _learn(self, source: Source) -> Any:
        """What the estimate needs to know of the source."""

    @abstractmethod
    def _solve(self, learned: Any, target: Array, weights: Array | None, start: Found | None) -> Found:
        """The estimate; `start` is the one that a bootstrap refit varies."""

    @abstractmethod
    def _asymptotic(self, learned: Any, target: Array, found: Found) -> Float[Array, "classes classes"]:
        """The covariance of the estimate, to first order."""

    @abstractmethod
    def _influence(self, learned: Any, found: Found, shares: Array) -> Float[Array, " classes"]:
        """`Σ_i g_i·(influence of source example i on the estimate)`."""

    @abstractmethod
    def _reference(self, learned: Any) -> Float[Array, " classes"]:
        """The source's label distribution, as this estimator sees it."""

    @abstractmethod
    def _diagnose(self, learned: Any, found: Found) -> dict[str, float]:
        """Numbers that say how far the estimate can be trusted, the rank of what the predictions see among them."""

    @abstractmethod
    def _unseen(self, learned: Any, found: Found) -> Float[Array, "classes directions"]:
        """Along which directions label distributions explain the predictions equally well."""


def _weight_diagnostics(prior: Array, source: Array, labelled: Source) -> dict[str, float]:
    """What re-weighting the source to the estimate costs: `(Σ w)² / Σ w²` examples are left of all."""
    weights = prior / source
    counts = labelled.counts
    size = float((counts @ weights) ** 2 / (counts @ weights**2))
    return {"effective_sample_size": size, "largest_weight": float(weights.max())}


def class_means(source: Source, features: Array) -> Float[Array, "columns classes"]:
    """The mean row of each class, one class a column, without a temporary of the size of the rows."""
    from scipy.sparse import csr_matrix

    weights = np.ones(len(source.labels)) if source.weights is None else source.weights
    shape = (source.classes, len(source.labels))
    sums = csr_matrix((weights, (source.labels, np.arange(len(source.labels)))), shape=shape) @ features
    return np.ascontiguousarray((sums / source.counts[:, None]).T, dtype=np.float64)


def numerical_rank(spectrum: Float[Array, " values"]) -> int:
    """How many singular values, the largest first, stand above rounding."""
    return int(np.sum(spectrum > spectrum[0] * 1e-10))


def rank_and_condition(matrix: Float[Array, "columns classes"]) -> dict[str, float]:
    """The rank and the condition of a confusion matrix, which say whether a label distribution can be told from it.

    >>> rank_and_condition(np.array([[0.9, 0.1], [0.1, 0.9]]))
    {'rank': 2.0, 'condition': 1.25}
    """
    spectrum = np.linalg.svd(matrix, compute_uv=False)
    smallest = float(spectrum[-1])
    condition = float(spectrum[0]) / smallest if smallest > 0 else float("inf")
    return {"rank": float(numerical_rank(spectrum)), "condition": condition}


def second_moment(rows: Array, weights: Array) -> Float[Array, "columns columns"]:
    """`Σ_n w_n x_n x_n'` in blocks of rows."""
    found = np.zeros((rows.shape[1], rows.shape[1]))
    length = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(rows), length):
        block = rows[start : start + length] * np.sqrt(weights[start : start + length])[:, None]
        found += block.T @ block
    return found
