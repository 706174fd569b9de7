"""Evaluation sets under label shift: which examples make up a sample of another class mix.

A shift has two steps: class mixes (`dirichlet`, `tweak_one`, `minority`, `long_tail`, or one that is given), and rows
of a labelled set that have such a mix (`draw`). Every random number comes from the generator that is given.

Setups of Lipton et al. (2018): `tweak_one` and `dirichlet`; of Azizzadenesheli et al. (2019): `minority`; forward and
backward long tails as in the work on test-time shift (Hong et al., 2021; Zhang et al., 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from advshift.errors import InputError

__all__ = ["dirichlet", "draw", "long_tail", "minority", "rounded_counts", "tweak_one"]

Mix = Float64[Tensor, " classes"]
Shares = Sequence[float | int] | Tensor


def dirichlet(classes: int, concentration: float, generator: torch.Generator) -> Mix:
    """Draw a mix from a symmetric Dirichlet distribution: the smaller the concentration, the fewer classes prevail.

    >>> mix = dirichlet(4, 0.5, torch.Generator().manual_seed(0))
    >>> mix.shape, round(float(mix.sum()), 6)
    (torch.Size([4]), 1.0)
    """
    _check_classes(classes)
    if not 0.0 < concentration < float("inf"):
        raise InputError(f"the concentration must be a number above 0; got {concentration:g}")
    # Gamma(a) is Gamma(a + 1)·U^(1/a); by logarithms, because variates of a small `a` underflow.
    shape = torch.full((classes,), concentration + 1.0, dtype=torch.float64)
    gammas = torch._standard_gamma(shape, generator=generator).log()
    uniform = torch.rand(classes, dtype=torch.float64, generator=generator).clamp_min(1e-300)
    return torch.softmax(gammas + uniform.log() / concentration, 0)


def tweak_one(classes: int, tweaked: int, share: float) -> Mix:
    """One class has the given share, all others the same.

    >>> tweak_one(3, 1, 0.8).tolist()
    [0.1, 0.8, 0.1]
    """
    _check_classes(classes)
    _check_share(share)
    if not 0 <= tweaked < classes:
        raise InputError(f"the class must be one from 0 to {classes - 1}; got {tweaked}")
    rest = (1.0 - share) / max(classes - 1, 1)
    mix = torch.full((classes,), round(rest, 15), dtype=torch.float64)
    mix[tweaked] = share if classes > 1 else 1.0
    return mix


def minority(classes: int, rare: int, share: float, generator: torch.Generator) -> Mix:
    """Some classes, drawn at random, have the given share each; the others the same.

    Parameters
    ----------
    classes
        How many there are.
    rare
        How many of them are rare.
    share
        Of each rare class.
    generator
        Draws which.

    >>> minority(4, 2, 0.0, torch.Generator().manual_seed(0)).sort().values.tolist()
    [0.0, 0.0, 0.5, 0.5]
    """
    _check_classes(classes)
    _check_share(share)
    if not 0 <= rare < classes:
        raise InputError(f"the number of rare classes must be from 0 to {classes - 1}; got {rare}")
    if rare * share > 1.0:
        raise InputError(f"{rare} classes cannot have a share of {share:g} each; take at most {1 / rare:g}")
    mix = torch.full((classes,), (1.0 - rare * share) / (classes - rare), dtype=torch.float64)
    mix[torch.randperm(classes, generator=generator)[:rare]] = share
    return mix


def long_tail(reference: Shares, ratio: float, direction: Literal["forward", "backward"]) -> Mix:
    """Shares that fall from class to class, from the most to the least frequent by `ratio`.

    Parameters
    ----------
    reference
        The class mix or counts of the training set; its most frequent class comes first.
    ratio
        Between the largest share and the smallest.
    direction
        `"forward"`: the classes that are frequent in training are; `"backward"`: those that are rare.

    >>> long_tail([10, 30, 20], 4.0, "forward").mul(7).tolist()
    [1.0, 4.0, 2.0]
    >>> long_tail([10, 30, 20], 4.0, "backward").mul(7).tolist()
    [4.0, 1.0, 2.0]
    """
    counts = torch.as_tensor(reference, dtype=torch.float64)
    _check_classes(len(counts))
    if not 1.0 <= ratio < float("inf"):
        raise InputError(f"the ratio must be a number from 1 up; got {ratio:g}")
    ranks = torch.empty(len(counts), dtype=torch.float64)
    order = torch.argsort(counts, descending=True, stable=True)
    ranks[order] = torch.arange(len(counts), dtype=torch.float64)
    if direction == "backward":
        ranks = len(counts) - 1 - ranks
    mix = ratio ** (-ranks / max(len(counts) - 1, 1))
    return mix / mix.sum()


def draw(
    labels: Int[Tensor, " examples"],
    mix: Shares,
    generator: torch.Generator,
    *,
    size: int | None = None,
    replace: bool = False,
) -> Int[Tensor, " drawn"]:
    """Draw rows that have a class mix, within rounding.

    Parameters
    ----------
    labels
        The classes of the set that is drawn from.
    mix
        A share for each class; they are divided by their sum.
    generator
        Draws the rows.
    size
        How many rows; by default, as many as the rows allow without repeats.
    replace
        Whether a row may come more than once.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> rows = draw(labels, [0.5, 0.5], torch.Generator().manual_seed(0))
    >>> labels[rows].tolist(), len(set(rows.tolist()))
    ([0, 0, 1, 1], 4)
    """
    shares = _checked_mix(mix, labels)
    available = torch.bincount(labels, minlength=len(shares))
    if size is None:
        needed = shares > 0
        size = int((available[needed] / shares[needed]).min() + 1e-9)
    counts = rounded_counts(shares, size)
    short = (counts > available).nonzero().flatten().tolist() if not replace else []
    if short:
        raise InputError(
            f"the mix takes {int(counts[short[0]])} examples of class {short[0]}, which has "
            f"{int(available[short[0]])}; draw fewer than {size}, or with replace=True"
        )
    found = [
        places[_choices(len(places), count, replace, generator)]
        for places, count in zip(_places(labels, len(shares)), counts.tolist(), strict=True)
        if count
    ]
    return torch.cat(found).sort().values if found else torch.zeros(0, dtype=torch.long)


def rounded_counts(mix: Shares, size: int) -> Int[Tensor, " classes"]:
    """Whole numbers that sum to `size`, each within 1 of its share: the largest remainders are rounded up.

    >>> rounded_counts([0.5, 0.3, 0.2], 7).tolist()
    [4, 2, 1]
    """
    shares = torch.as_tensor(mix, dtype=torch.float64)
    exact = shares / shares.sum() * size
    counts = (exact + 1e-9).floor().long()
    missing = size - int(counts.sum())
    order = torch.argsort(exact - counts, descending=True, stable=True)
    counts[order[:missing]] += 1
    return counts


def _places(labels: Int[Tensor, " examples"], classes: int) -> tuple[Tensor, ...]:
    """The rows of each class."""
    order = torch.argsort(labels, stable=True)
    return torch.split(order, torch.bincount(labels, minlength=classes).tolist())


def _choices(available: int, count: int, replace: bool, generator: torch.Generator) -> Tensor:
    if replace:
        return torch.randint(available, (count,), generator=generator)
    return torch.randperm(available, generator=generator)[:count]


def _checked_mix(mix: Shares, labels: Int[Tensor, " examples"]) -> Mix:
    shares = torch.as_tensor(mix, dtype=torch.float64)
    if shares.ndim != 1 or not torch.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
        raise InputError("a class mix must hold one share for each class, from 0 up and not all 0")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(shares):
        raise InputError(f"the labels must be classes from 0 to {len(shares) - 1}, one for each share of the mix")
    empty = ((torch.bincount(labels, minlength=len(shares)) == 0) & (shares > 0)).nonzero().flatten().tolist()
    if empty:
        raise InputError(f"the mix has a share of class {empty[0]}, which has no example")
    return shares / shares.sum()


def _check_classes(classes: int) -> None:
    if classes < 1:
        raise InputError(f"there must be at least one class; got {classes}")


def _check_share(share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise InputError(f"a share must be from 0 to 1; got {share:g}")
