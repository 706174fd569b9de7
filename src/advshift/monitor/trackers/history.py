"""Follow the history (Wu, Guo, Su and Weinberger, NeurIPS 2021): the mean of all estimates so far."""

from __future__ import annotations

from advshift.monitor.trackers.exponential import Exponential

__all__ = ["FollowTheHistory"]


class FollowTheHistory(Exponential):
    """The estimate from all examples since the beginning, each with the same weight.

    The mean of the unbiased estimates `A⁻¹ x_i` is the estimate from the mean prediction; where it leaves the simplex,
    the nearest mixture takes its place. There is no step to choose: the weight of a new example is one over their
    number.
    """

    name = "fth"

    def _decay(self) -> float:
        return 1.0
