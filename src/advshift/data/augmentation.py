"""Augmentation of whole batches with draws of each image's own; nothing here decodes, loops over images or waits.

Bytes come and go as `(batch, height, width, channels)`, which is a model's channels-last layout under another name.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor
from torch.nn import functional

from advshift.data.options import Augmentation
from advshift.data.randomness import generator
from advshift.data.types import Plan

__all__ = ["AREA", "ASPECT", "crop_and_flip", "cutout", "mix"]

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)  # of a random resized crop, as published for ImageNet


def crop_and_flip(
    images: UInt8[Tensor, "batch height width channels"], augment: Augmentation, plan: Plan
) -> UInt8[Tensor, "batch height width channels"]:
    """Cut a window out of each padded image and mirror some, in one gather."""
    if not len(images) or not (augment.random_resized_crop or augment.crop or augment.flip):
        return images
    if augment.random_resized_crop:
        return _resized_crop(images, augment, plan)
    height, width = images.shape[1:3]
    draws = _draws(plan, "crop", 3)
    pad = augment.crop
    rows = torch.arange(height) + _whole(draws[0], 2 * pad + 1)[:, None]
    columns = torch.arange(width)
    if augment.flip:
        columns = torch.where(draws[2][:, None] < 0.5, columns.flip(0), columns)
    columns = columns + _whole(draws[1], 2 * pad + 1)[:, None]
    if pad:
        images = functional.pad(images, (0, 0, pad, pad, pad, pad))
    return _gather(images, rows, columns)


def _gather(
    images: Shaped[Tensor, "batch tall wide channels"],
    rows: Int[Tensor, "batch height"],
    columns: Int[Tensor, "batch width"],
) -> Shaped[Tensor, "batch height width channels"]:
    """Pick pixels by one flat index a pixel: quicker than an index per axis."""
    batch, tall, wide, channels = images.shape
    places = (torch.arange(batch)[:, None] * tall + rows)[:, :, None] * wide + columns[:, None, :]
    flat = images.reshape(-1, channels)[places.flatten().to(images.device, non_blocking=True)]
    return flat.view(batch, rows.shape[1], columns.shape[1], channels)


def _resized_crop(
    images: UInt8[Tensor, "batch height width channels"], augment: Augmentation, plan: Plan
) -> UInt8[Tensor, "batch height width channels"]:
    """Stretch a window of random area and aspect to the old size, by bilinear interpolation."""
    draws = _draws(plan, "resized-crop", 5)
    low, high = ASPECT
    area = AREA[0] + draws[0] * (AREA[1] - AREA[0])
    aspect = torch.exp(math.log(low) + draws[1] * (math.log(high) - math.log(low)))
    wide, tall = (area * aspect).sqrt().clamp(max=1.0), (area / aspect).sqrt().clamp(max=1.0)
    sign = torch.where(draws[4] < 0.5, -1.0, 1.0) if augment.flip else torch.ones_like(wide)
    centre_x, centre_y = (2 * draws[2] - 1) * (1 - wide), (2 * draws[3] - 1) * (1 - tall)
    zero = torch.zeros_like(wide)
    theta = torch.stack((torch.stack((sign * wide, zero, centre_x), 1), torch.stack((zero, tall, centre_y), 1)), 1)
    pixels = images.permute(0, 3, 1, 2).float()
    grid = functional.affine_grid(theta.to(pixels), list(pixels.shape), align_corners=False)
    stretched = functional.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
    return stretched.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


def cutout(
    images: Float[Tensor, "batch channels height width"], side: int, plan: Plan
) -> Float[Tensor, "batch channels height width"]:
    """Set a square around a pixel of each image to 0, which is the mean once images are normalised."""
    height, width = images.shape[2:]
    draws = _draws(plan, "cutout", 2)
    y, x = _whole(draws[0], height)[:, None], _whole(draws[1], width)[:, None]
    inside_y = (torch.arange(height) >= y - side // 2) & (torch.arange(height) < y - side // 2 + side)
    inside_x = (torch.arange(width) >= x - side // 2) & (torch.arange(width) < x - side // 2 + side)
    hidden = inside_y[:, None, :, None] & inside_x[:, None, None, :]
    return images.masked_fill(hidden.to(images.device, non_blocking=True), 0.0)


def mix(
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
    augment: Augmentation,
    classes: int,
    plan: Plan,
) -> tuple[Float[Tensor, "batch channels height width"], Float[Tensor, "batch classes"]]:
    """Mix each image with another of the same process's part of the batch: mixup (blend), or CutMix (paste)."""
    stream = generator(plan.seed, "mix", plan.first)
    both = augment.mixup > 0 and augment.cutmix > 0
    paste = augment.cutmix > 0 and (not both or bool(torch.rand((), generator=stream) < 0.5))
    strength = augment.cutmix if paste else augment.mixup
    share = _beta(strength, stream)
    partner = torch.randperm(len(labels), generator=stream).to(images.device)
    if paste:
        images, share = _paste(images, partner, share, stream)
    else:
        images = images.lerp(images[partner], 1.0 - share)
    hard = functional.one_hot(labels, classes).to(images.dtype)
    return images, hard.lerp(hard[partner], 1.0 - share)


def _paste(
    images: Float[Tensor, "batch channels height width"],
    partner: Int[Tensor, " batch"],
    share: float,
    stream: torch.Generator,
) -> tuple[Float[Tensor, "batch channels height width"], float]:
    """Paste a window of the partner; the share that is left is what the clipped window leaves."""
    height, width = images.shape[2:]
    centre = torch.rand(2, generator=stream).tolist()
    half = math.sqrt(1.0 - share) / 2
    top, bottom = (round(max(0.0, min(1.0, centre[0] + s * half)) * height) for s in (-1, 1))
    left, right = (round(max(0.0, min(1.0, centre[1] + s * half)) * width) for s in (-1, 1))
    images = images.clone()
    images[:, :, top:bottom, left:right] = images[partner, :, top:bottom, left:right]
    return images, 1.0 - (bottom - top) * (right - left) / (height * width)


def _beta(strength: float, stream: torch.Generator) -> float:
    """Draw from Beta(a, a) by the logarithms of two gamma variates, so that a small `a` does not underflow."""
    gammas = torch._standard_gamma(torch.full((2,), strength + 1.0), generator=stream).log()
    gammas = gammas + torch.rand(2, generator=stream).log() / strength
    return float(torch.softmax(gammas.double(), 0)[0])


def _draws(plan: Plan, purpose: str, rows: int) -> Float[Tensor, "rows batch"]:
    """Uniform draws for the whole batch, of which this process's part is returned."""
    draws = torch.rand(rows, plan.size, generator=generator(plan.seed, purpose))
    return draws[:, plan.first : plan.first + len(plan.rows)]


def _whole(draws: Float[Tensor, " batch"], below: int) -> Int[Tensor, " batch"]:
    return (draws * below).long().clamp_max(below - 1)
