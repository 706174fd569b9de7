"""Augmentation against loops over images written by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

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
    draws = _beta(torch.full((2000,), strength), torch.Generator().manual_seed(1)).numpy()
    assert np.isfinite(draws).all()
    low = draws[draws < 0.5]  # the other half has values that round to 1
    assert 900 < len(low) < 1100
    cdf = scipy.stats.beta(strength, strength).cdf
    assert scipy.stats.kstest(low, lambda x: 2 * cdf(x)).pvalue > 1e-3


def _shares(mixed: torch.Tensor, size: int) -> torch.Tensor:
    """How much of each image's pixels comes from which image, where image i shows the number i everywhere."""
    return torch.stack(
        [torch.bincount(image[0].flatten().long(), minlength=size) / image[0].numel() for image in mixed]
    )


def _numbered(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(size)
    return labels.float()[:, None, None, None].expand(size, 3, 6, 10).contiguous(), labels


def test_mixup_blends_each_image_by_a_share_of_its_own() -> None:
    images = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    mixed, soft = mix(images, torch.arange(7), Augmentation(mixup=1.0), 7, _plan(7))
    for index in range(6):
        share = float(soft[index, index])
        assert 0.0 < share < 1.0
        torch.testing.assert_close(float(soft[index, index ^ 1]), 1.0 - share)
        torch.testing.assert_close(mixed[index], share * images[index] + (1 - share) * images[index ^ 1])
    assert len(set(soft.diag().tolist())) == 7
    assert torch.equal(mixed[6], images[6])  # without a neighbour
    assert soft[6].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_the_shares_of_an_epoch_are_those_of_the_distribution() -> None:
    images, labels = _numbered(64)
    soft = torch.cat(
        [mix(images, labels, Augmentation(mixup=0.4), 64, _plan(64, seed))[1].diag() for seed in range(40)]
    )
    assert scipy.stats.kstest(soft.numpy(), scipy.stats.beta(0.4, 0.4).cdf).pvalue > 1e-3


def test_cutmix_pastes_a_window_of_its_own_and_weighs_labels_by_the_pixels() -> None:
    images, labels = _numbered(8)
    windows = set()
    for seed in range(20):
        mixed, soft = mix(images, labels, Augmentation(cutmix=1.0), 8, _plan(8, seed))
        torch.testing.assert_close(soft, _shares(mixed, 8))
        for index in range(8):
            pasted = mixed[index, 0] != index
            assert set(mixed[index].unique().tolist()) <= {index, index ^ 1}
            rows, columns = pasted.any(1).nonzero().flatten().tolist(), pasted.any(0).nonzero().flatten().tolist()
            assert int(pasted.sum()) == len(rows) * len(columns)  # a rectangle
            assert rows == list(range(rows[0], rows[-1] + 1)) if rows else True
            windows.add((tuple(rows), tuple(columns)))
    assert len(windows) > 60
    assert torch.equal(images[:, 0, 0, 0], labels.float())  # the batch itself is left alone


def test_the_area_of_a_window_is_the_share_where_nothing_is_cut_off() -> None:
    images = torch.zeros(2000, 1, 64, 64)
    images[1::2] = 1.0
    pasted = (mix(images, torch.zeros(2000).long(), Augmentation(cutmix=1.0), 2, _plan(2000))[0] != images)[:, 0]
    inner = ~(pasted[:, 0].any(1) | pasted[:, -1].any(1) | pasted[:, :, 0].any(1) | pasted[:, :, -1].any(1))
    areas = pasted[inner].float().mean((1, 2)).numpy()
    # Given that a square of area a lies inside, its density is that of a uniform share times (1 - √a)².
    cdf = lambda a: (a - 4 / 3 * a**1.5 + a**2 / 2) / (1 / 6)  # noqa: E731
    assert len(areas) > 200
    assert float(np.abs(np.sort(areas) - _quantiles(cdf, len(areas))).max()) < 0.12


def _quantiles(cdf: Any, count: int) -> np.ndarray:
    grid = np.linspace(0, 1, 10_001)
    return np.interp((np.arange(count) + 0.5) / count, cdf(grid), grid)


def test_both_mixings_in_one_batch() -> None:
    images, labels = torch.rand(200, 3, 8, 8), torch.arange(200)
    mixed, _ = mix(images, labels, Augmentation(mixup=1.0, cutmix=1.0), 200, _plan(200))
    neighbours = images[labels ^ 1]
    pasted = ((mixed == images) | (mixed == neighbours)).all(1).flatten(1).all(1)
    assert 70 < int(pasted.sum()) < 130


@pytest.mark.parametrize("cuts", [(0, 8, 16), (0, 4, 10, 16), (0, 5, 16)])
@pytest.mark.parametrize("augment", [Augmentation(mixup=0.5), Augmentation(mixup=0.5, cutmix=1.0)])
def test_processes_mix_as_one(cuts: tuple[int, ...], augment: Augmentation) -> None:
    images, labels = torch.rand(16, 3, 6, 6), torch.arange(16)
    whole, soft = mix(images, labels, augment, 16, _plan(16))
    for first, last in itertools.pairwise(cuts):
        part = slice(first, last)
        mixed, labels_of_part = mix(images[part], labels[part], augment, 16, Plan(labels[part], 5, first, 16))
        apart = [place for place in range(first, last) if not first <= place ^ 1 < last]
        for place in range(first, last):
            if place in apart:
                assert torch.equal(mixed[place - first], images[place])
                assert float(labels_of_part[place - first, place]) == 1.0
            else:
                assert torch.equal(mixed[place - first], whole[place])
                assert torch.equal(labels_of_part[place - first], soft[place])
        assert (len(apart) > 0) == bool(first % 2 or last % 2)


def test_mixing_leaves_empty_parts_empty() -> None:
    images, labels = mix(
        torch.zeros(0, 3, 4, 4), torch.zeros(0, dtype=torch.long), Augmentation(mixup=1.0), 3, _plan(0)
    )
    assert images.shape == (0, 3, 4, 4)
    assert labels.shape == (0, 3)


def test_small_strengths_do_not_underflow() -> None:
    draws = _beta(torch.full((200,), 1e-3), torch.Generator().manual_seed(0)).tolist()
    assert all(math.isfinite(draw) and 0.0 <= draw <= 1.0 for draw in draws)
