"""Residual networks for small images."""

from __future__ import annotations

from torch import nn

from advshift.errors import InputError
from advshift.models.layers import Head, Norm, build_norm, check_whole, image_channels
from advshift.models.residual import Basic, ResidualNetwork, Shortcut, Style, convolution

__all__ = ["CifarResNet", "CifarResNet18Wide"]


def small_stem(style: Style, channels: int, width: int) -> list[nn.Module]:
    """Make a stem that keeps height and width."""
    return [convolution(style, channels, width, 3), build_norm(style.norm, width), nn.ReLU(inplace=True)]


class CifarResNet(ResidualNetwork):
    """The residual network of He et al. (2016) for CIFAR: three stages of `n` blocks, depth `6n + 2`.

    Parameters
    ----------
    num_classes, shape
        The number of classes, and the shape of an image: `(channels, height, width)`.
    depth
        Layers with weights: 20, 32, 44, 56, 110, or any other `6n + 2`.
    width
        Channels of the first stage; the second has twice, the third four times as many.
    norm
        `"batch"`; `"group"`, which looks at one example at a time; or `"none"`.
    shortcut
        Where the shape changes: `"A"` pads with zeros, as published; `"B"` is a 1×1 convolution.
    zero_init
        Start every block as its shortcut.
    head
        `"linear"` or `"cosine"`.

    >>> model = CifarResNet(10, (3, 32, 32), depth=20)
    >>> sum(parameter.numel() for parameter in model.parameters())
    269722
    """

    def __init__(
        self,
        num_classes: int,
        shape: tuple[int, ...],
        *,
        depth: int = 20,
        width: int = 16,
        norm: Norm = "batch",
        shortcut: Shortcut = "A",
        zero_init: bool = False,
        head: Head = "linear",
    ) -> None:
        check_whole("width", width)
        check_whole("depth", depth, 8)
        if depth % 6 != 2:
            below = depth - (depth - 2) % 6
            raise InputError(f"depth must be 6n + 2 for a whole n; got {depth}: take {below} or {below + 6}")
        style, blocks = Style(norm, shortcut, zero_init), [(depth - 2) // 6] * 3
        stem = small_stem(style, image_channels(shape), width)
        super().__init__(stem, Basic, blocks, width, num_classes, style=style, head=head)


class CifarResNet18Wide(ResidualNetwork):
    """ImageNet's ResNet-18 with a stem for small images: a 3×3 convolution of stride 1, and no pooling.

    The parameters are those of `CifarResNet`; the four stages have 1, 2, 4 and 8 times `width` channels.

    >>> model = CifarResNet18Wide(10, (3, 32, 32))
    >>> sum(parameter.numel() for parameter in model.parameters())
    11173962
    """

    def __init__(
        self,
        num_classes: int,
        shape: tuple[int, ...],
        *,
        width: int = 64,
        norm: Norm = "batch",
        zero_init: bool = False,
        head: Head = "linear",
    ) -> None:
        check_whole("width", width)
        style = Style(norm, "B", zero_init)
        stem = small_stem(style, image_channels(shape), width)
        super().__init__(stem, Basic, [2, 2, 2, 2], width, num_classes, style=style, head=head)
