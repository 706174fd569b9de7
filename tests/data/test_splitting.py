"""Cuts and thinning: stratified, disjoint, from a seed, and no example twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from advshift.data.splitting import class_profile, counts_for_prior, cut, thin
from advshift.errors import InputError

CLASS_COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def _labels(counts: list[int]) -> torch.Tensor:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]


@given(CLASS_COUNTS, st.floats(0.0, 0.99), st.integers(0, 3))
def test_a_cut_is_disjoint_whole_and_stratified(counts: list[int], share: float, seed: int) -> None:
    labels = _labels(counts)
    stay, off = cut(labels, share, seed, "test")
    assert sorted([*stay.tolist(), *off.tolist()]) == list(range(len(labels)))
    left = torch.bincount(labels[stay], minlength=len(counts))
    assert (left >= 1).all()
    taken = torch.bincount(labels[off], minlength=len(counts)).numpy()
    exact = np.array(counts) * share
    limit = np.minimum(np.floor(exact) + 1, np.array(counts) - 1)
    assert (taken >= np.minimum(np.floor(exact), np.array(counts) - 1)).all()
    assert (taken <= limit).all()
    if (np.array(counts) - 1 >= np.floor(exact) + 1).all():
        assert len(off) == round(exact.sum())


def test_a_cut_depends_on_seed_and_purpose_alone() -> None:
    labels = _labels([30, 20])
    first = cut(labels, 0.3, 0, "validation")[1].tolist()
    assert cut(labels, 0.3, 0, "validation")[1].tolist() == first
    assert cut(labels, 0.3, 1, "validation")[1].tolist() != first
    assert cut(labels, 0.3, 0, "test")[1].tolist() != first


def test_a_larger_share_holds_the_smaller() -> None:
    labels = _labels([30, 20, 50])
    small, large = (set(cut(labels, share, 0, "validation")[1].tolist()) for share in (0.1, 0.4))
    assert small < large


@given(CLASS_COUNTS, st.data())
def test_thinning_takes_the_counts_without_repeats(counts: list[int], data: st.DataObject) -> None:
    wanted = [data.draw(st.integers(0, count)) for count in counts]
    labels = _labels(counts)
    rows = thin(labels, wanted, 0)
    assert len(set(rows.tolist())) == len(rows)
    assert torch.bincount(labels[rows], minlength=len(counts)).tolist() == wanted
    assert rows.tolist() == sorted(rows.tolist())


def test_thinning_more_than_there_is() -> None:
    with pytest.raises(InputError, match="class 1 has 2 training examples, fewer than the 3"):
        thin(torch.tensor([0, 1, 1]), [1, 3], 0)


def test_profiles_of_the_literature() -> None:
    """Cao et al. (2019), the authors' `get_img_num_per_cls`: int(n · μ^(i/(C-1))), and halves for the step."""
    for ratio in (10.0, 100.0):
        expected = [int(500 * (1 / ratio) ** (i / 99.0)) for i in range(100)]
        found = class_profile("exponential", [500] * 100, ratio)
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 1
        assert (found[0], found[-1]) == (500, int(500 / ratio))
        assert class_profile("step", [500] * 100, ratio) == [500] * 50 + [int(500 / ratio)] * 50
    assert class_profile("exponential", [7], 10.0) == [7]


@given(st.lists(st.integers(5, 60), min_size=2, max_size=6), st.data())
def test_counts_for_prior_are_the_largest_set_of_that_mix(available: list[int], data: st.DataObject) -> None:
    prior = [data.draw(st.floats(0.5, 1.0)) for _ in available]
    counts = counts_for_prior(prior, available)
    shares = np.array(prior) / sum(prior)
    assert all(count <= have for count, have in zip(counts, available, strict=True))
    total = min(have / share for have, share in zip(available, shares, strict=True))
    assert np.abs(np.array(counts) - total * shares).max() <= 1.0  # within rounding
    assert any(count == have for count, have in zip(counts, available, strict=True))  # one class is used up


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        ([0.5, 0.5], "one share for each of the 3"),
        ([0.0, 0.0, 0.0], "not all 0"),
        ([1.0, -1.0, 1.0], "from 0 up"),
        ([1.0, np.nan, 1.0], "from 0 up"),
        ([1.0, 1.0, 1e-9], "less than one"),
    ],
)
def test_priors_that_cannot_be(prior: list[float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        counts_for_prior(prior, [10, 10, 10])


def test_a_prior_may_leave_a_class_out() -> None:
    assert counts_for_prior([1.0, 0.0, 3.0], [10, 10, 10]) == [3, 0, 10]
