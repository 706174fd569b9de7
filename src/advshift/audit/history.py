"""How far the mix of classes has moved before: the radius that past sites or months suggest."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.audit.labels import Label
from advshift.errors import InputError
from advshift.types import Array

__all__ = ["History", "Moved", "Suggestion", "divergences", "suggest_radius", "suggestion_json"]

RESAMPLES = 2000
FEW = 10  # mixes below which a quantile near the end is little more than the largest one


@dataclass(frozen=True)
class History:
    """Class counts of past mixes, a row each."""

    names: tuple[str, ...]
    classes: tuple[Label, ...]
    counts: Int[Array, "mixes classes"]


@dataclass(frozen=True)
class Moved:
    """How far one past mix is from the reference.

    `expected` is what the divergence would be on average if the examples had come from the reference: a divergence
    not above it is no sign of a shift. `corrected` is the divergence less that part, and never negative.
    """

    name: str
    size: int
    divergence: float
    expected: float
    corrected: float
    max_ratio: float
    favoured: Label


@dataclass(frozen=True)
class Suggestion:
    """A radius with its quantile and an interval for it; the mixes are those of the history."""

    set_name: str
    radius: float
    quantile: float
    lower: float
    upper: float
    confidence: float
    mixes: tuple[Moved, ...]
    warnings: tuple[str, ...]


def divergences(
    mixes: Float[Array, "*batch classes"], reference: Float[Array, "classes"], set_name: str = "kl"
) -> Float[Array, "*batch"]:
    """How large a set's radius must be to hold each mix: the divergence of the mix from the reference.

    `KL(π‖p)`, `KL(p‖π)`, `½ Σ (π−p)²/p`, `½ Σ abs(π−p)`, or for `frequency-cap` the largest `π/p`.

    >>> divergences(np.array([0.5, 0.5]), np.array([0.25, 0.75]), "tv").item()
    0.25
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if set_name == "kl":
            return np.where(mixes > 0, mixes * np.log(mixes / reference), 0.0).sum(axis=-1)
        if set_name == "reverse-kl":
            return np.where(reference > 0, reference * np.log(reference / mixes), 0.0).sum(axis=-1)
        if set_name == "chi2":
            return 0.5 * np.where(mixes != reference, (mixes - reference) ** 2 / reference, 0.0).sum(axis=-1)
        if set_name == "tv":
            return 0.5 * np.abs(mixes - reference).sum(axis=-1)
        if set_name == "frequency-cap":
            return np.where(mixes > 0, mixes / reference, 0.0).max(axis=-1)
    raise InputError(f"a radius can be suggested for kl, reverse-kl, chi2, tv and frequency-cap; got {set_name!r}")


def suggest_radius(
    history: History,
    reference: Float[Array, "classes"],
    *,
    set_name: str = "kl",
    quantile: float = 0.9,
    confidence: float = 0.95,
    seed: int = 0,
) -> Suggestion:
    """Suggest the radius that held a given share of past mixes.

    The suggestion is that quantile of the mixes' corrected divergences, where a mix is corrected for what the
    divergence of so small a sample is without any shift. Its interval is a percentile bootstrap of two stages, over
    mixes and over the examples of each.

    Parameters
    ----------
    history
        The past mixes.
    reference
        The mix that was trained on, over the history's classes.
    set_name
        The set whose radius is wanted.
    quantile
        The share of past mixes that the set should have held.
    confidence, seed
        Of the interval.
    """
    for name, value in (("quantile", quantile), ("confidence", confidence)):
        if not 0.0 < value < 1.0:
            raise InputError(f"the {name} must be between 0 and 1; got {value:g}")
    generator = np.random.default_rng(seed)
    sizes = history.counts.sum(axis=1)
    shares = history.counts / sizes[:, None]
    found = divergences(shares, reference, set_name)
    rest = 1.0 if set_name == "frequency-cap" else 0.0
    expected = np.array([_expected(reference, int(size), set_name, generator) for size in sizes])
    corrected = np.maximum(found - (expected - rest), rest)
    draws = _bootstrap(history.counts, reference, expected - rest, set_name, quantile, generator)
    tail = 0.5 * (1.0 - confidence)
    mixes = tuple(
        _moved(history, reference, k, float(found[k]), float(expected[k]), float(corrected[k]))
        for k in range(len(sizes))
    )
    lower, upper = (float(_quantile(draws, level)) for level in (tail, 1.0 - tail))
    radius = float(_quantile(corrected, quantile))
    return Suggestion(set_name, radius, quantile, lower, upper, confidence, mixes, _warnings(mixes, quantile))


def _moved(history: History, reference: Any, k: int, found: float, expected: float, corrected: float) -> Moved:
    share = history.counts[k] / history.counts[k].sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(share > 0, share / reference, 0.0)
    favoured = int(np.argmax(ratios))
    size = int(history.counts[k].sum())
    label = history.classes[favoured]
    return Moved(history.names[k], size, found, expected, corrected, float(ratios[favoured]), label)


def _quantile(values: Any, level: float) -> Any:
    """The smallest value that at least a share `level` of the values does not exceed: it holds for infinities too."""
    return np.quantile(values, level, method="inverted_cdf")


def _expected(reference: Any, size: int, set_name: str, generator: np.random.Generator, draws: int = 200) -> float:
    """The mean divergence of samples of this size from the reference itself."""
    sampled = generator.multinomial(size, reference, size=draws) / size
    found = divergences(sampled, reference, set_name)
    finite = found[np.isfinite(found)]
    return float(finite.mean()) if finite.size else 0.0


def _bootstrap(
    counts: Any, reference: Any, expected: Any, set_name: str, quantile: float, generator: np.random.Generator
) -> Any:
    """Quantiles of resampled histories.

    Drawing a mix's examples again adds the divergence of one more sampling, so twice the expected part is taken off.
    """
    rest = 1.0 if set_name == "frequency-cap" else 0.0
    sizes = counts.sum(axis=1)
    draws = np.empty(RESAMPLES)
    for k in range(RESAMPLES):
        chosen = generator.integers(len(counts), size=len(counts))
        again = generator.multinomial(sizes[chosen], counts[chosen] / sizes[chosen, None]) / sizes[chosen, None]
        found = np.maximum(divergences(again, reference, set_name) - 2.0 * expected[chosen], rest)
        draws[k] = _quantile(found, quantile)
    return draws


def _warnings(mixes: Sequence[Moved], quantile: float) -> tuple[str, ...]:
    warnings = []
    if len(mixes) < FEW or len(mixes) * (1.0 - quantile) < 1.0:
        warnings.append(
            f"With {len(mixes)} past mixes the {quantile:.0%} quantile is the largest or nearly so; "
            "the future can be further off than any of them."
        )
    unheard = [moved for moved in mixes if math.isinf(moved.divergence)]
    if unheard:
        warnings.append(
            f"{unheard[0].name} has class {unheard[0].favoured!r}, which the reference gives no mass: no radius of "
            "this set holds such a mix."
        )
    noisy = sum(moved.divergence <= moved.expected for moved in mixes)
    if noisy:
        warnings.append(
            f"{noisy} of {len(mixes)} mixes are no further from the reference than chance would take samples of "
            "their size."
        )
    return tuple(warnings)


def suggestion_json(found: Suggestion) -> str:
    """Write a suggestion as strict JSON; infinity is `"inf"`."""
    tree = {"schema": "advshift.radius/1", **asdict(found)}
    return json.dumps(_strict(tree), allow_nan=False, ensure_ascii=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(inner) for inner in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
