"""Conditional value at risk over classes, with one level or one for each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from advshift.adversaries.exact import ExactAdversary, ExactState
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.sets import FrequencyCap
from advshift.types import ArrayLike

__all__ = ["ClassCVaRAdversary"]


class ClassCVaRAdversary(ExactAdversary):
    """The mean over the worst share `level` of the population, in whole classes: `π_y ≤ p_y/level`.

    One level is the fairness risk measure of Williamson and Menon (2019); a level for each class is the
    label-heterogeneous form of Xu et al. (2020). The adversary fills the classes of largest running loss up to their
    caps.

    Parameters
    ----------
    level
        A share above 0 and up to 1, or one per class; 1 is the ordinary mean.
    momentum
        As for the exact adversary.
    clip
        The largest loss of one example that counts; none by default.
    """

    name = "class-cvar"
    clip = float("inf")
    refusals: ClassVar[dict[str, str]] = {
        "radius": "its cap is set by the level: pass level=, the share of the population that counts",
        "uncertainty": "its set is the cap on the frequencies; use adversary='exact' for another set",
    }

    def __init__(self, level: ArrayLike = 0.5, *, momentum: float = 0.98, clip: float = float("inf")) -> None:
        try:
            levels = as_numpy(level).astype(np.float64)
        except (TypeError, ValueError):
            levels = np.full(1, np.nan)
        if not bool(np.all((levels > 0) & (levels <= 1))) or levels.ndim > 1:
            raise InputError(f"the level must be a share above 0 and up to 1, or one per class; got {level!r}")
        super().__init__(uncertainty=FrequencyCap(1.0 / levels), momentum=momentum, clip=clip)

    def init(self, reference: Float[Tensor, "classes"]) -> ExactState:
        """Begin at the reference, which no level excludes."""
        return super().init(reference)._replace(distribution=reference.clone())
