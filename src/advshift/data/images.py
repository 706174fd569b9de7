"""From an encoded image to bytes of pixels: any size and mode, by one resize of a window. Needs Pillow."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8

from advshift.data.augmentation import AREA, ASPECT
from advshift.errors import InputError, require

__all__ = ["SUFFIXES", "CorruptImageError", "View", "decode", "decode_window", "image_size", "need_pillow"]

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jp2 .png .bmp .gif .webp .tif .tiff .ppm .pgm .pbm .pnm".split()  # noqa: SIM905
)
Picture = Any  # Pillow's image, which is imported where it is needed
Box = tuple[float, float, float, float]  # left, top, right, bottom


class CorruptImageError(InputError):
    """An image that cannot be decoded; the message says why."""


class View(NamedTuple):
    """What is made of every image.

    Attributes
    ----------
    height, width
        Of the result.
    resize
        Whether images are brought to that size; else they must have it.
    share
        Of the side that the window has.
    fit
        What happens to an image that is not square: `"crop"` looks at its middle, `"stretch"` squeezes it, `"pad"`
        fills it up with the median of its border.
    grey
        One channel instead of three.
    """

    height: int
    width: int
    resize: bool
    share: float = 1.0
    fit: Literal["crop", "stretch", "pad"] = "crop"
    grey: bool = False

    @property
    def channels(self) -> int:
        """1 or 3."""
        return 1 if self.grey else 3


def need_pillow(feature: str) -> None:
    """Say what to install where Pillow is missing."""
    require("PIL", feature, "images")


def image_size(raw: bytes) -> tuple[int, int]:
    """Return the height and the width, from the head of the file."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw)) as image:
            return image.height, image.width
    except Exception as error:
        raise CorruptImageError(_reason(error)) from None


def decode(raw: bytes, view: View) -> UInt8[np.ndarray, "height width channels"]:
    """Decode an image and look at the middle of it, as evaluation does."""
    image = _opened(raw)
    if not view.resize and image.size != (view.width, view.height):
        raise InputError(
            f"it has {image.width}×{image.height} pixels, the first image {view.width}×{view.height}; "
            "set data.image_size to bring all to one size"
        )
    if view.fit == "pad" and image.width != image.height:
        image = _padded(_loaded(image, view.grey))
    return _window(image, _middle(image.size, view) if view.resize else None, view)


def decode_window(
    raw: bytes, view: View, draws: Sequence[float], flip: bool
) -> UInt8[np.ndarray, "height width channels"]:
    """Decode a window of random area, aspect and place, stretched to the view's size.

    Parameters
    ----------
    raw
        The encoded image.
    view
        The size and the channels of the result.
    draws
        Five numbers from 0 to 1: area, aspect, the place across and down, and whether to mirror.
    flip
        Whether to mirror half of the images.
    """
    image = _opened(raw)
    pixels = _window(image, _random(image.size, draws), view)
    return pixels[:, ::-1] if flip and draws[4] < 0.5 else pixels


def _middle(size: tuple[int, int], view: View) -> Box:
    """The window that evaluation looks at."""
    width, height = size[0] * view.share, size[1] * view.share
    if view.fit != "stretch":
        aspect = view.width / view.height
        width, height = min(width, height * aspect), min(height, width / aspect)
    left, top = (size[0] - width) / 2, (size[1] - height) / 2
    return left, top, left + width, top + height


def _random(size: tuple[int, int], draws: Sequence[float]) -> Box:
    low, high = (math.log(value) for value in ASPECT)
    area = (AREA[0] + draws[0] * (AREA[1] - AREA[0])) * size[0] * size[1]
    aspect = math.exp(low + draws[1] * (high - low))
    width, height = min(math.sqrt(area * aspect), size[0]), min(math.sqrt(area / aspect), size[1])
    left, top = draws[2] * (size[0] - width), draws[3] * (size[1] - height)
    return left, top, left + width, top + height


def _opened(raw: bytes) -> Picture:
    from PIL import Image

    try:
        return Image.open(io.BytesIO(raw))
    except Exception as error:
        raise CorruptImageError(_reason(error)) from None


def _window(image: Picture, box: Box | None, view: View) -> UInt8[np.ndarray, "height width channels"]:
    from PIL import Image

    if box is not None:
        before = image.size
        # A large JPEG is decoded at a half, a quarter or an eighth of its size where that is still enough.
        factor = max(view.width / (box[2] - box[0]), view.height / (box[3] - box[1]))
        image.draft(None, (math.ceil(before[0] * factor), math.ceil(before[1] * factor)))
        across, down = image.width / before[0], image.height / before[1]
        box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    image = _loaded(image, view.grey)
    if box is not None:
        image = image.resize((view.width, view.height), Image.Resampling.BILINEAR, box=box)
    return np.asarray(image).reshape(view.height, view.width, view.channels)


def _loaded(image: Picture, grey: bool) -> Picture:
    """Decode the pixels and bring them to one mode; transparency is dropped."""
    try:
        image.load()
        if image.mode.startswith("I"):
            image = _from_16_bits(image)
        if image.mode == "F":
            raise CorruptImageError("its pixels are floating-point numbers; save it with 8 or 16 bits")
        if image.mode in ("P", "PA"):
            image = image.convert("RGBA")  # what a palette says of transparency is no colour
        return image.convert("L" if grey else "RGB")
    except CorruptImageError:
        raise
    except Exception as error:
        raise CorruptImageError(_reason(error)) from None


def _from_16_bits(image: Picture) -> Picture:
    """Scale 16 bits to 8; Pillow alone would cut everything above 255 off."""
    from PIL import Image

    values = np.asarray(image).astype(np.float64).clip(0, 65535) / 257
    return Image.fromarray(values.round().astype(np.uint8))


def _padded(image: Picture) -> Picture:
    """Make an image square around its middle."""
    from PIL import ImageOps

    pixels = np.asarray(image)
    border = np.concatenate((pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
    median = np.median(border, axis=0).astype(int).tolist()
    side = max(image.size)
    return ImageOps.pad(image, (side, side), color=tuple(median) if isinstance(median, list) else median)


def _reason(error: Exception) -> str:
    """Pillow's words without its address of the buffer, as a part of a sentence."""
    text = str(error).partition("\n")[0].rstrip(".")
    return "it is no image that Pillow knows" if "cannot identify image" in text else text or type(error).__name__
