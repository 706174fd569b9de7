from __future__ import annotations

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.priors import shift_test
from advshift.priors.shift_test import _holm


def _p_values(world, draws, move=None, **options):
    prior = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    found = []
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        source, labels = world.draw(generator, world.uniform, 800, every_class=True)
        target, _ = world.draw(generator, prior, 500)
        if move is not None:
            target = move(target, generator)
        found.append(shift_test(source, labels, target, **options))
    return found


@pytest.mark.parametrize(("method", "draws"), [("chi-square", 250), ("bootstrap", 30)])
def test_size(world, method, draws):
    """Under a pure label shift it rejects about as often as its level says."""
    tests = _p_values(world, draws, method=method, replicates=40)
    values = np.array([test.p_value for test in tests])
    rejected = (values <= 0.1).sum()
    assert 0.1 * draws - 4 * np.sqrt(0.09 * draws) <= rejected <= 0.1 * draws + 4 * np.sqrt(0.09 * draws)
    assert np.mean([bool(test.deviating(0.1)) for test in tests]) <= 0.2


def test_size_when_classes_are_missing(world):
    """A class that the target lacks is held at zero: that is no reason to call a prediction deviating."""
    tests = []
    for seed in range(120):
        generator = np.random.default_rng(seed)
        source, labels = world.draw(generator, world.uniform, 800, every_class=True)
        target, _ = world.draw(generator, np.array([0.6, 0.4, 0, 0, 0]), 400)
        tests.append(shift_test(source, labels, target, method="chi-square"))
    assert np.mean([test.p_value <= 0.05 for test in tests]) <= 0.1
    assert np.mean([test.class_p_values.min() <= 0.05 for test in tests]) <= 0.12


def test_no_class_deviates_where_all_together_fit(world):
    for test in _p_values(world, 10, method="chi-square"):
        level = 0.5 * test.p_value
        assert test._replace(class_p_values=np.zeros(5)).deviating(level) == []
        assert test._replace(class_p_values=np.zeros(5)).deviating(test.p_value) == [0, 1, 2, 3, 4]


def test_power_against_a_new_class(world):
    """A fifth of the target comes from somewhere between the classes."""

    def mixed(target, generator):
        chosen = generator.random(len(target)) < 0.2
        target = target.copy()
        target[chosen] = 0.6 / 5 + 0.4 * np.eye(5)[2]
        return target

    tests = _p_values(world, 20, mixed, method="chi-square")
    assert np.mean([test.p_value <= 0.05 for test in tests]) >= 0.9
    assert np.mean([test.deviating()[:1] == [2] for test in tests]) >= 0.8


def test_record_and_methods_agree(world):
    (found,) = _p_values(world, 1, method="bootstrap", replicates=300)
    (limit,) = _p_values(world, 1, method="chi-square")
    assert found.statistic == pytest.approx(limit.statistic)
    assert found.p_value == pytest.approx(limit.p_value, abs=0.15)
    assert found.observed.sum() == pytest.approx(1)
    assert found.expected.sum() == pytest.approx(1)
    assert found.prior == pytest.approx([0.4, 0.25, 0.2, 0.1, 0.05], abs=0.15)


def test_rare_predictions_do_not_break_it():
    """Fifty classes, two examples of most: cells are merged, and a target like the source fits."""
    generator = np.random.default_rng(0)
    labels = np.concatenate([np.arange(50), np.arange(50), generator.integers(0, 5, 500)])
    rows = 0.4 / 50 + 0.6 * np.eye(50)[np.where(generator.random(600) < 0.8, labels, generator.integers(0, 50, 600))]
    found = shift_test(rows, labels, rows[generator.integers(0, 600, 300)], method="chi-square")
    assert found.p_value > 0.01


def test_holm_by_hand():
    assert _holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])


def test_bad_options_are_refused():
    rows = np.array([[0.8, 0.2], [0.3, 0.7]] * 5)
    for options in ({"bins": 1}, {"replicates": 5}):
        with pytest.raises(InputError, match="shift_test needs bins"):
            shift_test(rows, [0, 1] * 5, rows, **options)
    with pytest.raises(InputError, match="class 1 has none"):
        shift_test(rows, [0] * 10, rows)
