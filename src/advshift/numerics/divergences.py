"""Divergences between label distributions, by name: exact with zeros, and to the last digits for near-equal arguments.

`KL` is summed as `Σ π log(π/p) - π + p`. For distributions that adds nothing, but every term is non-negative, and with
`y = (π - p)/(π + p)` it is `(π + p)·y·(y + s + y·s)`, where `s = artanh(y)/y - 1` has a short series: no digits cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.numerics.backend import as_floating, check_distribution, choose, is_torch, namespace, squeeze, total
from advshift.registry import nearest
from advshift.types import Array, ArrayLike

__all__ = ["DIVERGENCES", "divergence", "kl_divergence"]

_NEAR = 0.1  # |y| below which the series is used
_TERMS = 9  # of the series: the tenth is 0.1**20/21


def divergence(name: str, distribution: ArrayLike, reference: ArrayLike, *, check: bool = True) -> Array:
    """Measure how far a label distribution `π` is from a reference `p`.

    `kl` is `Σ π log(π/p)`, `reverse-kl` is `Σ p log(p/π)`, `chi2` is `½ Σ (π-p)²/p` and `tv` is `½ Σ |π-p|`.
    Infinite where `π` has mass that `p` lacks (`kl`, `chi2`), or `p` mass that `π` lacks (`reverse-kl`).

    Parameters
    ----------
    name
        One of `kl`, `reverse-kl`, `chi2`, `tv`.
    distribution, reference
        Shape `(..., classes)`; leading axes are broadcast. Tensors carry gradients.
    check
        Whether to refuse what is no distribution, which reads values on the host; turn it off in compiled code.

    >>> round(float(divergence("kl", [0.5, 0.5, 0.0], [0.25, 0.25, 0.5])), 6)
    0.693147
    >>> divergence("reverse-kl", [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]).item()
    inf
    """
    if name not in DIVERGENCES:
        raise InputError(f"unknown divergence {name!r}{nearest(name, DIVERGENCES)} (known: {', '.join(DIVERGENCES)})")
    first, second = as_floating(distribution=distribution, reference=reference)
    if check:
        _check(first, second)
    if is_torch(first):
        return squeeze(DIVERGENCES[name](first, second))
    with np.errstate(all="ignore"):
        return squeeze(DIVERGENCES[name](first, second))


def kl_divergence(distribution: Float[Array, "*#batch classes"], reference: Float[Array, "*#batch classes"]) -> Array:
    """Sum `π log(π/p) - π + p` over the last axis, which is kept."""
    xp = namespace(distribution)
    both = distribution + reference
    some = both > 0
    ratio = choose(some, distribution - reference, 0.0) / choose(some, both, 1.0)
    near = xp.abs(ratio) < _NEAR
    close = choose(near, ratio, 0.0)
    excess = _artanh_excess(close)
    series = both * close * (close + excess + close * excess)
    apart = ~near & (distribution > 0)
    logarithm = xp.log(choose(apart, distribution, 1.0)) - xp.log(choose(apart, reference, 1.0))
    far = distribution * logarithm - choose(near, 0.0, distribution - reference)
    return total(choose(near, series, far))


def _artanh_excess(ratio: Array) -> Array:
    """`artanh(y)/y - 1` for `|y| ≤ 0.1`."""
    square = ratio * ratio
    series = 0.0 * square
    for order in range(2 * _TERMS + 1, 1, -2):
        series = square * (1.0 / order + series)
    return series


def _reverse_kl(distribution: Array, reference: Array) -> Array:
    return kl_divergence(reference, distribution)


def _chi_square(distribution: Array, reference: Array) -> Array:
    moved = distribution - reference
    known = choose(reference > 0, reference, 1.0)
    terms = moved * (moved / known)
    return 0.5 * total(choose((reference > 0) | (moved == 0), terms, float("inf")))


def _total_variation(distribution: Array, reference: Array) -> Array:
    return 0.5 * total(namespace(distribution).abs(distribution - reference))


DIVERGENCES: MappingProxyType[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {"kl": kl_divergence, "reverse-kl": _reverse_kl, "chi2": _chi_square, "tv": _total_variation}
)


def _check(distribution: Array, reference: Array) -> None:
    shapes = [tuple(array.shape) for array in (distribution, reference)]
    if not all(shapes) or shapes[0][-1] != shapes[1][-1] or 0 in (*shapes[0], *shapes[1]):
        raise InputError(
            "the distribution and the reference must hold one number per class along their last axis; "
            f"got shapes {shapes[0]} and {shapes[1]}"
        )
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise InputError(f"the leading axes of shapes {shapes[0]} and {shapes[1]} do not broadcast") from None
    check_distribution(distribution, "the distribution")
    check_distribution(reference, "the reference")
