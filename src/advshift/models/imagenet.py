"""Residual networks for images of ImageNet's size."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from advshift.models.layers import Head, Norm, build_norm, image_channels
from advshift.models.residual import Basic, Block, Bottleneck, ResidualNetwork, Style

__all__ = ["ResNet18", "ResNet34", "ResNet50"]

WIDTH = 64


class ImageNetResNet(ResidualNetwork):
    """A 7×7 convolution of stride 2, pooling, and four stages.

    Parameters
    ----------
    num_classes, shape
        The number of classes, and the shape of an image: `(channels, height, width)`.
    norm
        `"batch"`, `"group"` or `"none"`.
    zero_init
        Start every block as its shortcut (Goyal et al., 2017).
    head
        `"linear"` or `"cosine"`.
    """

    block: ClassVar[type[Block]]
    depths: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_classes: int,
        shape: tuple[int, ...],
        *,
        norm: Norm = "batch",
        zero_init: bool = False,
        head: Head = "linear",
    ) -> None:
        stem = [
            nn.Conv2d(image_channels(shape), WIDTH, 7, 2, 3, bias=norm == "none"),
            build_norm(norm, WIDTH),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        style = Style(norm, "B", zero_init)
        super().__init__(stem, self.block, self.depths, WIDTH, num_classes, style=style, head=head)


class ResNet18(ImageNetResNet):
    """ResNet-18 of He et al. (2016)."""

    block, depths = Basic, (2, 2, 2, 2)


class ResNet34(ImageNetResNet):
    """ResNet-34 of He et al. (2016)."""

    block, depths = Basic, (3, 4, 6, 3)


class ResNet50(ImageNetResNet):
    """ResNet-50 in the form called v1.5: the stride is in the 3×3 convolution of a block.

    >>> sum(parameter.numel() for parameter in ResNet50(1000, (3, 224, 224)).parameters())
    25557032
    """

    block, depths = Bottleneck, (3, 4, 6, 3)
