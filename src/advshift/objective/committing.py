"""Who commits: the call itself, each step of an optimiser, or the user."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from advshift.adversaries.base import check_choice
from advshift.errors import InputError
from advshift.losses import DeferredWeights
from advshift.numerics.autograd import step_happened
from advshift.objective.reading import PerExampleLoss
from advshift.objective.tracking import Tracker
from advshift.types import Array

__all__ = ["Committer", "Update"]

Update = Literal["forward", "manual"]


class Call(NamedTuple):
    """What a call found, for autograd to find again: the class weights, this shard's share, and whether it is alone.

    It is where no other call since the last commit may still wait for its backward pass.
    """

    class_weights: Array
    share: Tensor | None
    alone: bool


class Committer(Tracker):
    """A tracker that knows when to commit, and who may ask for it."""

    loss: PerExampleLoss

    def __init__(self, *arguments: Any, update: Update, **options: Any) -> None:
        super().__init__(*arguments, **options)
        check_choice("update", update, Update)
        self._committer: str = update
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self._last: Call | None = None
        self._replaying = False

    @property
    def update(self) -> str:
        """Who commits: `"forward"`, `"attached"` or `"manual"`."""
        return self._committer

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Commit after each step of an optimiser, instead of at each call.

        For gradient accumulation, closures, gradient scalers and activation checkpointing. A loss whose weights are
        deferred counts the optimiser's steps from then on, too. A copy of an attached objective is not attached.
        """
        if self._committer != "forward":
            advice = "detach() it first" if self._hooks else "build it with update='forward' to attach it"
            raise InputError(f"the objective's update is {self._committer!r} already; {advice}")
        if not hasattr(optimizer, "register_step_post_hook"):
            raise InputError(f"attach needs a torch optimizer; got {type(optimizer).__name__}")
        self._hooks.append(optimizer.register_step_post_hook(lambda own, *_: self._finish(step_happened(own))))
        if isinstance(self.loss, DeferredWeights) and self.loss.update == "forward":
            self._hooks.append(self.loss.attach(optimizer))
        self._committer = "attached"

    def detach(self) -> None:
        """Undo `attach`; from now on the call itself commits."""
        if not self._hooks:
            raise InputError("the objective is not attached to an optimizer")
        for hook in self._hooks:
            hook.remove()
        self._forget(attached_loss=len(self._hooks) > 1)

    def step(self) -> None:
        """Commit what is pending; for `update="manual"`."""
        if self._committer != "manual":
            raise InputError(
                f"the objective commits by itself (update={self._committer!r}); for step() build it with "
                "update='manual'"
            )
        self._finish()

    def _finish(self, stepped: Tensor | None = None) -> None:
        self._commit(stepped)
        self._last = None

    def _remember(self, class_weights: Array, share: Tensor | None) -> None:
        """Keep what a call found, in case that it lies inside a checkpoint."""
        self._last = Call(class_weights, share, alone=self._last is None or self._replaying)
        self._replaying = False

    def _forget(self, *, attached_loss: bool) -> None:
        """Hold no hooks, as if there had been no `attach`."""
        self._hooks, self._committer = [], "forward"
        if attached_loss and isinstance(self.loss, DeferredWeights):
            self.loss.update = "forward"

    def __getstate__(self) -> dict[str, Any]:
        """Leave hooks and the last call's weights out of a copy; hooks cannot be copied."""
        return self.__dict__ | {"_hooks": [None] * len(self._hooks), "_last": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        cast(Any, super()).__setstate__(state)
        if self._hooks:
            self._forget(attached_loss=len(self._hooks) > 1)
