"""From a recipe's table to the objective, and to whose losses its adversary gets to see."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from advshift.errors import InputError
from advshift.losses import LOSSES, Loss
from advshift.objective import RobustObjective
from advshift.registry import nearest
from advshift.training.recipe import ObjectiveSection

__all__ = ["build_objective", "frozen_statistics"]


def build_objective(
    options: ObjectiveSection, class_counts: Int[np.ndarray, " classes"], total_steps: int
) -> RobustObjective:
    """Build the objective of a recipe.

    Parameters
    ----------
    options
        The recipe's table.
    class_counts
        The training examples per class: the reference, unless it is to be estimated.
    total_steps
        The length of training in optimiser steps, for what starts at a share of it.
    """
    plain = options.loss == "cross-entropy" and not options.loss_options
    smoothing = options.label_smoothing
    return RobustObjective(
        options.adversary,
        num_classes=len(class_counts),
        class_counts=class_counts if options.reference == "known" else None,
        loss=None if plain else _build_loss(options, class_counts, total_steps),
        label_smoothing=smoothing if plain else 0.0,
        update="forward" if options.adversary_data == "batch" else "manual",
        total_steps=total_steps,
        even_shards=True,  # the engine scales each part of a batch by its share itself
        **options.options,
    )


def _build_loss(options: ObjectiveSection, class_counts: Int[np.ndarray, " classes"], total_steps: int) -> Loss:
    kind = LOSSES[options.loss]
    known = inspect.signature(kind).parameters
    offered = {"class_counts": class_counts, "total_steps": total_steps, "label_smoothing": options.label_smoothing}
    given = {**options.loss_options, **({"label_smoothing": 0.0} if options.label_smoothing else {})}
    for name in given:
        if name not in known:
            raise InputError(
                f"[objective.loss_options] the loss {options.loss!r} has no option {name!r}{nearest(name, known)} "
                f"(its options: {', '.join(known)})"
            )
    fitting: dict[str, Any] = {name: value for name, value in offered.items() if name in known}
    return kind(**fitting | options.loss_options)


@contextmanager
def frozen_statistics(model: nn.Module) -> Iterator[None]:
    """Let batch norm use the batch's statistics without learning from them: for a pass that only measures."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    tracked = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        with torch.no_grad():
            yield
    finally:
        for norm, before in zip(norms, tracked, strict=True):
            norm.track_running_stats = before
