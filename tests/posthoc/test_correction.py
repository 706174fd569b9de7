from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.errors import InputError
from advshift.posthoc import correct_logits, correct_probabilities, importance_weights


@given(st.integers(0, 10**6), st.integers(2, 8))
def test_correction_is_bayes_rule_and_undoes_itself(seed, classes):
    generator = np.random.default_rng(seed)
    likelihood = generator.random((6, classes)) + 1e-3
    source, target = generator.dirichlet(np.full(classes, 2.0), size=2) * 0.99 + 0.01 / classes

    def posterior(prior):
        return likelihood * prior / (likelihood * prior).sum(axis=1, keepdims=True)

    corrected = correct_probabilities(posterior(source), source, target)
    assert corrected == pytest.approx(posterior(target))
    assert correct_probabilities(corrected, target, source) == pytest.approx(posterior(source))
    logits = correct_logits(np.log(posterior(source)), source, target)
    odds = np.exp(logits)
    assert odds / odds.sum(axis=1, keepdims=True) == pytest.approx(corrected)


def test_a_missing_class_is_never_predicted():
    logits = correct_logits(np.zeros((2, 3)), [0.2, 0.3, 0.5], [0.5, 0.5, 0.0])
    assert np.isneginf(logits[:, 2]).all()
    with pytest.raises(InputError, match="no probability on any class"):
        correct_probabilities([[0.0, 0.0, 1.0]], [0.2, 0.3, 0.5], [0.5, 0.5, 0.0])


def test_weights_move_the_mean():
    generator = np.random.default_rng(0)
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
    labels = generator.choice(3, 20000, p=source)
    weights = importance_weights(source, target, labels)
    assert weights.mean() == pytest.approx(1, abs=0.02)
    assert np.bincount(labels, weights=weights) / 20000 == pytest.approx(target, abs=0.02)
    assert importance_weights(source, target, largest=1.5).tolist() == pytest.approx([0.2, 1.0, 1.5])


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    rows = torch.tensor([[0.5, 0.5]], dtype=torch.float32, requires_grad=True)
    corrected = correct_probabilities(rows, [0.5, 0.5], [0.2, 0.8])
    corrected[0, 0].backward()
    assert corrected.dtype == torch.float32
    assert rows.grad is not None
    assert correct_logits(torch.zeros(1, 2), [0.5, 0.5], [0.0, 1.0])[0, 0] == -float("inf")
    assert importance_weights(torch.tensor([0.5, 0.5]), [0.2, 0.8], torch.tensor([1, 0])).tolist() == pytest.approx(
        [1.6, 0.4]
    )


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([0.5, 0.5], [0.2, 0.3, 0.5], "one number per class"),
        ([0.5, 0.6], [0.5, 0.5], "source's label distribution must be a distribution"),
        ([0.5, 0.5], [0.5, 0.6], "target's label distribution must be a distribution"),
        ([1.0, 0.0], [0.5, 0.5], "without mass in the source"),
    ],
)
def test_bad_distributions_are_refused(source, target, message):
    with pytest.raises(InputError, match=message):
        importance_weights(source, target)
    with pytest.raises(InputError, match=message):
        correct_probabilities(np.full((1, len(source)), 0.5), source, target)


def test_bad_shapes_and_labels_are_refused():
    with pytest.raises(InputError, match="2 classes along the last axis"):
        correct_logits(np.zeros((2, 3)), [0.5, 0.5], [0.5, 0.5])
    with pytest.raises(InputError, match="labels must be integers from 0 to 1"):
        importance_weights([0.5, 0.5], [0.5, 0.5], [0, 2])
    with pytest.raises(InputError, match="largest must be above 0"):
        importance_weights([0.5, 0.5], [0.5, 0.5], largest=0.0)
