"""The worst case over any uncertainty set of weights on the batch."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from advshift.errors import InputError, as_number
from advshift.reductions.base import Batch, Reduction
from advshift.sets import UncertaintySet

__all__ = ["STEPS", "WorstCaseMean", "worst_case_weights"]

STEPS = 20  # of the root search; a hard problem takes about 15, and a point that has converged stays


def worst_case_weights(
    losses: Float[Tensor, " n"], reference: Float[Tensor, " n"], feared: UncertaintySet, *, steps: int = STEPS
) -> Float[Tensor, " n"]:
    """Weights that maximise `Σ w·losses` over a set around the reference, without gradient and without waiting.

    >>> import torch
    >>> from advshift.sets import FrequencyCap
    >>> worst_case_weights(torch.tensor([1.0, 2.0, 6.0]), torch.full((3,), 1 / 3), FrequencyCap(2.0))
    tensor([0.0000, 0.3333, 0.6667])
    """
    weights: Tensor = feared.worst_case(losses.detach(), reference, steps=steps).distribution
    return weights


class WorstCaseMean(Reduction):
    """The mean loss under the worst weights of an uncertainty set around the batch's own.

    By Danskin's theorem the gradient is the weighted mean of the examples' gradients, with the weights held fixed.
    The worst case of a batch is on average below that of the population: the more so, the smaller the batch.

    Parameters
    ----------
    feared
        The set, as in `advshift.sets`, over examples in place of classes; groups in place of classes with `num_groups`.
    clip
        Losses above it are all as bad to the adversary; the learner's losses stay as they are. Without it, one wrong
        label can take all the weight.
    steps
        The steps of the search for the multiplier, where there is one.
    num_groups
        As in `Reduction`.

    >>> import torch
    >>> from advshift.sets import TotalVariationBall
    >>> WorstCaseMean(TotalVariationBall(1 / 3))(torch.tensor([1.0, 2.0, 6.0]))
    tensor(4.6667)
    """

    name = "worst-case"

    def __init__(
        self,
        feared: UncertaintySet,
        *,
        clip: int | float | None = None,
        steps: int = STEPS,
        num_groups: int | None = None,
    ) -> None:
        super().__init__(num_groups=num_groups)
        if not isinstance(feared, UncertaintySet):
            raise InputError(f"feared must be a set of advshift.sets, for example KLBall(0.1); got {feared!r}")
        if clip is not None and not as_number(clip) > 0.0:
            raise InputError(f"clip must be a positive loss, or None; got {clip!r}")
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps must be a positive number; got {steps!r}")
        self.feared, self.clip, self.steps = feared, clip, steps

    def reduce(self, batch: Batch) -> Float[Tensor, ""]:
        """See `Reduction`."""
        seen = batch.losses.detach()
        seen = seen if self.clip is None else seen.clamp_max(self.clip)
        return self.weights(seen, batch.reference) @ batch.losses

    def weights(self, losses: Float[Tensor, " n"], reference: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The worst weights for these losses."""
        return worst_case_weights(losses, reference, self.feared, steps=self.steps)

    def extra_repr(self) -> str:
        """The options, for `print`."""
        return f"{self.feared!r}, clip={self.clip}"
