"""Batches: every example once, the same from any position and over any number of processes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from advshift.data import Augmentation, Batch, MemorySplit, eval_batches, steps_per_epoch, train_batches

CPU = torch.device("cpu")
AUGMENT = Augmentation(crop=2, flip=True, cutout=3)


def _split(count: int = 37) -> MemorySplit:
    stream = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 8, 8, 3), dtype=torch.uint8, generator=stream)
    return MemorySplit(images, torch.arange(count) % 5, torch.arange(100, 100 + count))


def _train(split: MemorySplit, **changes: Any) -> list[Batch]:
    options: dict[str, Any] = {
        "batch_size": 8,
        "seed": 1,
        "epoch": 0,
        "start": 0,
        "augment": AUGMENT,
        "num_classes": 5,
        "rank": 0,
        "world": 1,
        "normalise": (torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])),
        "device": CPU,
        "channels_last": False,
        "workers": 0,
    }
    return list(train_batches(split, **(options | changes)))


def _same(a: list[Batch], b: list[Batch]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True)
    )


def test_an_epoch_takes_every_example_once_in_its_own_order() -> None:
    split = _split()
    first, second = (_train(split, epoch=epoch) for epoch in (0, 1))
    orders = [torch.cat([batch.ids for batch in batches]).tolist() for batches in (first, second)]
    assert [sorted(order) for order in orders] == [split.ids.tolist()] * 2
    assert orders[0] != orders[1]
    assert [len(batch.ids) for batch in first] == [8, 8, 8, 8, 5]
    assert len(first) == steps_per_epoch(split, 8)
    for batch in first:
        assert torch.equal(batch.labels, split.labels[batch.ids - 100])


@pytest.mark.parametrize("start", [1, 4, 5])
def test_going_on_from_any_step_gives_the_same(start: int) -> None:
    split = _split()
    assert _same(_train(split)[start:], _train(split, start=start))


@pytest.mark.parametrize("world", [2, 3, 7])
def test_processes_share_what_one_would_see(world: int) -> None:
    """The last batch, of 5, leaves some of 7 processes nothing."""
    split, whole = _split(), _train(_split())
    parts = [_train(split, rank=rank, world=world) for rank in range(world)]
    for step, batch in enumerate(whole):
        for field in range(3):
            assert torch.equal(torch.cat([part[step][field] for part in parts]), batch[field])


def test_normalisation_and_memory_formats() -> None:
    split = _split()
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    for channels_last in (False, True):
        batch = _train(split, augment=Augmentation(), channels_last=channels_last)[0]
        raw = split.inputs[batch.ids - 100].permute(0, 3, 1, 2) / 255
        torch.testing.assert_close(batch.inputs, (raw - mean[:, None, None]) / std[:, None, None])
        layout = torch.channels_last if channels_last else torch.contiguous_format
        assert batch.inputs.is_contiguous(memory_format=layout)


def test_features_are_normalised_and_never_augmented() -> None:
    split = MemorySplit(torch.randn(20, 4), torch.arange(20) % 2, torch.arange(20))
    augment = Augmentation(crop=1, flip=True, cutout=1, mixup=1.0)
    mean, std = torch.arange(4.0), torch.full((4,), 2.0)
    for batch in _train(split, augment=augment, normalise=(mean, std)):
        torch.testing.assert_close(batch.inputs, (split.inputs[batch.ids] - mean) / 2)
        assert batch.labels.dtype == torch.int64


@pytest.mark.parametrize("world", [1, 2, 5, 40])
def test_evaluation_counts_every_example_once(world: int) -> None:
    split = _split()
    common: dict[str, Any] = {
        "batch_size": 4,
        "normalise": (torch.zeros(3), torch.ones(3)),
        "device": CPU,
        "channels_last": True,
        "workers": 0,
    }
    batches = [batch for rank in range(world) for batch in eval_batches(split, rank=rank, world=world, **common)]
    assert torch.cat([batch.ids for batch in batches]).tolist() == split.ids.tolist()
    assert all(0 < len(batch.ids) <= 4 for batch in batches)


def test_mixed_labels_are_soft() -> None:
    batch = _train(_split(), augment=Augmentation(mixup=0.5))[0]
    assert batch.labels.shape == (8, 5)
    torch.testing.assert_close(batch.labels.sum(1), torch.ones(8))


def test_cutout_sets_the_mean() -> None:
    batch = _train(_split(), augment=Augmentation(cutout=5))[0]
    assert ((batch.inputs == 0).all(1).flatten(1).sum(1) >= 9).all()
