"""Augmentation of whole batches with draws of each image's own; nothing here decodes, loops over images or waits.

Bytes come and go as `(batch, height, width, channels)`, which is a model's channels-last layout under another name.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
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
    """Mix each image with its neighbour in the batch by draws of its own: mixup (blend), or CutMix (paste).

    The batch comes in the epoch's random order, so that a neighbour is as good as any other image. Images 2i and 2i + 1
    of the whole batch are neighbours; one whose neighbour another process holds stays as it is.
    """
    own = torch.arange(len(labels))
    partner = ((plan.first + own) ^ 1) - plan.first
    partner = torch.where((partner >= 0) & (partner < len(labels)), partner, own).to(images.device, non_blocking=True)
    height, width = images.shape[2:]
    weights = _partners_weights(height, width, augment, plan).to(images.device, non_blocking=True)
    hard = functional.one_hot(labels, classes).to(images.dtype)
    soft = hard.lerp(hard[partner], weights.mean((1, 2, 3))[:, None])
    return images.lerp(images[partner], weights), soft


def _partners_weights(
    height: int, width: int, augment: Augmentation, plan: Plan
) -> Float[Tensor, "batch 1 height width"]:
    """How much of each pixel is the partner's: a share of the whole image, or all of a window."""
    stream = generator(plan.seed, "mix")
    draws = torch.rand(3, plan.size, generator=stream)
    pastes = draws[0] < (0.0 if not augment.cutmix else 0.5 if augment.mixup else 1.0)
    shares = _beta(torch.where(pastes, augment.cutmix, augment.mixup), stream)
    half = shares.sqrt() / 2
    rows, columns = _within(draws[1], half, height), _within(draws[2], half, width)
    window = (rows[:, :, None] & columns[:, None, :]).float()
    weights = torch.where(pastes[:, None, None], window, shares[:, None, None])
    return weights[plan.first : plan.first + len(plan.rows), None]


def _within(centre: Float[Tensor, " batch"], half: Float[Tensor, " batch"], side: int) -> Bool[Tensor, "batch side"]:
    """Which pixels along an axis a window covers; what lies outside of the image is cut off."""
    places = torch.arange(side)
    first, last = ((centre - half) * side).round(), ((centre + half) * side).round()
    return (places >= first[:, None]) & (places < last[:, None])


def _beta(strengths: Float[Tensor, " batch"], stream: torch.Generator) -> Float[Tensor, " batch"]:
    """Draw from Beta(a, a) by the logarithms of two gamma variates, so that a small `a` does not underflow."""
    gammas = torch._standard_gamma((strengths + 1.0).expand(2, -1).contiguous(), generator=stream).log()
    gammas = gammas + torch.rand(2, len(strengths), generator=stream).log() / strengths
    return torch.softmax(gammas.double(), 0)[0].float()


def _draws(plan: Plan, purpose: str, rows: int) -> Float[Tensor, "rows batch"]:
    """Uniform draws for the whole batch, of which this process's part is returned."""
    draws = torch.rand(rows, plan.size, generator=generator(plan.seed, purpose))
    return draws[:, plan.first : plan.first + len(plan.rows)]


def _whole(draws: Float[Tensor, " batch"], below: int) -> Int[Tensor, " batch"]:
    return (draws * below).long().clamp_max(below - 1)
