"""Prior correction: predictions under one label distribution turned into those under another (Elkan; Saerens et al.).

Under label shift `p(x | y)` stays, so that the posterior under `q` is `f_y q_y/p_y`, normalised.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float

from advshift.errors import InputError
from advshift.numerics.backend import as_floating, as_numpy, check_distribution, namespace, total
from advshift.types import Array, ArrayLike

__all__ = ["correct_logits", "correct_probabilities", "importance_weights"]


def correct_probabilities(
    probabilities: ArrayLike, source: ArrayLike, target: ArrayLike
) -> Float[Array, "*batch classes"]:
    """Turn probabilities under the source's label distribution into probabilities under the target's.

    Parameters
    ----------
    probabilities
        Shape `(..., classes)`, NumPy or torch.
    source, target
        The label distributions `p` and `q`; `p` is what the model was trained on (or what its sampler made of it).

    >>> correct_probabilities([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], [0.2, 0.8]).round(3).tolist()
    [[0.2, 0.8], [0.692, 0.308]]
    """
    rows, source, target = _three(probabilities, source, target, "probabilities")
    moved = rows * (target / source)
    sums = total(moved)
    if not bool((sums > 0).all()):
        raise InputError(
            "some row has no probability on any class that the target has; smooth the target's label distribution"
        )
    return moved / sums


def correct_logits(logits: ArrayLike, source: ArrayLike, target: ArrayLike) -> Float[Array, "*batch classes"]:
    """Add `log q - log p` to the logits; a class that the target lacks gets minus infinity.

    Parameters
    ----------
    logits
        Shape `(..., classes)`, NumPy or torch; log-probabilities will do.
    source, target
        As in `correct_probabilities`.

    >>> correct_logits([[0.0, 0.0]], [0.5, 0.5], [0.25, 0.75]).round(3).tolist()
    [[-0.693, 0.405]]
    """
    rows, source, target = _three(logits, source, target, "logits")
    xp = namespace(rows)
    present = target > 0
    shift = xp.log(xp.where(present, target, xp.ones_like(target))) - xp.log(source)
    return rows + xp.where(present, shift, xp.full_like(shift, -float("inf")))


def importance_weights(
    source: ArrayLike, target: ArrayLike, labels: ArrayLike | None = None, *, largest: float | None = None
) -> Any:
    """The weight of each class, `q/p`, or of each example given its label: what re-training multiplies its losses with.

    Parameters
    ----------
    source, target
        The label distributions `p` and `q`.
    labels
        The class of each example, NumPy or torch; None returns a weight per class.
    largest
        Where to cut the weights; what is cut is lost, so that the mean weight falls below one.

    >>> importance_weights([0.5, 0.5], [0.2, 0.8], [1, 0, 1]).tolist()
    [1.6, 0.4, 1.6]
    """
    source, target = as_floating(source=source, target=target)
    _check_pair(source, target)
    weights = target / source
    if largest is not None:
        if not largest > 0:
            raise InputError(f"largest must be above 0; got {largest}")
        weights = namespace(weights).where(weights < largest, weights, namespace(weights).full_like(weights, largest))
    if labels is None:
        return weights
    found = as_numpy(labels) if not hasattr(labels, "device") else labels
    numbers = as_numpy(labels)
    if numbers.dtype.kind not in "iu" or (numbers.size and not 0 <= numbers.min() <= numbers.max() < len(weights)):
        raise InputError(f"labels must be integers from 0 to {len(weights) - 1}; got dtype {numbers.dtype}")
    return weights[found]


def _three(rows: ArrayLike, source: ArrayLike, target: ArrayLike, name: str) -> tuple[Array, Array, Array]:
    found, source, target = as_floating(**{name: rows, "source": source, "target": target})
    _check_pair(source, target)
    if found.ndim == 0 or found.shape[-1] != source.shape[0]:
        raise InputError(f"{name} must have {source.shape[0]} classes along the last axis; got {tuple(found.shape)}")
    return found, source, target


def _check_pair(source: Array, target: Array) -> None:
    if source.ndim != 1 or tuple(source.shape) != tuple(target.shape):
        raise InputError(
            f"source and target must hold one number per class; got {tuple(source.shape)} and {tuple(target.shape)}"
        )
    check_distribution(source, "the source's label distribution")
    check_distribution(target, "the target's label distribution")
    if not bool((source > 0).all()):
        raise InputError("a class without mass in the source has no importance weight; leave it out")
