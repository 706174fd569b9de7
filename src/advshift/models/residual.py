"""Residual networks: the blocks, and what all of them do from the stem to the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from advshift.models.layers import Gain, Head, Norm, build_head, build_norm, check_choice, initialise

__all__ = ["Basic", "Block", "Bottleneck", "ResidualNetwork", "Shortcut", "Style", "convolution"]

Shortcut = Literal["A", "B"]


class Style(NamedTuple):
    """The choices that all blocks of a network share."""

    norm: Norm = "batch"
    shortcut: Shortcut = "B"
    zero_init: bool = False


def convolution(style: Style, inside: int, outside: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Make a convolution that keeps height and width at stride 1; it has a bias where no norm follows."""
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=style.norm == "none")


class PaddedShortcut(nn.Module):
    """Option A of He et al. (2016): every other pixel, and zeros for the channels that are new; no parameters."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self.new_channels, self.stride = new_channels, stride

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch more low narrow"]:
        """Subsample and pad."""
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))


def build_shortcut(style: Style, inside: int, outside: int, stride: int) -> nn.Module:
    """Make what leads around a block: nothing but the input, where the shapes agree."""
    if stride == 1 and inside == outside:
        return nn.Identity()
    if style.shortcut == "A":
        return PaddedShortcut(outside - inside, stride)
    return nn.Sequential(convolution(style, inside, outside, 1, stride), build_norm(style.norm, outside))


class Block(nn.Module):
    """`relu(branch(x) + shortcut(x))`.

    The last norm of the branch may start at zero, so that the block starts as its shortcut (Goyal et al., 2017).
    Without norms the branch ends with a learned factor that starts at zero.
    """

    expansion = 1  # the block's channels over its width

    def __init__(self, inside: int, width: int, stride: int, style: Style) -> None:
        super().__init__()
        outside = width * self.expansion
        self.branch = nn.Sequential(*self.layers(inside, width, stride, style))
        self.shortcut = build_shortcut(style, inside, outside, stride)
        if style.norm == "none":
            self.branch.append(Gain())
        elif style.zero_init:
            last = self.branch[-1]
            nn.init.zeros_(last.weight)  # type: ignore[arg-type]

    def layers(self, inside: int, width: int, stride: int, style: Style) -> list[nn.Module]:
        """Make the layers of the branch, in order."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch more low narrow"]:
        """Add the branch to the shortcut."""
        total: Tensor = self.branch(x) + self.shortcut(x)
        return functional.relu(total, inplace=True)


class Basic(Block):
    """Two 3×3 convolutions."""

    def layers(self, inside: int, width: int, stride: int, style: Style) -> list[nn.Module]:
        """Make the layers of the branch, in order."""
        return [
            *(convolution(style, inside, width, 3, stride), build_norm(style.norm, width), nn.ReLU(inplace=True)),
            *(convolution(style, width, width, 3), build_norm(style.norm, width)),
        ]


class Bottleneck(Block):
    """1×1, 3×3 and 1×1 convolutions; the stride is the 3×3 one's, as in "v1.5"."""

    expansion = 4

    def layers(self, inside: int, width: int, stride: int, style: Style) -> list[nn.Module]:
        """Make the layers of the branch, in order."""
        outside = width * self.expansion
        return [
            *(convolution(style, inside, width, 1), build_norm(style.norm, width), nn.ReLU(inplace=True)),
            *(convolution(style, width, width, 3, stride), build_norm(style.norm, width), nn.ReLU(inplace=True)),
            *(convolution(style, width, outside, 1), build_norm(style.norm, outside)),
        ]


class ResidualNetwork(nn.Module):
    """A stem, stages of residual blocks, the mean over the pixels, and a head.

    Each stage but the first halves height and width and doubles the width.

    Attributes
    ----------
    stem, stages
        The layers up to the last feature map.
    head
        The last linear layer.
    """

    def __init__(
        self,
        stem: Sequence[nn.Module],
        block: type[Block],
        depths: Sequence[int],
        width: int,
        num_classes: int,
        *,
        style: Style,
        head: Head,
    ) -> None:
        super().__init__()
        check_choice("norm", style.norm, get_args(Norm))
        check_choice("shortcut", style.shortcut, get_args(Shortcut))
        self.stem = nn.Sequential(*stem)
        self.stages = nn.Sequential()
        inside = width
        for stage, depth in enumerate(depths):
            wide = width * 2**stage
            strides = [1 if stage == 0 else 2] + [1] * (depth - 1)
            blocks = nn.Sequential()
            for stride in strides:
                blocks.append(block(inside, wide, stride, style))
                inside = wide * block.expansion
            self.stages.append(blocks)
        self.head = build_head(head, inside, num_classes)
        initialise(self)

    def features(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        """What the head sees."""
        maps: Tensor = self.stages(self.stem(x))
        return maps.mean((2, 3))

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        logits: Tensor = self.head(self.features(x))
        return logits
