from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from advshift.sets import KLBall
from advshift.testing.oracle import worst_case_by_solver
from advshift.training.history import History, summary
from advshift.training.tally import ClassResults, Tally


def test_batches_add_up_to_a_loop_over_examples() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, generator=generator)
    labels = torch.randint(0, 3, (50,), generator=generator)  # class 3 never comes
    tally = Tally(4, torch.device("cpu"))
    for part in range(0, 50, 7):
        tally.add(logits[part : part + 7], labels[part : part + 7])
    found = tally.results()
    for y in range(4):
        rows = [row for row in range(50) if int(labels[row]) == y]
        assert found.counts[y] == len(rows)
        assert found.errors[y] == sum(int(logits[row].argmax()) != y for row in rows)
        if rows:
            losses = [float(functional.cross_entropy(logits[row], labels[row])) for row in rows]
            assert found.losses[y] == pytest.approx(np.mean(losses), rel=1e-6)
    assert np.isnan(found.losses[3])
    assert np.isnan(found.risks[3])
    assert found.loss == pytest.approx(float(functional.cross_entropy(logits, labels)), rel=1e-6)
    assert found.error == pytest.approx(float((logits.argmax(dim=1) != labels).float().mean()))


def test_a_soft_label_counts_for_its_largest_class() -> None:
    tally = Tally(2, torch.device("cpu"))
    tally.add(torch.tensor([[0.0, 3.0]]), torch.tensor([[0.3, 0.7]]))
    found = tally.results()
    assert found.counts.tolist() == [0.0, 1.0]
    assert found.errors.tolist() == [0.0, 0.0]


def test_the_summary_is_the_exact_worst_case_on_the_classes_that_are_there() -> None:
    results = ClassResults(np.array([10.0, 20.0, 0.0]), np.array([1.0, 8.0, 0.0]), np.array([0.1, 0.9, np.nan]))
    reference = np.array([0.5, 0.2, 0.3])
    found = summary(results, reference, [0.0, 0.1])
    value, _ = worst_case_by_solver(KLBall(0.1), np.array([0.1, 0.4]), np.array([5.0, 2.0]) / 7.0)
    assert found["worst_case"]["0.1"] == pytest.approx(value, abs=1e-6)
    assert found["worst_case"]["0"] == pytest.approx((0.1 * 5 + 0.4 * 2) / 7)
    assert found["worst_class_error"] == pytest.approx(0.4)
    assert found["error"] == pytest.approx(9 / 30)
    nothing = ClassResults(np.zeros(3), np.zeros(3), np.full(3, np.nan))
    assert set(summary(nothing, reference, [0.1])) == {"loss", "error"}


def test_a_history_survives_a_checkpoint() -> None:
    history = History()
    results = ClassResults(np.array([3.0, 1.0]), np.array([1.0, 0.0]), np.array([0.5, np.nan]))
    for epoch in (1, 2):
        history.add({"epoch": epoch, "loss": 0.1 * epoch}, {"test": results}, distribution=np.array([0.5, 0.5]))
    again = History.from_state(history.state())
    assert again.rows == history.rows
    assert again.arrays.keys() == history.arrays.keys()
    for name, rows in history.arrays.items():
        np.testing.assert_array_equal(np.stack(again.arrays[name]), np.stack(rows))
    assert again.arrays["epochs"] == [1, 2]
