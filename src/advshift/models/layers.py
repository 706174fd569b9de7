"""What the networks share: norms, heads, first values, and the checks of shapes and options."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from advshift.errors import InputError
from advshift.losses import NormalisedLinear
from advshift.registry import nearest

__all__ = [
    "Gain",
    "Head",
    "Norm",
    "build_head",
    "build_norm",
    "check_choice",
    "check_whole",
    "image_channels",
    "initialise",
]

Norm = Literal["batch", "group", "none"]
Head = Literal["linear", "cosine"]
MOST_GROUPS = 32


class Gain(nn.Module):
    """A learned factor that starts at 0: what ends a residual branch without norms (SkipInit, De and Smith, 2020).

    >>> Gain()(torch.ones(2)).tolist()
    [0.0, 0.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Multiply."""
        return x * self.weight


def build_norm(kind: Norm, channels: int) -> nn.Module:
    """Make the norm after a convolution. Groups: as many as 32, of two channels or more.

    >>> build_norm("group", 16).num_groups, build_norm("group", 512).num_groups, build_norm("group", 5).num_groups
    (8, 32, 1)
    """
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "group":
        return nn.GroupNorm(math.gcd(channels, max(1, min(MOST_GROUPS, channels // 2))), channels)
    return nn.Identity()


def build_head(kind: Head, features: int, num_classes: int) -> nn.Module:
    """Make the last layer: a linear one, or one whose logits are cosines, as `ldam` wants them."""
    check_choice("head", kind, get_args(Head))
    return nn.Linear(features, num_classes) if kind == "linear" else NormalisedLinear(features, num_classes)


def initialise(model: nn.Module) -> None:
    """Draw the convolutions as He et al. (2015) do, by the number of outputs that each input has."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not one of the known."""
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}; got {value!r}{nearest(str(value), known)}")


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number from `least` up."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number from {least} up; got {value!r}")


def image_channels(shape: tuple[int, ...]) -> int:
    """Return the channels of an image's shape, or say that the input is none."""
    if len(shape) != 3:
        raise InputError(
            f"this model takes images of shape (channels, height, width); the data has the shape {tuple(shape)}: "
            "take 'linear' or 'mlp' for features"
        )
    return shape[0]
