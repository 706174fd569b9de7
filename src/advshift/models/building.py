"""From a name and its options to a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from advshift.errors import InputError
from advshift.models.cifar import CifarResNet, CifarResNet18Wide
from advshift.models.external import build_external
from advshift.models.imagenet import ResNet18, ResNet34, ResNet50
from advshift.models.layers import check_whole
from advshift.models.simple import Linear, MultilayerPerceptron
from advshift.registry import Registry, nearest

__all__ = ["MODELS", "build_model"]

MODELS: Registry[nn.Module] = Registry(
    "model",
    {
        "linear": Linear,
        "mlp": MultilayerPerceptron,
        "cifar-resnet": CifarResNet,
        "cifar-resnet18-wide": CifarResNet18Wide,
        "resnet18": ResNet18,
        "resnet34": ResNet34,
        "resnet50": ResNet50,
    },
)
GIVEN = ("num_classes", "shape")


def build_model(
    spec: str, num_classes: int, shape: tuple[int, ...], /, *, seed: int | None = None, **options: Any
) -> nn.Module:
    """Make the model of a name.

    Parameters
    ----------
    spec
        A name of `MODELS`, `torchvision:NAME`, `timm:NAME`, or `module.path:factory` for a model of your own.
    num_classes
        The number of logits.
    shape
        The shape of one input, as the data has it after its transforms.
    seed
        Where the first weights are drawn from, without touching torch's own generator; that one by default.
    options
        Go to the model; one that it does not know is refused.

    >>> model = build_model("cifar-resnet", 10, (3, 32, 32), depth=8, width=4)
    >>> model(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_whole("num_classes", num_classes)
    shape = tuple(shape)
    if seed is None:
        return _build(spec, num_classes, shape, options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _build(spec, num_classes, shape, options)


def _build(spec: str, num_classes: int, shape: tuple[int, ...], options: Mapping[str, Any]) -> nn.Module:
    if ":" in spec:
        return build_external(spec, num_classes, shape, options)
    kind = MODELS[spec]
    known = [name for name in inspect.signature(kind).parameters if name not in GIVEN]
    check_options(f"model {spec!r}", options, known)
    return kind(num_classes, shape, **options)


def check_options(owner: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that its owner does not have."""
    known = list(known)
    for name in options:
        if name in GIVEN:
            raise InputError(f"{owner} gets its {name} from the data; leave the option out")
        if name not in known:
            has = f"its options: {', '.join(known)}" if known else "it has none"
            raise InputError(f"{owner} has no option {name!r}{nearest(name, known)} ({has})")
