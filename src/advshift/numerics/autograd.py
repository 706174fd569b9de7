"""What a module that keeps state must know about autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advshift.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, optim

__all__ = ["moves_state", "step_happened"]


def step_happened(optimizer: optim.Optimizer) -> Tensor | None:
    """Within an optimiser's post-hook, whether its step happened: a flag on the device, or None where it did for sure.

    A gradient scaler does not call an optimiser's `step` after an overflow; but one with `fused=True` it does call, and
    hands it `found_inf`, on which the kernel itself then does nothing.
    """
    overflow: Tensor | None = getattr(optimizer, "found_inf", None)
    return None if overflow is None else overflow.sum() == 0


def moves_state(*, training: bool, what: str, instead: str) -> bool:
    """Whether a forward pass may move a module's state: in train mode with gradients enabled, and only once.

    Activation checkpointing runs a forward pass a second time while it goes backward. A state that had moved in
    between would change the gradient without a word, so that case is refused. Ask before computing anything: the
    second run ends as soon as it has what it needs.

    Parameters
    ----------
    training
        The module's mode.
    what
        The module, for the message.
    instead
        What the user should do, for the message.
    """
    import torch

    if not (training and torch.is_grad_enabled()):
        return False
    if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
        raise InputError(f"{what} was run a second time during backward, after its state had moved; {instead}")
    return True
