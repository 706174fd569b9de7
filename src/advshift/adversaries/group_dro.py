"""Exponentiated gradient over the simplex, with an adjustment for small groups."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from jaxtyping import Float

from advshift.adversaries.base import (
    LOG_OF_NOTHING,
    Adversary,
    ClassLosses,
    Initial,
    Nothing,
    check_choice,
    check_number,
    initial_distribution,
    log_on_support,
)
from advshift.errors import InputError
from advshift.numerics.backend import choose, namespace, restrict
from advshift.numerics.classwise import class_means
from advshift.numerics.proximal import log_normalised
from advshift.types import Array

__all__ = ["GroupDROAdversary", "GroupDROState"]


class GroupDROState(NamedTuple):
    """The logarithm of the distribution over the groups."""

    log_distribution: Float[Array, "classes"]

    @property
    def distribution(self) -> Float[Array, "classes"]:
        """The distribution over the groups."""
        distribution: Array = namespace(self.log_distribution).exp(self.log_distribution)
        return distribution


class GroupDROAdversary(Adversary):
    """Group DRO: `π_g ∝ π_g·exp(η·(ℓ̄_g + C/√n_g))`, with `ℓ̄_g` the mean loss of group `g` in the batch.

    A group without an example in the batch counts as having no loss. The published learner weights the batch's group
    means, `Σ_g π_g·ℓ̄_g`, which is what `weighting="class-means"` does.

    Parameters
    ----------
    step_size
        `η`.
    adjustment
        `C`: how much more is demanded of small groups, whose training loss says less. 0 leaves it out.
    examples
        The number of training examples, of which group `g` has `n_g = examples·p_g`; only the adjustment needs it.
        An objective with `class_counts` fills it in.
    initial
        Where the distribution begins.

    Reference: Sagawa, Koh, Hashimoto, Liang: Distributionally robust neural networks for group shifts (ICLR 2020).
    """

    name = "group-dro"
    takes_numpy = True
    weighting = "class-means"
    refusals: ClassVar[dict[str, str]] = {
        "radius": "its exponentiated gradient may go anywhere on the simplex; use adversary='advshift' for a KL ball",
        "uncertainty": "its exponentiated gradient has no projection on a set; use adversary='exact' for any set",
    }

    def __init__(
        self,
        step_size: float = 0.01,
        *,
        adjustment: float = 0.0,
        examples: float | None = None,
        initial: Initial = "uniform",
    ) -> None:
        self.step_size = check_number("the step size", step_size, low=0.0, open_low=True, finite=True)
        self.adjustment = check_number("the adjustment", adjustment, low=0.0, finite=True)
        check_choice("initial", initial, Initial)
        self.initial = initial
        if adjustment > 0 and examples is None:
            raise InputError(
                "the adjustment C/√n needs the number of training examples: pass examples= or class_counts="
            )
        self.examples = None if examples is None else check_number("examples", examples, low=1.0)

    def init(self, reference: Float[Array, "classes"]) -> GroupDROState:
        """Begin at the uniform distribution or the reference."""
        return GroupDROState(log_on_support(initial_distribution(self.initial, reference)))

    def step(
        self, state: GroupDROState, losses: ClassLosses, reference: Float[Array, "classes"]
    ) -> tuple[GroupDROState, Nothing]:
        """Multiply by the exponential of the adjusted group losses, and normalise."""
        adjusted = class_means(losses.sums, losses.counts)
        if self.examples is not None and self.adjustment > 0:
            sizes = self.examples * reference
            adjusted = adjusted + self.adjustment * choose(sizes > 1.0, sizes, 1.0) ** -0.5
        moved = state.log_distribution + self.step_size * adjusted
        moved = log_normalised(restrict(moved, reference > 0, LOG_OF_NOTHING))
        return GroupDROState(choose(moved > LOG_OF_NOTHING, moved, LOG_OF_NOTHING)), Nothing()
