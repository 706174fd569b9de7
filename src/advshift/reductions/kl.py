"""The worst case over a KL ball of weights."""

from __future__ import annotations

from advshift.reductions.worst_case import STEPS, WorstCaseMean
from advshift.sets import KLBall

__all__ = ["KL"]


class KL(WorstCaseMean):
    """The worst mean over weights with `KL(w ‖ p) ≤ radius`, exactly: the weights are `p·exp(ℓ/t)`, normalised.

    Parameters
    ----------
    radius
        From 0, the mean, up; from the log of the number of examples on, the largest loss.
    clip, steps, num_groups
        As in `WorstCaseMean`.

    >>> import torch
    >>> KL(0.1)(torch.tensor([1.0, 2.0, 6.0]))
    tensor(3.9934)
    """

    name = "kl"

    def __init__(
        self,
        radius: int | float,
        *,
        clip: int | float | None = None,
        steps: int = STEPS,
        num_groups: int | None = None,
    ) -> None:
        super().__init__(KLBall(radius), clip=clip, steps=steps, num_groups=num_groups)
