"""The adversary's side of the objective: buffers of fixed shape, and the commit that moves them."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from advshift.adversaries import Adversary, ClassLosses
from advshift.adversaries.base import check_number
from advshift.errors import InputError
from advshift.numerics.backend import calmly, choose, is_torch, namespace, readable, restrict
from advshift.objective.building import known_reference
from advshift.objective.statistics import as_class_losses, combined
from advshift.types import Array, ArrayLike

__all__ = ["REFERENCE_MOMENTUM", "Held", "Tracker"]

REFERENCE_MOMENTUM = 0.999  # the paper's β, by which an unknown reference is averaged
SMALLEST = torch.finfo(torch.float32).tiny
STATE = "state_"


class Held(NamedTuple):
    """The buffers that a step reads and writes, as tensors or as NumPy views of them."""

    state: Any
    reference: Float[Array, "classes"]
    steps: Shaped[Array, ""]
    skipped: Float[Array, ""]
    pending: Float[Array, "numbers"]


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
        self._state_names = tuple(STATE + name for name in state._fields)
        self._held_names = (*self._state_names, "reference", "steps", "skipped", "pending")
        for name, tensor in zip(self._state_names, state, strict=True):
            self.register_buffer(name, tensor)

    @property
    def state(self) -> Any:
        """The adversary's state, a named tuple of this module's buffers."""
        return self._state_type(*(self._buffers[name] for name in self._state_names))

    @property
    def distribution(self) -> Float[Tensor, "classes"]:
        """The label distribution `π` on which the learner trains now."""
        distribution: Tensor = self._distribution(
            Held(self.state, self.reference, self.steps, self.skipped, self.pending)
        )
        return distribution

    @property
    def divergence(self) -> Float[Tensor, ""]:
        """`KL(π ‖ p)` of the distribution from the reference."""
        distribution = self.distribution
        importance = self._importance(distribution, self.reference)
        divergence: Tensor = torch.special.xlogy(distribution, importance).sum().clamp_min(0.0)  # rounding aside
        return divergence

    def metrics(self) -> dict[str, float]:
        """Numbers for a log; reading them waits for the device."""
        distribution = self.distribution
        return {
            "divergence": float(self.divergence),
            "largest_weight": float(self._importance(distribution, self.reference).max()),
            "effective_classes": float(torch.special.entr(distribution).sum().exp()),
            "steps": float(self.steps),
            "skipped": float(self.skipped),
        }

    def _held(self) -> Held:
        """The buffers: as NumPy views of them on the host, where an operation costs a quarter of torch's."""
        held: Any = self._buffers
        numpy = self.adversary.takes_numpy and readable(held["reference"])
        arrays = [held[name].numpy() if numpy else held[name] for name in self._held_names]
        return Held(self._state_type(*arrays[:-4]), *arrays[-4:])

    def _importance(self, distribution: Array, reference: Array) -> Array:
        """The weights `π/p`; 0 for a class without mass in the reference."""
        return distribution / restrict(reference, reference > 0, SMALLEST)

    def _distribution(self, held: Held) -> Array:
        """The adversary's distribution; the reference while a delayed start is awaited."""
        distribution = self.adversary.distribution(held.state, held.reference)
        return distribution if self.start == 0 else choose(held.steps >= self.start, distribution, held.reference)

    @torch.no_grad()
    def _commit(self, stepped: Tensor | None = None) -> None:
        """Let adversary and reference step on what is pending, and clear it; not where `stepped` is false."""
        held = self._held()
        if stepped is None:
            calmly(held.reference, self._move, held)
            return
        whole = stepped.to(self.reference)
        calmly(held.reference, self._move, held, whole if is_torch(held.pending) else whole.numpy())

    def _move(self, held: Held, whole: Array | None = None) -> Array:
        """Write the next state, reference and counts into the buffers; return how many examples counted.

        Where `whole` is 0 nothing moves, and what is pending stays.
        """
        own = held.pending if whole is None else held.pending * whole
        pending = combined(own, self.process_group)
        losses = as_class_losses(pending)
        happened = losses.total > 0
        waiting = self.start > 0 and not self.adversary.warms_up
        moves = happened & (held.steps >= self.start) if waiting else happened
        reference = self._next_reference(held, losses, happened)
        moved, _ = self.adversary.step(held.state, losses, reference if self.adversary.responds else held.reference)
        for old, new in zip(held.state, moved, strict=True):
            if new is not old:
                old[...] = choose(moves, new, old)
        if reference is not held.reference:
            held.reference[...] = reference
        held.steps[...] += happened
        held.skipped[...] += pending[-1]
        held.pending[...] -= own
        return losses.total

    def _next_reference(self, held: Held, losses: ClassLosses, happened: Array) -> Array:
        """The reference with the batch's shares, in the corrected average that began at the uniform distribution."""
        momentum = self.reference_momentum
        if momentum is None:
            return held.reference
        members = held.steps + 2.0
        gone = namespace(members).expm1(members * log(momentum)) if 0.0 < momentum < 1.0 else momentum - 1.0
        rate = 1.0 / members if momentum == 1.0 else (momentum - 1.0) / gone
        averaged = held.reference + rate * (losses.counts / losses.total - held.reference)
        return choose(happened, averaged, held.reference)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move the state between devices with the model, but keep its dtype: float32 whatever the model's."""
        if recurse:
            for child in self.children():
                cast(Any, child)._apply(fn)
        return cast(Any, super())._apply(lambda tensor: tensor.to(fn(tensor).device), recurse=False)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        fault = self._unlike(state_dict.get(prefix + "reference"))
        if fault is None:
            super()._load_from_state_dict(state_dict, prefix, *rest)
        else:
            rest[-1].append(f"{fault}, or drop its entries from the state dict")

    def _unlike(self, saved: Tensor | None) -> str | None:
        """Why a checkpoint with this reference is of another objective; None where it is not."""
        if saved is None:
            return None
        if saved.shape != self.reference.shape:
            return (
                f"the checkpoint's objective is for {len(saved)} classes or groups, this one for {self.members}; "
                "build it with the same number"
            )
        if self.reference_momentum is None and not torch.allclose(saved.cpu(), self.reference.cpu(), rtol=1e-5):
            return (
                "the checkpoint's reference is not that of class_counts= (other examples, or one that was estimated); "
                "build the objective as it was saved"
            )
        return None
