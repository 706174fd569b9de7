"""Balls whose centre is not the reference: around an estimated label distribution, for training on another one.

A training objective weighs its examples by `π/p`, with `p` the mix of the training data, while the feared `π` lie
around an estimate of the target's mix. These sets keep the two apart.
"""

from __future__ import annotations

from typing import Any

from advshift.errors import InputError
from advshift.numerics.backend import as_like, as_numpy, check_distribution
from advshift.sets import ChiSquareBall, KLBall, ReverseKLBall, TotalVariationBall
from advshift.sets.base import Ball
from advshift.types import Array, ArrayLike, WorstCase

__all__ = ["Around", "ball_around"]


class Around(Ball):
    """A ball around `centre` instead of the reference that `worst_case` is given.

    Parameters
    ----------
    radius
        As for the set itself.
    centre
        A label distribution; it may give mass only to classes that the reference has.
    """

    def __init__(self, radius: ArrayLike, centre: ArrayLike) -> None:
        super().__init__(radius)
        values = as_numpy(centre).astype("float64")
        if values.ndim != 1:
            raise InputError(f"the centre must be one number per class; got shape {values.shape}")
        check_distribution(values, "the centre")
        self.centre: Any = values / values.sum()

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers that define the set, by name."""
        return super().parameters | {"centre": self.centre}

    def _checked(self, risks: Array, reference: Array, *operands: Array) -> tuple[Array, ...]:
        centre = as_numpy(self.centre)
        if centre.shape[-1] != reference.shape[-1]:
            raise InputError(f"the centre has {centre.shape[-1]} classes, the reference {reference.shape[-1]}")
        if bool(((reference == 0) & (centre > 0)).any()):
            raise InputError(
                "the centre gives mass to a class that the reference lacks, for which there is nothing to weigh; "
                "add examples of it, or leave it out of the estimate"
            )
        return super()._checked(risks, reference, *operands)

    def _worst_case(
        self, risks: Array, reference: Array, *operands: Array, steps: int | None = None, start: Array | None = None
    ) -> WorstCase:
        return super()._worst_case(risks, self._moved(risks, reference), *operands, steps=steps, start=start)

    def _breaking_point(self, risks: Array, reference: Array, target: Array) -> tuple[Array]:
        return super()._breaking_point(risks, self._moved(risks, reference), target)

    def _moved(self, risks: Array, reference: Array) -> Array:
        """The centre, laid out as the reference is."""
        return as_like(self.centre, risks) + 0.0 * reference


class KLBallAround(Around, KLBall):
    """`KLBall` around a centre of its own."""


class ReverseKLBallAround(Around, ReverseKLBall):
    """`ReverseKLBall` around a centre of its own."""


class ChiSquareBallAround(Around, ChiSquareBall):
    """`ChiSquareBall` around a centre of its own."""


class TotalVariationBallAround(Around, TotalVariationBall):
    """`TotalVariationBall` around a centre of its own."""


_KINDS: dict[str, type[Around]] = {
    kind.name: kind for kind in (KLBallAround, ReverseKLBallAround, ChiSquareBallAround, TotalVariationBallAround)
}


def ball_around(ball: Ball, centre: ArrayLike) -> Around:
    """The same ball around a centre of its own.

    >>> ball_around(KLBall(0.1), [0.2, 0.8]).worst_case([1.0, 0.0], [0.5, 0.5]).value.round(4).item()
    0.3952
    >>> KLBall(0.1).worst_case([1.0, 0.0], [0.2, 0.8]).value.round(4).item()
    0.3952
    """
    if ball.name not in _KINDS:
        raise InputError(f"only balls can be moved to another centre: {', '.join(_KINDS)}; got {ball.name!r}")
    return _KINDS[ball.name](ball.radius, centre)
