"""Class mixes and the rows that have them: within rounding, without repeats, from the generator alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from advshift.data.shifts import dirichlet, draw, long_tail, minority, rounded_counts, tweak_one
from advshift.errors import InputError


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _labels(counts: list[int]) -> torch.Tensor:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=_generator())]


COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=8)
SHARES = st.floats(0.01, 1.0)


@given(COUNTS, st.data())
def test_the_largest_draw_has_the_mix_and_no_repeats(counts: list[int], data: st.DataObject) -> None:
    labels = _labels(counts)
    mix = torch.tensor([data.draw(SHARES) for _ in counts], dtype=torch.float64)
    mix = mix / mix.sum()
    rows = draw(labels, mix, _generator())
    assert len(set(rows.tolist())) == len(rows)
    found = torch.bincount(labels[rows], minlength=len(counts))
    assert ((found - mix * len(rows)).abs() < 1.0 + 1e-6).all()
    # One more would not fit: no larger set of that mix has enough examples.
    more = rounded_counts(mix, len(rows) + 1)
    bound = min(count / share for count, share in zip(counts, mix.tolist(), strict=True))
    assert bool((more > torch.tensor(counts)).any()) or len(rows) + 1 > bound


@given(COUNTS, st.integers(0, 60), st.booleans(), st.data())
def test_a_draw_of_a_size(counts: list[int], size: int, replace: bool, data: st.DataObject) -> None:
    labels = _labels(counts)
    mix = torch.tensor([data.draw(SHARES) for _ in counts])
    wanted = rounded_counts(mix, size)
    if not replace and bool((wanted > torch.tensor(counts)).any()):
        with pytest.raises(InputError, match="replace=True"):
            draw(labels, mix, _generator(), size=size)
        return
    rows = draw(labels, mix, _generator(), size=size, replace=replace)
    assert len(rows) == size
    assert torch.bincount(labels[rows], minlength=len(counts)).tolist() == wanted.tolist()
    assert replace or len(set(rows.tolist())) == size


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10).filter(lambda mix: sum(mix) > 1e-3), st.integers(0, 1000))
def test_rounding_keeps_the_sum_and_stays_within_one(mix: list[float], size: int) -> None:
    counts = rounded_counts(mix, size)
    assert int(counts.sum()) == size
    exact = np.array(mix) / sum(mix) * size
    assert np.abs(counts.numpy() - exact).max() < 1.0 + 1e-6


def test_draws_come_from_the_generator_alone() -> None:
    labels = _labels([20, 20, 20])
    before = torch.get_rng_state()
    first, again, other = (draw(labels, [1, 2, 1], _generator(seed)).tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before)


def test_every_row_is_as_likely() -> None:
    labels, stream = _labels([10, 5]), _generator()
    times = torch.zeros(15)
    for _ in range(600):
        times[draw(labels, [0.5, 0.5], stream, size=4)] += 1
    expected = torch.where(labels == 0, 600 * 2 / 10, 600 * 2 / 5)
    assert scipy.stats.chisquare(times[labels == 0], expected[labels == 0]).pvalue > 1e-3
    assert scipy.stats.chisquare(times[labels == 1], expected[labels == 1]).pvalue > 1e-3


@pytest.mark.parametrize("concentration", [0.1, 1.0, 10.0])
def test_dirichlet_has_beta_margins(concentration: float) -> None:
    stream = _generator(2)
    draws = torch.stack([dirichlet(5, concentration, stream) for _ in range(1500)]).numpy()
    np.testing.assert_allclose(draws.sum(1), 1.0)
    margin = scipy.stats.beta(concentration, 4 * concentration)
    assert scipy.stats.kstest(draws[:, 2], margin.cdf).pvalue > 1e-3
    assert scipy.stats.spearmanr(draws[:, 0], draws[:, 1]).statistic < 0.0


def test_tiny_concentrations_leave_one_class() -> None:
    mixes = torch.stack([dirichlet(10, 1e-4, _generator(seed)) for seed in range(50)])
    assert torch.isfinite(mixes).all()
    torch.testing.assert_close(mixes.max(1).values, torch.ones(50, dtype=torch.float64))
    assert len(set(mixes.argmax(1).tolist())) > 5


@given(st.integers(1, 12), st.data())
def test_all_mixes_are_distributions(classes: int, data: st.DataObject) -> None:
    share, ratio = data.draw(st.floats(0.0, 1.0)), data.draw(st.floats(1.0, 1000.0))
    rare = data.draw(st.integers(0, classes - 1))
    counts = data.draw(st.lists(st.integers(1, 50), min_size=classes, max_size=classes))
    mixes = [
        tweak_one(classes, rare, share),
        minority(classes, rare, share / max(rare, 1), _generator()),
        long_tail(counts, ratio, "forward"),
        long_tail(counts, ratio, "backward"),
        dirichlet(classes, ratio, _generator()),
    ]
    for mix in mixes:
        assert mix.shape == (classes,)
        assert float(mix.min()) >= 0.0
        assert float(mix.sum()) == pytest.approx(1.0)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=10), st.floats(1.0, 500.0))
def test_long_tails_follow_the_training_counts(counts: list[int], ratio: float) -> None:
    forward, backward = (long_tail(counts, ratio, direction) for direction in ("forward", "backward"))
    assert float(forward.max() / forward.min()) == pytest.approx(ratio)
    by_count = sorted(range(len(counts)), key=lambda index: -counts[index])
    assert forward[by_count].tolist() == sorted(forward.tolist(), reverse=True)
    assert backward[by_count].tolist() == sorted(backward.tolist())
    np.testing.assert_allclose(np.sort(forward.numpy()), np.sort(backward.numpy()))


def test_minority_draws_which_classes_are_rare() -> None:
    chosen = {tuple((minority(6, 2, 0.01, _generator(seed)) < 0.1).nonzero().flatten().tolist()) for seed in range(100)}
    assert len(chosen) > 10
    assert all(len(pair) == 2 for pair in chosen)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dirichlet(0, 1.0, _generator()), "at least one class"),
        (lambda: dirichlet(3, 0.0, _generator()), "concentration must be a number above 0"),
        (lambda: tweak_one(3, 3, 0.5), "from 0 to 2; got 3"),
        (lambda: tweak_one(3, 0, 1.5), "a share must be from 0 to 1"),
        (lambda: minority(3, 3, 0.1, _generator()), "from 0 to 2; got 3"),
        (lambda: minority(5, 4, 0.5, _generator()), "take at most 0.25"),
        (lambda: long_tail([1, 2], 0.5, "forward"), "from 1 up"),
        (lambda: draw(torch.tensor([0, 1]), [1.0], _generator()), "classes from 0 to 0"),
        (lambda: draw(torch.tensor([0, 0]), [1.0, 1.0], _generator()), "share of class 1, which has no example"),
        (lambda: draw(torch.tensor([0, 1]), [0.0, 0.0], _generator()), "not all 0"),
        (lambda: draw(torch.tensor([0, 1]), [1.0, -1.0], _generator()), "from 0 up"),
        (lambda: draw(torch.tensor([0, 1]), [1.0, float("nan")], _generator()), "from 0 up"),
    ],
)
def test_what_cannot_be(call: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call()  # type: ignore[operator]
