"""Augmentation against loops over images written by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch.nn import functional

from advshift.data import Augmentation, Plan, generator
from advshift.data.augmentation import _beta, crop_and_flip, cutout, mix


def _images(batch: int, height: int, width: int, channels: int = 3) -> torch.Tensor:
    stream = torch.Generator().manual_seed(batch)
    return torch.randint(0, 256, (batch, height, width, channels), dtype=torch.uint8, generator=stream)


def _plan(batch: int, seed: int = 5) -> Plan:
    return Plan(torch.arange(batch), seed, 0, batch)


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("crop", [0, 1, 4])
@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9)])
def test_crop_and_flip_by_hand(crop: int, flip: bool, height: int, width: int) -> None:
    images, plan = _images(40, height, width), _plan(40)
    found = crop_and_flip(images, Augmentation(crop=crop, flip=flip), plan)
    draws = torch.rand(3, 40, generator=generator(plan.seed, "crop"))
    assert found.shape == images.shape
    assert found.dtype == torch.uint8
    flips = 0
    for index in range(40):
        padded = np.pad(images[index].numpy(), ((crop, crop), (crop, crop), (0, 0)))
        y, x = int(draws[0, index] * (2 * crop + 1)), int(draws[1, index] * (2 * crop + 1))
        window = padded[y : y + height, x : x + width]
        if flip and draws[2, index] < 0.5:
            window, flips = window[:, ::-1], flips + 1
        np.testing.assert_array_equal(found[index].numpy(), window)
    assert not flip or 8 < flips < 32


def test_nothing_asked_is_nothing_done() -> None:
    images = _images(3, 4, 4)
    assert crop_and_flip(images, Augmentation(), _plan(3)) is images


@pytest.mark.parametrize(
    "augment", [Augmentation(crop=2, flip=True), Augmentation(random_resized_crop=True, flip=True)]
)
def test_parts_of_a_batch_see_the_draws_of_the_whole(augment: Augmentation) -> None:
    images = _images(10, 8, 8)
    whole = crop_and_flip(images, augment, _plan(10))
    parts = [
        crop_and_flip(images[first:last], augment, Plan(torch.arange(first, last), 5, first, 10))
        for first, last in ((0, 4), (4, 4), (4, 10))
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_draws_change_with_the_seed_and_cover_all_offsets() -> None:
    image = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 3, 3, 1).repeat(500, 1, 1, 1)
    found = crop_and_flip(image, Augmentation(crop=1), _plan(500))
    # Centre pixel: one of the nine, each about 500/9 times.
    counts = torch.bincount(found[:, 1, 1, 0].long(), minlength=10)[1:]
    assert (counts > 25).all()
    other = crop_and_flip(image, Augmentation(crop=1), _plan(500, seed=6))
    assert not torch.equal(found, other)


def test_a_resized_crop_is_a_stretched_window() -> None:
    """On an image that is linear in the coordinates, bilinear interpolation gives the window's own coordinates."""
    side, batch = 32, 300
    rows = torch.linspace(0, 248, side).round().to(torch.uint8)
    image = torch.stack((rows[:, None].expand(side, side), rows[None].expand(side, side), torch.zeros(side, side)), 2)
    images = image.to(torch.uint8).expand(batch, -1, -1, -1)
    found = crop_and_flip(images, Augmentation(random_resized_crop=True, flip=True), _plan(batch)).float()
    height = (found[:, -5, :, 0] - found[:, 4, :, 0]).mean(1) / 8 * 32 / (side - 9)
    width = (found[:, :, -5, 1] - found[:, :, 4, 1]).mean(1) / 8 * 32 / (side - 9)
    area, aspect = (height * width.abs() / side**2), width.abs() / height
    assert ((area > 0.05) & (area < 1.1)).all()
    assert ((aspect > 0.6) & (aspect < 1.6)).all()
    assert 100 < int((width < 0).sum()) < 200  # mirrored
    # The published distribution: area uniform from 8 % to 100 %, less what the clamp to the image takes.
    assert 0.4 < float(area.mean()) < 0.6


def test_cutout_by_hand() -> None:
    images, plan = torch.ones(50, 3, 9, 7), _plan(50)
    found = cutout(images, 4, plan)
    draws = torch.rand(2, 50, generator=generator(plan.seed, "cutout"))
    for index in range(50):
        expected = np.ones((3, 9, 7), np.float32)
        y, x = int(draws[0, index] * 9), int(draws[1, index] * 7)
        expected[:, max(0, y - 2) : y + 2, max(0, x - 2) : x + 2] = 0
        np.testing.assert_array_equal(found[index].numpy(), expected)


@pytest.mark.parametrize("strength", [0.05, 0.2, 1.0, 4.0])
def test_the_mixing_weight_is_beta(strength: float) -> None:
    stream = torch.Generator().manual_seed(1)
    draws = np.array([_beta(strength, stream) for _ in range(2000)])
    assert np.isfinite(draws).all()
    low = draws[draws < 0.5]  # the other half has values that round to 1
    assert 900 < len(low) < 1100
    cdf = scipy.stats.beta(strength, strength).cdf
    assert scipy.stats.kstest(low, lambda x: 2 * cdf(x)).pvalue > 1e-3


def test_mixup_blends_images_and_labels_alike() -> None:
    images = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    mixed, soft = mix(images, labels, Augmentation(mixup=1.0), 3, _plan(6))
    stream = generator(5, "mix", 0)
    share, partner = _beta(1.0, stream), torch.randperm(6, generator=stream)
    torch.testing.assert_close(mixed, share * images + (1 - share) * images[partner])
    one_hot = functional.one_hot(labels, 3).float()
    torch.testing.assert_close(soft, share * one_hot + (1 - share) * one_hot[partner])


def test_cutmix_weighs_labels_by_the_pixels() -> None:
    labels = torch.arange(8)
    images = labels.float()[:, None, None, None].expand(8, 3, 6, 10).contiguous()
    seen = set()
    for seed in range(40):
        mixed, soft = mix(images, labels, Augmentation(cutmix=1.0), 8, _plan(8, seed))
        for index in range(8):
            share = torch.bincount(mixed[index, 0].flatten().long(), minlength=8).float() / 60
            torch.testing.assert_close(soft[index], share)
        windows = mixed[0, 0] != 0
        seen.add(int(windows.sum()))
    assert len(seen) > 10
    assert torch.equal(images[:, 0, 0, 0], labels.float())  # the batch itself is left alone


def test_both_mixings_take_turns() -> None:
    images, labels = torch.rand(4, 3, 8, 8), torch.arange(4)
    blends = 0
    for seed in range(60):
        mixed, _ = mix(images, labels, Augmentation(mixup=1.0, cutmix=1.0), 4, _plan(4, seed))
        known = (mixed[:, None] == images[None]).all(2).any(1)  # a pixel of CutMix is a pixel of some image
        blends += not bool(known.all())
    assert 15 < blends < 45


def test_mixing_leaves_empty_parts_empty() -> None:
    images, labels = mix(
        torch.zeros(0, 3, 4, 4), torch.zeros(0, dtype=torch.long), Augmentation(mixup=1.0), 3, _plan(0)
    )
    assert images.shape == (0, 3, 4, 4)
    assert labels.shape == (0, 3)


def test_small_strengths_do_not_underflow() -> None:
    stream = torch.Generator().manual_seed(0)
    draws = [_beta(1e-3, stream) for _ in range(200)]
    assert all(math.isfinite(draw) and 0.0 <= draw <= 1.0 for draw in draws)
