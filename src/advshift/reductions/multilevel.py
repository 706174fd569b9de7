"""An estimate of a large batch's worst case from batches that are mostly small."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.reductions.base import Batch, Reduction

__all__ = ["MultiLevel"]


class MultiLevel(Reduction):
    """The multilevel Monte Carlo estimate of a reduction on batches of size `largest` (Levy et al., NeurIPS 2020).

    Draw the batch size with `draw`: `smallest` with probability ½, twice that with ¼, and so on up to `largest`. With
    `L` the reduction, the estimate is `L(first smallest/2 examples) + [L(all) - ½(L(first half) + L(second half))]/P`,
    `P` the probability of the batch's size. Its mean over sizes and batches is that of `L` on `largest` examples, from
    about `smallest·(1 + ½ log₂(largest/smallest))` examples a step.

    Parameters
    ----------
    reduction
        What is estimated: a reduction without state.
    smallest
        The smallest batch, an even number.
    largest
        The largest, `smallest` times a power of two.

    >>> import torch
    >>> from advshift.reductions import CVaR
    >>> estimate = MultiLevel(CVaR(0.5), smallest=2, largest=8)
    >>> [estimate.probability(size) for size in (2, 4, 8)]
    [0.5, 0.25, 0.25]
    >>> estimate(torch.tensor([1.0, 3.0]))  # 1 + (3 - (1 + 3)/2)/0.5
    tensor(3.)
    """

    name = "multilevel"

    def __init__(self, reduction: Reduction, *, smallest: int, largest: int) -> None:
        if not isinstance(reduction, Reduction):
            raise InputError(f"the first argument is the reduction that is estimated; got {reduction!r}")
        super().__init__(num_groups=reduction.num_groups)
        if not isinstance(smallest, int) or smallest < 2 or smallest % 2:
            raise InputError(f"the smallest batch must be an even number from 2 up; got {smallest!r}")
        levels = round(math.log2(largest / smallest)) if as_number(largest) >= smallest else -1
        if levels < 0 or smallest << levels != largest:
            raise InputError(f"the largest batch must be {smallest} times a power of two; got {largest!r}")
        if next(reduction.buffers(), None) is not None:
            raise InputError(f"{type(reduction).__name__} keeps a state, so its value on part of a batch means nothing")
        self.reduction, self.smallest, self.levels = reduction, smallest, levels

    def draw(self, generator: torch.Generator | None = None) -> int:
        """Draw the size of the next batch."""
        coins = torch.rand(self.levels, generator=generator).lt(0.5).long()
        return self.smallest << int(coins.cumprod(0).sum())

    def probability(self, size: int) -> float:
        """The probability of a batch size."""
        level = round(math.log2(size / self.smallest)) if size >= self.smallest else -1
        if not 0 <= level <= self.levels or self.smallest << level != size:
            sizes = [self.smallest << step for step in range(self.levels + 1)]
            raise InputError(f"the batch must have one of the sizes {sizes}, as draw() gives them; got {size}")
        return 0.5 ** min(level + 1, self.levels)

    def forward(
        self,
        losses: Shaped[Tensor, "*shape"],
        groups: Shaped[Tensor, "*others"] | None = None,
        *,
        weights: Shaped[Tensor, "*more"] | None = None,
    ) -> Float[Tensor, ""]:
        """Estimate the reduction from the losses of one batch, whose order must be random."""
        size = len(losses)
        probability = self.probability(size)

        def part(begin: int, end: int) -> Tensor:
            some = [None if array is None else array[begin:end] for array in (groups, weights)]
            value: Tensor = self.reduction(losses[begin:end], some[0], weights=some[1])
            return value

        half = size // 2
        correction = part(0, size) - 0.5 * (part(0, half) + part(half, size))
        return part(0, self.smallest // 2) + correction / probability

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """The reduction itself, on one whole batch."""
        return self.reduction.reduce(batch)
