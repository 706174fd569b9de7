"""Distributional and outlier robust optimisation: leave out the very worst, then take the worst case."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.numerics.filling import fill
from advshift.reductions.cvar import check_share
from advshift.reductions.worst_case import STEPS, WorstCaseMean, worst_case_weights
from advshift.sets import FrequencyCap, UncertaintySet

__all__ = ["DORO", "without_the_worst"]


def without_the_worst(
    losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], epsilon: int | float
) -> Float[Tensor, " n"]:
    """The reference without the share `epsilon` of largest loss, scaled up to a sum of one.

    >>> import torch
    >>> without_the_worst(torch.tensor([1.0, 2.0, 6.0, 3.0]), torch.full((4,), 0.25), 0.25)
    tensor([0.3333, 0.3333, 0.0000, 0.3333])
    """
    dropped: Tensor = fill(losses, reference, epsilon).amounts
    return (reference - dropped).clamp_min(0.0) / (1.0 - epsilon)


class DORO(WorstCaseMean):
    """Drop the share `epsilon` of largest loss, then take the worst case of the rest (Zhai et al., ICML 2021).

    By default the worst case is the mean of the worst share `alpha` of the rest, the method's CVaR form. A wrong label
    has a large loss, so it is among the first to go; so is a right label of a hard example.

    Parameters
    ----------
    alpha
        The share of the rest that counts.
    epsilon
        The share that is dropped: about that of wrong labels.
    feared
        Another uncertainty set, in place of `alpha`.
    steps, num_groups
        As in `WorstCaseMean`.

    >>> import torch
    >>> DORO(0.5, epsilon=0.2)(torch.tensor([1.0, 2.0, 3.0, 4.0, 50.0]))
    tensor(3.5000)
    """

    name = "doro"

    def __init__(
        self,
        alpha: int | float | None = None,
        *,
        epsilon: int | float,
        feared: UncertaintySet | None = None,
        steps: int = STEPS,
        num_groups: int | None = None,
    ) -> None:
        if not 0.0 <= as_number(epsilon) < 1.0:
            raise InputError(f"epsilon must be a share from 0 to below 1; got {epsilon!r}")
        super().__init__(_feared(alpha, feared), steps=steps, num_groups=num_groups)
        self.epsilon = epsilon

    def weights(self, losses: Float[Tensor, " n"], reference: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The worst weights on what is left of the reference."""
        rest = without_the_worst(losses, reference, self.epsilon)
        return worst_case_weights(losses, rest, self.feared, steps=self.steps)


def _feared(alpha: int | float | None, feared: UncertaintySet | None) -> UncertaintySet:
    if alpha is not None and feared is None:
        return FrequencyCap(1.0 / check_share(alpha))
    if alpha is None and feared is not None:
        return feared
    raise InputError("DORO needs alpha, the share of the rest that counts, or feared, an uncertainty set: one of them")
