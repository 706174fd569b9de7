"""Problems that the tests of the sets draw: risks of many shapes, references with and without empty classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from advshift.sets import (
    Box,
    ChiSquareBall,
    FrequencyCap,
    KLBall,
    ReverseKLBall,
    Simplex,
    TopK,
    TotalVariationBall,
    UncertaintySet,
)

BALLS = (KLBall, ReverseKLBall, ChiSquareBall, TotalVariationBall)
NAMES = ("kl", "reverse-kl", "chi2", "tv", "frequency-cap", "top-k", "simplex", "box")


class Case(NamedTuple):
    risks: np.ndarray
    reference: np.ndarray
    radius: float


@st.composite
def cases(draw: st.DrawFn, *, full_support: bool = False, max_classes: int = 30) -> Case:
    classes = draw(st.integers(1, max_classes))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["beta", "uniform", "few levels", "heavy tail", "two clusters", "near ties", "equal"]))
    risks = {
        "beta": lambda: rng.beta(1.5, 4, classes),
        "uniform": lambda: rng.random(classes),
        "few levels": lambda: rng.integers(0, 4, classes) / 3.0,
        "heavy tail": lambda: rng.standard_cauchy(classes),
        "two clusters": lambda: np.where(rng.random(classes) < 0.5, 0.0, 1.0) + 1e-3 * rng.random(classes),
        "near ties": lambda: rng.random() + 1e-9 * rng.random(classes),
        "equal": lambda: np.full(classes, rng.random()),
    }[kind]()
    reference = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.3, 1.0, 100.0]))))
    reference = np.maximum(reference, 1e-6)
    if not full_support and classes > 1 and draw(st.booleans()):
        empty = rng.random(classes) < 0.3
        empty[rng.integers(classes)] = False
        reference = np.where(empty, 0.0, reference)
    return Case(risks, reference / reference.sum(), draw(st.floats(1e-4, 10.0)))


def make(name: str, case: Case, **options: Any) -> UncertaintySet:
    """A set of every kind from one drawn case."""
    classes = int((case.reference > 0).sum())
    share = case.radius / (1.0 + case.radius)
    kinds: dict[str, Any] = {
        "kl": lambda: KLBall(case.radius, **options),
        "reverse-kl": lambda: ReverseKLBall(case.radius, **options),
        "chi2": lambda: ChiSquareBall(case.radius, **options),
        "tv": lambda: TotalVariationBall(share, **options),
        "frequency-cap": lambda: FrequencyCap(1.0 + case.radius, **options),
        "top-k": lambda: TopK(1.0 + share * (classes - 1), **options),
        "simplex": lambda: Simplex(**options),
        "box": lambda: Box(
            0.3 * share / classes * (case.reference > 0).all(), min(1.0, (1.0 + case.radius) / classes), **options
        ),
    }
    made: UncertaintySet = kinds[name]()
    return made


def violation(uncertainty_set: UncertaintySet, pi: np.ndarray, p: np.ndarray) -> float:
    """By how much a distribution leaves the set, in the units of its constraint; computed without the library."""
    inside = p > 0
    q, c = pi[inside], p[inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = float(np.where(q > 0, q * np.log(q / c), 0.0).sum())
        reverse = float((c * np.log(c / q)).sum())
    match uncertainty_set:
        case KLBall():
            excess = kl - uncertainty_set.radius
        case ReverseKLBall():
            excess = reverse - uncertainty_set.radius
        case ChiSquareBall():
            excess = 0.5 * float(((q - c) ** 2 / c).sum()) - uncertainty_set.radius
        case TotalVariationBall():
            excess = 0.5 * float(np.abs(pi - p).sum()) - uncertainty_set.radius
        case FrequencyCap():
            excess = float((pi - uncertainty_set.ratio * p).max())
        case TopK():
            excess = float(pi.max()) - 1.0 / uncertainty_set.k
        case Box():
            excess = max(
                float(np.where(inside, uncertainty_set.lower - pi, 0.0).max()),
                float((pi - uncertainty_set.upper).max()),
            )
        case _:
            excess = 0.0
    return max(excess, abs(float(pi.sum()) - 1.0), float(-pi.min()), float(np.abs(pi[~inside]).sum()))
