"""Class sums against a plain loop, in both libraries, and their merging."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from advshift.errors import InputError
from advshift.numerics.backend import BLOCK, dot
from advshift.numerics.classwise import add_class_sums, class_means, class_sums

RNG = np.random.default_rng(0)
VALUES, LABELS = RNG.normal(size=50), RNG.integers(0, 6, size=50)
SOFT = RNG.dirichlet(np.ones(7), size=50)


def test_hard_labels_match_a_loop() -> None:
    sums, counts = [0.0] * 7, [0.0] * 7
    for value, label in zip(VALUES, LABELS, strict=True):
        sums[label] += value
        counts[label] += 1
    for found in (
        class_sums(VALUES, LABELS, 7),
        class_sums(torch.from_numpy(VALUES), torch.from_numpy(LABELS), 7),
    ):
        np.testing.assert_allclose(found.sums, sums, atol=1e-12)
        np.testing.assert_array_equal(found.counts, counts)


def test_soft_labels_match_the_matrix_product() -> None:
    for found in (class_sums(VALUES, SOFT, 7), class_sums(torch.from_numpy(VALUES), torch.from_numpy(SOFT), 7)):
        np.testing.assert_allclose(found.sums, VALUES @ SOFT, atol=1e-12)
        np.testing.assert_allclose(found.counts, SOFT.sum(0), atol=1e-12)


def test_one_hot_soft_labels_are_hard_labels() -> None:
    one, other = class_sums(VALUES, np.eye(7)[LABELS], 7), class_sums(VALUES, LABELS, 7)
    np.testing.assert_allclose(one.sums, other.sums, atol=1e-12)
    np.testing.assert_allclose(one.counts, other.counts, atol=1e-12)


def test_parts_add_up() -> None:
    parts = [class_sums(VALUES[a:b], LABELS[a:b], 7) for a, b in ((0, 9), (9, 10), (10, 50))]
    np.testing.assert_allclose(sum(part.sums for part in parts), class_sums(VALUES, LABELS, 7).sums, atol=1e-12)


def test_left_out_examples_do_not_count() -> None:
    table = torch.zeros(2, 3)
    add_class_sums(table, torch.tensor([1.0, 0.0, 4.0]), torch.tensor([1.0, 0.0, 1.0]), torch.tensor([2, 1, 2]))
    assert table.tolist() == [[0.0, 0.0, 5.0], [0.0, 0.0, 2.0]]


def test_dtype_is_kept_and_empty_classes_have_mean_zero() -> None:
    found = class_sums(VALUES.astype(np.float32), LABELS, 7)
    assert found.sums.dtype == found.counts.dtype == np.float32
    assert class_means(*found)[6] == 0.0
    assert class_means(*found)[0] == pytest.approx(VALUES[LABELS == 0].mean(), rel=1e-5)


def test_wrong_width_of_soft_labels() -> None:
    with pytest.raises(InputError, match="got 7 columns for 6 classes"):
        class_sums(VALUES, SOFT, 6)


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 3 * BLOCK - 5])
def test_long_products_are_summed_in_blocks(size: int) -> None:
    first, second = RNG.normal(size=size), RNG.normal(size=size)
    found = dot(first, second)
    assert np.ndim(found) == 0
    assert float(found) == pytest.approx(math.fsum(first * second), rel=1e-9, abs=1e-9)
