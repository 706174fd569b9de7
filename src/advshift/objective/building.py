"""From a user's words to the parts of an objective: the adversary, the reference, the delayed start."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from advshift.adversaries import ADVERSARIES, Adversary
from advshift.errors import InputError
from advshift.losses import LOSSES
from advshift.numerics.backend import as_numpy
from advshift.objective.reading import CrossEntropy, PerExampleLoss
from advshift.reductions import REDUCTIONS, Reduction
from advshift.registry import nearest
from advshift.types import ArrayLike

__all__ = ["build_adversary", "build_loss", "build_reduction", "count_members", "first_step", "known_reference"]


def build_adversary(
    adversary: str | Adversary, options: Mapping[str, Any], class_counts: ArrayLike | None
) -> Adversary:
    """Make the adversary of a name and its options; an option that makes no sense is refused with the reason."""
    if isinstance(adversary, Adversary):
        if options:
            raise InputError(f"the adversary is built already; give {_names(options)} to its constructor")
        return adversary
    if not isinstance(adversary, str):
        raise InputError(
            f"the first argument is the adversary's name, or an adversary; got {adversary!r}. "
            "The number of classes is num_classes="
        )
    _check_role(adversary)
    if adversary == "fixed" and "audit" in options:
        options = {"distribution": _audited(**options)}
    kind = ADVERSARIES[adversary]
    known = [name for name in inspect.signature(kind).parameters if kind.__init__ is not object.__init__]
    options = dict(options)
    for name in options:
        if name in kind.refusals:
            raise InputError(f"adversary {adversary!r} takes no {name}: {kind.refusals[name]}")
        if name not in known:
            options_of = f"its options: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"adversary {adversary!r} has no option {name!r}{nearest(name, known)} ({options_of})")
    if "examples" in known and class_counts is not None:
        options.setdefault("examples", float(as_numpy(class_counts).sum()))
    missing = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in options and name in known
    ]
    if missing:
        raise InputError(f"adversary {adversary!r} needs {_names(missing)}")
    return kind(**options)


def _check_role(name: str) -> None:
    """Point to the right argument where a loss or a reduction was given as the adversary."""
    for role, registry in (("loss", LOSSES), ("reduction", REDUCTIONS)):
        if name in registry and name not in ADVERSARIES:
            raise InputError(f"{name!r} is no adversary but a {role}: pass {role}={name!r}")


def _audited(audit: Any, radius: float | None = None, model: str | None = None, **rest: Any) -> Any:
    from advshift.objective.audited import audited_distribution

    if radius is None or rest:
        raise InputError(f"a target from audit= needs radius= and may have model=; got {_names(rest) or 'no radius'}")
    return audited_distribution(audit, radius, model=model)


def _names(options: Any) -> str:
    return ", ".join(f"{name}=" for name in options)


def count_members(num_classes: int | None, num_groups: int | None, class_counts: ArrayLike | None) -> int:
    """How many classes or groups the adversary weighs."""
    number = num_classes if num_groups is None else num_groups
    if isinstance(class_counts, Mapping):
        raise InputError("class_counts must be in the order of the classes: pass [counts[y] for y in range(classes)]")
    given = None if class_counts is None else as_numpy(class_counts)
    if given is not None and (given.ndim != 1 or number not in (None, given.size)):
        what = f"per {'class' if num_groups is None else 'group'}{'' if number is None else f': {number}'}"
        raise InputError(f"class_counts must hold one number {what}; got shape {given.shape}")
    number = given.size if number is None and given is not None else number
    if number is None:
        raise InputError("the number of classes is not known: pass num_classes= or class_counts=")
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise InputError(f"num_classes and num_groups must be whole numbers from 1 up; got {number!r}")
    return int(number)


def known_reference(class_counts: ArrayLike) -> Tensor:
    """The label distribution of counts. A count of zero is a class that gets no mass; its label is refused."""
    counts = as_numpy(class_counts)
    values = counts.astype(np.float64) if counts.dtype.kind in "fiu" else np.array([np.nan])
    if not bool(np.all(np.isfinite(values) & (values >= 0))) or not values.sum() > 0:
        raise InputError(f"class_counts must be numbers from 0 up, not all 0; got {class_counts!r}")
    return torch.from_numpy(values / values.sum()).float()


def first_step(start_after: int | float, total_steps: int | None) -> int:
    """The number of steps for which the adversary waits."""
    if isinstance(start_after, bool) or not isinstance(start_after, (int, float)) or not start_after >= 0:
        raise InputError(f"start_after must be a number of steps or a fraction of training; got {start_after!r}")
    if isinstance(start_after, int):
        return start_after
    if start_after >= 1:
        raise InputError(f"start_after={start_after!r} is no fraction of training below 1; for steps pass an integer")
    if start_after > 0 and total_steps is None:
        raise InputError("a start after a fraction of training needs its length: pass total_steps=")
    if total_steps is not None and not total_steps > 0:
        raise InputError(f"total_steps must be the number of training's steps, from 1 up; got {total_steps!r}")
    return round(start_after * (total_steps or 0))


def build_loss(
    loss: str | PerExampleLoss | None,
    label_smoothing: float,
    ignore_index: int,
    class_weights: ArrayLike | None,
    class_counts: ArrayLike | None,
    num_classes: int | None,
    total_steps: int | None,
) -> PerExampleLoss:
    """Cross-entropy with the options that belong to it, a loss by its name, or the loss that was given."""
    if loss is not None and class_weights is not None:
        raise InputError("class_weights belong to the default cross-entropy; give them to loss")
    if isinstance(loss, str):
        smoothing = {"label_smoothing": label_smoothing} if label_smoothing else {}
        steps = {} if total_steps is None else {"total_steps": total_steps}
        return _named_loss(loss, smoothing, class_counts=class_counts, ignore_index=ignore_index, **steps)
    if loss is not None:
        if not callable(loss):
            raise InputError(f"loss must be a function (logits, labels) -> losses, or the name of one; got {loss!r}")
        if label_smoothing:
            raise InputError("label_smoothing belongs to the default cross-entropy; give it to loss")
        return loss
    weights = None if class_weights is None else torch.as_tensor(as_numpy(class_weights)).float()
    if weights is not None and not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise InputError(f"class_weights must be finite numbers from 0 up; got {class_weights!r}")
    if weights is not None and num_classes is not None and weights.shape != (num_classes,):
        raise InputError(f"class_weights must be one number per class: {num_classes}; got shape {tuple(weights.shape)}")
    return CrossEntropy(label_smoothing=label_smoothing, ignore_index=ignore_index, class_weights=weights)


def _named_loss(name: str, wanted: Mapping[str, Any], **offered: Any) -> PerExampleLoss:
    """Build a loss from what it takes of what is offered; what is wanted it must take."""
    kind = LOSSES[name]
    known = inspect.signature(kind).parameters
    if "class_counts" in known and offered["class_counts"] is None:
        advice = "pass class_counts=, or, where those are of groups, the loss itself"
        raise InputError(f"the loss {name!r} is made from class counts; {advice}")
    for option in wanted:
        if option not in known:
            raise InputError(f"the loss {name!r} takes no {option}; build the loss and pass it as loss=")
    return kind(**{option: value for option, value in offered.items() if option in known}, **wanted)


def build_reduction(reduction: str | Callable[[Tensor], Tensor], members: int) -> str | Callable[[Tensor], Tensor]:
    """Keep torch's three words and functions; make a robust reduction of its name."""
    if isinstance(reduction, Reduction) and reduction.num_groups not in (None, members):
        raise InputError(
            f"the reduction is for {reduction.num_groups} groups, the objective weighs {members} classes or groups; "
            "build both for the same"
        )
    if callable(reduction) or reduction in ("mean", "sum", "none"):
        return reduction
    kind = REDUCTIONS[reduction]
    needed = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    if needed:
        built = f"advshift.reductions.{kind.__name__}({', '.join(f'{name}=...' for name in needed)})"
        raise InputError(f"the reduction {reduction!r} needs {_names(needed)}; pass it built: reduction={built}")
    return kind()
