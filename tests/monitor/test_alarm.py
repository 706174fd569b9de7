"""The alarm: its value against brute force, its guarantee by enumeration and by simulation, its bookkeeping."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from advshift.errors import InputError
from advshift.monitor.alarm import (
    BLOCK,
    LIVES,
    SHARES,
    STRENGTHS,
    Alarm,
    _log_path,
    _log_values,
    log_shtarkov,
    make_alarm,
)


def shtarkov_by_hand(size: int, groups: int) -> float:
    """The sum over all counts."""
    total = 0.0
    for counts in product(range(size + 1), repeat=groups - 1):
        rest = size - sum(counts)
        if rest >= 0:
            every = [*counts, rest]
            ways = factorial(size) / prod(factorial(one) for one in every)
            total += ways * prod((one / size) ** one for one in every)
    return total


@pytest.mark.parametrize(("size", "groups"), [(1, 2), (7, 2), (6, 3), (5, 5)])
def test_shtarkov_sum(size: int, groups: int) -> None:
    assert np.exp(log_shtarkov(size, groups)) == pytest.approx(shtarkov_by_hand(size, groups))


def log_value_by_hand(counts: np.ndarray, stream: list[int]) -> float:
    """`log M`: the forecast example by example, the maximum over `p` by a search."""
    groups, size = len(counts), counts.sum()
    mean = (counts + 0.5) / (size + 0.5 * groups)
    forecast = 0.0
    for strength in STRENGTHS:
        seen, chance = np.zeros(groups), 1.0
        for example in stream:
            chance *= (seen[example] + strength * mean[example]) / (seen.sum() + strength)
            seen[example] += 1
        forecast += chance / len(STRENGTHS)
    found = np.bincount(stream, minlength=groups)
    value = 0.0
    for share in SHARES:

        def negative(free: np.ndarray, share: float = share) -> float:
            logits = np.append(free, 0.0)
            shares = logits - np.log(np.exp(logits).sum())
            return -float((found + share * counts) @ shares)

        best = minimize(negative, np.zeros(groups - 1), tol=1e-12).fun
        known = share * float((counts * np.log(np.maximum(counts, 1e-300) / size)).sum())
        price = max((1.0 - share) ** (groups - 1), shtarkov_by_hand(int(size), groups) ** -share)
        value += price * np.exp(known + best) / len(SHARES)
    return float(np.log(forecast) + np.log(value))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.lists(st.integers(0, 12), min_size=3, max_size=3))
def test_value_is_that_of_the_definition(stream: list[int], counts: list[int]) -> None:
    source = np.array(counts) + 1
    alarm = Alarm(source.astype(float), np.arange(3), 0.01, 1e6)
    state, _ = alarm.update(alarm.start(), np.array(stream))
    assert alarm.log_test(state) == pytest.approx(log_value_by_hand(source, stream), abs=1e-5)


def test_path_within_a_block_is_that_of_single_examples() -> None:
    generator = np.random.default_rng(0)
    alarm = make_alarm(generator.integers(0, 5, 300), 5, alpha=1e-9, run_length=1e9)
    stream = generator.integers(0, 5, BLOCK)
    whole, _ = alarm.update(alarm.start(), stream)
    path = _log_path(alarm, np.zeros((1, 5), dtype=int), stream)[0]
    for seen in range(1, BLOCK + 1):
        counts = np.bincount(stream[:seen], minlength=5)
        assert path[seen - 1] == pytest.approx(_log_values(alarm, counts[None])[0])
    assert alarm.log_test(whole) == pytest.approx(path[-1])


@pytest.mark.parametrize(("size", "length"), [(1, 3), (4, 3), (12, 6)])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5])
def test_mean_over_source_and_stream_is_at_most_one(size: int, length: int, share: float) -> None:
    """The guarantee, by enumeration of all sources and streams of two groups."""
    chance = np.array([share, 1.0 - share])
    mean = 0.0
    for first in range(size + 1):
        counts = np.array([first, size - first], dtype=float)
        alarm = Alarm(counts, np.arange(2), 0.01, 1e9)
        weight = comb(size, first) * float(np.prod(chance**counts))
        for stream in product(range(2), repeat=length):
            state, _ = alarm.update(alarm.start(), np.array(stream))
            mean += weight * float(np.prod(chance[list(stream)])) * np.exp(alarm.log_test(state))
    assert mean <= 1.0 + 1e-12


@given(st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=30), st.integers(0, 2**31))
def test_weights_never_exceed_the_number_of_examples(sizes: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    alarm = make_alarm(generator.integers(0, 3, 200), 3, run_length=1e12)
    state, total = alarm.start(), 0
    for size in sizes:
        state, _ = alarm.update(state, generator.integers(0, 3, size))
        total += size
        assert state.counts.sum() == total
        assert state.starts.weights.sum() <= total
        assert (np.diff(state.starts.places) > 0).all()


def test_number_of_starts_grows_as_a_logarithm() -> None:
    generator = np.random.default_rng(0)
    alarm = make_alarm(generator.integers(0, 2, 100), 2, run_length=1e12)
    state, _ = alarm.update(alarm.start(), generator.integers(0, 2, 400 * BLOCK))
    numbers = state.starts.numbers
    assert len(numbers) <= LIVES * (2 + np.log2(400))
    ages = np.sort(400 - numbers)
    assert all((ages[1:] <= 2 * ages[:-1] + LIVES).tolist())  # a start near every possible change


def test_a_change_is_seen_and_its_place_found() -> None:
    generator = np.random.default_rng(1)
    usual, other = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    alarm = make_alarm(generator.choice(3, 2000, p=usual), 3, run_length=1e5)
    state, before = alarm.update(alarm.start(), generator.choice(3, 3000, p=usual))
    assert not before
    _, after = alarm.update(state, generator.choice(3, 400, p=other))
    assert after[0].form == "detector"
    assert 3000 < after[0].example < 3200
    assert 2800 <= after[0].since <= 3100


def test_the_test_rings_once_and_the_detector_begins_anew() -> None:
    alarm = make_alarm(np.arange(1000) % 2, 2, alpha=0.01, run_length=1e4)
    state, raised = alarm.update(alarm.start(), np.zeros(1000, dtype=int))
    assert [one.form for one in raised].count("test") == 1
    assert state.alarms == [one.form for one in raised].count("detector") > 1
    assert state.test_alarm == next(one.example for one in raised if one.form == "test")
    changes = [one for one in raised if one.form == "detector"]
    assert all(first.since < first.example <= second.since for first, second in pairwise(changes))


@pytest.mark.parametrize("size", [20, 200])
def test_false_alarms_are_rare_even_with_a_small_source(size: int) -> None:
    """With alpha 0.2 at most a fifth of the streams may ever ring; runs must last 200 examples on average."""
    rung, alarms, seen = 0, 0, 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        usual = generator.dirichlet(np.ones(4))
        alarm = make_alarm(generator.choice(4, size, p=usual), 4, alpha=0.2, run_length=200)
        state, _ = alarm.update(alarm.start(), generator.choice(4, 2000, p=usual))
        rung += state.test_alarm > 0
        alarms, seen = alarms + state.alarms, seen + 2000
    assert rung <= 0.2 * 60
    assert alarms <= seen / 200


def test_many_classes_share_groups() -> None:
    alarm = make_alarm(np.arange(500) % 100, 100)
    assert len(alarm.counts) == 32
    assert alarm.counts.sum() == 500
    state, _ = alarm.update(alarm.start(), np.array([99, 3]))
    assert state.counts[[3]] == 2


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.0}, {"run_length": 1.0}, {"run_length": np.inf}])
def test_rates_must_be_possible(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"alpha|run length"):
        make_alarm(np.zeros(3, dtype=int), 2, **wrong)
