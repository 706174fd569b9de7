"""Cutting parts off a set and thinning it to a class profile, both stratified and from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from advshift.data.randomness import generator
from advshift.errors import InputError

__all__ = ["class_profile", "counts_for_prior", "cut", "thin"]


def cut(labels: Int[Tensor, " examples"], share: float, seed: int, name: str) -> tuple[Tensor, Tensor]:
    """Return the places that stay and those that are cut off, of every class the same share.

    What a class's share leaves over is given to the classes with the largest remainders, so that the whole is met. A
    class keeps at least one example.

    >>> stay, off = cut(torch.tensor([0] * 8 + [1] * 4), 0.25, 0, "validation")
    >>> len(stay), len(off)
    (9, 3)
    """
    counts = torch.bincount(labels)
    exact = counts.double() * share
    wanted = exact.floor().long()
    missing = round(float(exact.sum())) - int(wanted.sum())
    ranking = torch.argsort(exact - wanted, descending=True, stable=True)
    wanted[ranking[: max(missing, 0)]] += 1
    wanted = torch.minimum(wanted, (counts - 1).clamp_min(0))
    off = _drawn(labels, wanted, seed, name)
    stays = torch.ones(len(labels), dtype=torch.bool)
    stays[off] = False
    return stays.nonzero().squeeze(1), off


def thin(labels: Int[Tensor, " examples"], counts: Sequence[int], seed: int) -> Tensor:
    """Return the places of so many examples of each class, in their old order."""
    available = torch.bincount(labels, minlength=len(counts))
    wanted = torch.tensor(list(counts))
    short = (wanted > available).nonzero().flatten().tolist()
    if short:
        raise InputError(
            f"class {short[0]} has {int(available[short[0]])} training examples, fewer than the "
            f"{int(wanted[short[0]])} that the wanted mix takes; ask for a smaller set or another mix"
        )
    return _drawn(labels, wanted, seed, "thin")


def _drawn(labels: Int[Tensor, " examples"], wanted: Tensor, seed: int, name: str) -> Tensor:
    """Draw so many places of each class; a class's draw does not depend on the other classes."""
    found = []
    for index, number in enumerate(wanted.tolist()):
        places = (labels == index).nonzero().flatten()
        stream = generator(seed, name, index)
        found.append(places[torch.randperm(len(places), generator=stream)[:number]])
    return torch.cat(found).sort().values


def class_profile(kind: Literal["exponential", "step"], available: Sequence[int], ratio: float) -> list[int]:
    """How many examples of each class an imbalanced set keeps.

    The first class keeps `n`, the smallest number that any class has. `"exponential"`: class `y` of `L` keeps
    `n·ratio^(-y/(L-1))`. `"step"`: the second half of the classes keeps `n/ratio`. At least one of each (Cao et al.,
    2019).

    >>> class_profile("exponential", [500, 500, 500], 100.0)
    [500, 50, 5]
    >>> class_profile("step", [500, 500, 500, 500], 10.0)
    [500, 500, 50, 50]
    """
    classes, most = len(available), min(available)
    if kind == "step":
        shares = [1.0 if index < classes // 2 else 1.0 / ratio for index in range(classes)]
    else:
        shares = [ratio ** (-index / max(classes - 1, 1)) for index in range(classes)]
    return [max(1, int(most * share + 1e-9)) for share in shares]


def counts_for_prior(prior: Sequence[float], available: Sequence[int]) -> list[int]:
    """The largest set of a given class mix that the examples allow, without using any twice.

    >>> counts_for_prior([0.5, 0.25, 0.25], [100, 100, 20])
    [40, 20, 20]
    """
    shares, have = np.asarray(prior, float), np.asarray(available, float)
    if shares.shape != have.shape:
        raise InputError(f"the wanted mix must have one share for each of the {have.size} classes; got {shares.size}")
    if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise InputError("the wanted mix must hold shares from 0 up that are not all 0")
    shares = shares / shares.sum()
    total = np.min(have[shares > 0] / shares[shares > 0])
    counts = [int(count) for count in np.floor(total * shares + 1e-9)]
    lost = [index for index, count in enumerate(counts) if count == 0 and shares[index] > 0]
    if lost:
        raise InputError(
            f"the wanted mix leaves class {lost[0]} less than one of its {available[lost[0]]} examples; raise its share"
        )
    return counts
