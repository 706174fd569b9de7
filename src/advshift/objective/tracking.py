"""The adversary's side of the objective: buffers of fixed shape, and the commit that moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from advshift.adversaries import Adversary
from advshift.adversaries.base import check_number
from advshift.errors import InputError
from advshift.objective.building import known_reference
from advshift.objective.statistics import as_class_losses, combined
from advshift.types import ArrayLike

__all__ = ["REFERENCE_MOMENTUM", "Tracker"]

REFERENCE_MOMENTUM = 0.999  # the paper's β, by which an unknown reference is averaged
SMALLEST = torch.finfo(torch.float32).tiny
STATE = "state_"


class Tracker(nn.Module):
    """An adversary, its state, the reference, and the statistics that wait for the next commit.

    Parameters
    ----------
    adversary
        The rule by which the distribution moves.
    members
        How many classes or groups there are.
    class_counts
        Examples per class, which make the reference known.
    reference_momentum
        How long a batch is remembered in an estimated reference.
    start
        The number of commits before the adversary acts.
    process_group
        The processes that share the batch.
    """

    reference: Float[Tensor, "classes"]
    pending: Float[Tensor, "numbers"]
    steps: Tensor
    skipped: Tensor

    def __init__(
        self,
        adversary: Adversary,
        members: int,
        *,
        class_counts: ArrayLike | None,
        reference_momentum: float | None,
        start: int,
        process_group: Any,
    ) -> None:
        super().__init__()
        self.adversary, self.members, self.start, self.process_group = adversary, members, start, process_group
        if class_counts is not None and reference_momentum is not None:
            raise InputError(
                "class_counts= makes the reference known, reference_momentum= estimates it; give one of the two"
            )
        momentum = REFERENCE_MOMENTUM if reference_momentum is None else reference_momentum
        check_number("reference_momentum", momentum, low=0.0, high=1.0)
        self.reference_momentum = momentum if class_counts is None else None
        uniform = torch.full((members,), 1.0 / members)
        reference = uniform if class_counts is None else known_reference(class_counts)
        self.has_empty_class = bool((reference == 0).any())
        self.register_buffer("reference", reference)
        self.register_buffer("pending", torch.zeros(2 * members + 1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("skipped", torch.zeros(()))
        state = adversary.init(reference)
        self._state_type = type(state)
        for name, tensor in zip(state._fields, state, strict=True):
            self.register_buffer(STATE + name, tensor)

    @property
    def state(self) -> Any:
        """The adversary's state, a named tuple of this module's buffers."""
        return self._state_type(*(self._buffers[STATE + name] for name in self._state_type._fields))

    @property
    def distribution(self) -> Float[Tensor, "classes"]:
        """The label distribution `π` on which the learner trains now."""
        return self._once_started(self.adversary.distribution(self.state, self.reference))

    @property
    def divergence(self) -> Float[Tensor, ""]:
        """`KL(π ‖ p)` of the distribution from the reference."""
        distribution = self.distribution
        divergence: Tensor = torch.special.xlogy(distribution, self._importance(distribution)).sum()
        return divergence

    def metrics(self) -> dict[str, float]:
        """Numbers for a log; reading them waits for the device."""
        distribution = self.distribution
        return {
            "divergence": float(self.divergence),
            "largest_weight": float(self._importance(distribution).max()),
            "effective_classes": float(torch.special.entr(distribution).sum().exp()),
            "steps": float(self.steps),
            "skipped": float(self.skipped),
        }

    def _importance(self, distribution: Tensor) -> Tensor:
        """The weights `π/p`; 0 for a class without mass in the reference."""
        certain = self.reference_momentum is None and not self.has_empty_class
        return distribution / (self.reference if certain else self.reference.clamp_min(SMALLEST))

    def _once_started(self, distribution: Tensor) -> Tensor:
        """The reference while a delayed start is awaited."""
        return distribution if self.start == 0 else torch.where(self.steps >= self.start, distribution, self.reference)

    @torch.no_grad()
    def _commit(self) -> Tensor:
        """Let adversary and reference step on what is pending, clear it, and return how many examples it held."""
        pending = combined(self.pending, self.process_group)
        losses = as_class_losses(pending)
        happened = losses.total > 0
        waiting = self.start > 0 and not self.adversary.warms_up
        moves = happened & (self.steps >= self.start) if waiting else happened
        state = self.state
        moved, _ = self.adversary.step(state, losses, self.reference)
        for old, new in zip(state, moved, strict=True):
            if new is not old:
                old.copy_(torch.where(moves, new, old))
        if self.reference_momentum is not None:
            shares = losses.counts / losses.total.clamp_min(SMALLEST)
            averaged = torch.lerp(self.reference, shares, self._reference_rate(self.reference_momentum))
            self.reference.copy_(torch.where(happened, averaged, self.reference))
        self.steps += happened
        self.skipped += pending[-1] - losses.total
        self.pending.zero_()
        return losses.total

    def _reference_rate(self, momentum: float) -> Tensor:
        """What the next batch counts in the corrected average, whose first member is the uniform distribution."""
        members = self.steps.float() + 2.0
        return 1.0 / members if momentum == 1.0 else (1.0 - momentum) / (1.0 - momentum**members)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move the state between devices with the model, but keep its dtype: float32 whatever the model's."""
        if recurse:
            for child in self.children():
                cast(Any, child)._apply(fn)
        return cast(Any, super())._apply(lambda tensor: tensor.to(fn(tensor).device), recurse=False)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "reference")
        if saved is None or saved.shape == self.reference.shape:
            super()._load_from_state_dict(state_dict, prefix, *rest)
            return
        errors = rest[-1]
        errors.append(
            f"the checkpoint's objective is for {len(saved)} classes or groups, this one for {self.members}; "
            "build it with the same number, or drop its entries from the state dict"
        )
