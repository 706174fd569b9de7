"""The optimisers of torch by name, with weight decay where it belongs."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["build_optimizer", "parameter_groups"]

REFUSED = {
    "LBFGS": "it evaluates the loss several times a step, which a loop over batches does not offer",
    "SparseAdam": "it takes sparse gradients, and the models have dense ones",
}
FUSED_ON = ("cpu", "cuda", "mps", "xpu")


def parameter_groups(
    model: nn.Module, weight_decay: float | None = None, *, decay_all: bool = False
) -> list[dict[str, Any]]:
    """Split what is trained into matrices, and norms and biases (one axis or none), which do not decay.

    Parameters
    ----------
    model
        Its parameters that need no gradient are left out.
    weight_decay
        That of the matrices; None leaves it to the optimiser.
    decay_all
        Let norms and biases decay, too.

    >>> [len(group["params"]) for group in parameter_groups(nn.Linear(3, 2), 0.1)]
    [1, 1]
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise InputError("the model has no parameters to train: none needs a gradient")
    decaying = [parameter for parameter in trained if decay_all or parameter.ndim > 1]
    others = [parameter for parameter in trained if not decay_all and parameter.ndim <= 1]
    decay = {} if weight_decay is None else {"weight_decay": weight_decay}
    groups = [{"params": decaying, **decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def build_optimizer(
    model: nn.Module, name: str = "SGD", *, decay_all: bool = False, **options: Any
) -> torch.optim.Optimizer:
    """Make an optimiser of `torch.optim`, for a model that is on its device already.

    Parameters
    ----------
    model
        What is trained. Parameters of one axis or none (norms and biases) get no weight decay.
    name
        A class of `torch.optim`; case does not matter.
    decay_all
        Let norms and biases decay, too.
    options
        Go to the class; one that it does not know is refused. Where it has a fused step for the device, that is the
        default.

    >>> optimizer = build_optimizer(nn.Linear(3, 2), "SGD", lr=0.1, momentum=0.9, weight_decay=5e-4)
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.0005, 0.0]
    """
    kind = _find(name)
    known = [option for option in inspect.signature(kind).parameters if option != "params"]
    for option in options:
        if option not in known:
            raise InputError(
                f"optimizer {kind.__name__} has no option {option!r}{nearest(option, known)} "
                f"(its options: {', '.join(known)})"
            )
        _check_kind(kind.__name__, option, options[option], inspect.signature(kind).parameters[option].default)
    if "weight_decay" in known:
        groups = parameter_groups(model, options.pop("weight_decay", None), decay_all=decay_all)
    else:
        groups = [{"params": [parameter for group in parameter_groups(model) for parameter in group["params"]]}]
    if "fused" in known and not {"fused", "foreach", "differentiable"} & set(options) and _can_fuse(groups):
        with suppress(InputError):  # the class may have no fused step for this device
            return _construct(kind, groups, {**options, "fused": True})
    return _construct(kind, groups, options)


def _check_kind(owner: str, option: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than the default: torch would notice some of them at the first step only."""
    for kinds, what in (((bool,), "true or false"), ((int, float), "a number")):
        if isinstance(default, kinds):
            if not isinstance(value, kinds) or isinstance(value, bool) != (kinds == (bool,)):
                raise InputError(f"optimizer {owner}: {option} must be {what}; got {value!r}")
            return


def _find(name: str) -> type[torch.optim.Optimizer]:
    classes = {
        key: value
        for key, value in vars(torch.optim).items()
        if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    by_case = {key.lower(): key for key in classes}
    key = by_case.get(name.lower())
    if key is None:
        known = [key for key in classes if key not in REFUSED]
        close = nearest(name.lower(), [key.lower() for key in known])
        for low, right in by_case.items():
            close = close.replace(repr(low), repr(right))
        raise InputError(f"unknown optimizer {name!r}{close} (known: {', '.join(known)})")
    if key in REFUSED:
        raise InputError(f"optimizer {key} cannot be used here: {REFUSED[key]}; take SGD or AdamW")
    return classes[key]


def _can_fuse(groups: list[dict[str, Any]]) -> bool:
    parameters = [parameter for group in groups for parameter in group["params"]]
    return all(parameter.device.type in FUSED_ON and parameter.is_floating_point() for parameter in parameters)


def _construct(
    kind: type[torch.optim.Optimizer], groups: list[dict[str, Any]], options: dict[str, Any]
) -> torch.optim.Optimizer:
    try:
        return kind(groups, **options)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"optimizer {kind.__name__} refuses its options or parameters: {error}") from error
