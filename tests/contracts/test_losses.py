"""Every loss per example, through one contract; then each against a loop written by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from advshift.errors import InputError
from advshift.losses import (
    LDAM,
    LDAMDRW,
    LOSSES,
    BalancedSoftmax,
    ClassBalanced,
    CrossEntropy,
    DeferredWeights,
    Focal,
    LogitAdjusted,
    NormalisedLinear,
    cross_entropy,
    effective_number_weights,
    focal,
    ldam,
    ldam_margins,
    logit_adjusted,
)

COUNTS = np.array([50.0, 20.0, 5.0, 1.0])
CLASSES = len(COUNTS)
MAKE = {
    "cross-entropy": lambda **options: CrossEntropy(**options),
    "class-balanced": lambda **options: ClassBalanced(COUNTS, beta=0.9, **options),
    "ldam": lambda **options: LDAM(COUNTS, **options),
    "ldam-drw": lambda **options: LDAMDRW(COUNTS, start_after=0, beta=0.9, **options),
    "logit-adjusted": lambda **options: LogitAdjusted(COUNTS, temperature=1.5, **options),
    "balanced-softmax": lambda **options: BalancedSoftmax(COUNTS, **options),
    "focal": lambda **options: Focal(gamma=1.5, **options),
    "deferred": lambda **options: DeferredWeights(COUNTS, loss=Focal(gamma=0.5, **options), beta=0.9, start_after=0),
}
names = pytest.mark.parametrize("name", list(MAKE))


def _softmax(scores):
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def _effective(beta):
    weights = [(1 - beta) / (1 - beta**count) for count in COUNTS]
    return [weight * CLASSES / sum(weights) for weight in weights]


def _margins():
    margins = [count**-0.25 for count in COUNTS]
    return [0.5 * margin / max(margins) for margin in margins]


def _probability(name, scores, label):
    """The probability that a method gives to a label, by its definition."""
    if name in ("ldam", "ldam-drw"):
        shifted = [30 * (score - (_margins()[label] if c == label else 0)) for c, score in enumerate(scores)]
        return _softmax(shifted)[label]
    prior = COUNTS / COUNTS.sum()
    temperature = {"logit-adjusted": 1.5, "balanced-softmax": 1.0}.get(name, 0.0)
    return _softmax([score + temperature * math.log(p) for score, p in zip(scores, prior, strict=True)])[label]


def _term(name, scores, label):
    p = _probability(name, scores, label)
    if name in ("focal", "deferred"):
        gamma = {"focal": 1.5, "deferred": 0.5}[name]
        loss = (1 - p) ** gamma * -math.log(p)
    else:
        loss = -math.log(p)
    return loss * (_effective(0.9)[label] if name in ("class-balanced", "ldam-drw", "deferred") else 1.0)


def _by_hand(name, logits, labels, smoothing=0.0):
    """One example and one class at a time; labels are distributions over the classes."""
    losses = []
    for scores, label in zip(logits.tolist(), labels.tolist(), strict=True):
        smooth = [(1 - smoothing) * share + smoothing / CLASSES for share in label]
        losses.append(sum(share * _term(name, scores, c) for c, share in enumerate(smooth) if share))
    return torch.tensor(losses, dtype=torch.float64)


def _data(rows=12, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, CLASSES, generator=generator, dtype=torch.float64).tanh().to(dtype)
    return logits, torch.arange(rows) % CLASSES


def _soft(rows, seed=1):
    return torch.randn(rows, CLASSES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(1)


def test_every_loss_has_a_case() -> None:
    assert set(MAKE) == set(LOSSES)
    assert all(kind.name == name for name, kind in LOSSES.items())


@names
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_equals_a_loop(name: str, smoothing: float) -> None:
    logits, labels = _data()
    loss = MAKE[name](label_smoothing=smoothing)
    hard = functional.one_hot(labels, CLASSES).double()
    torch.testing.assert_close(loss(logits, labels), _by_hand(name, logits, hard, smoothing), rtol=1e-6, atol=1e-6)
    soft = _soft(len(logits))
    torch.testing.assert_close(loss(logits, soft), _by_hand(name, logits, soft, smoothing), rtol=1e-6, atol=1e-6)


@names
def test_gradient(name: str) -> None:
    logits, labels = _data(rows=5)
    loss = MAKE[name](label_smoothing=0.1).eval()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), logits.requires_grad_())
    assert torch.autograd.gradcheck(lambda z, q: loss(z, q), (logits, _soft(5).requires_grad_()))


@names
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dtype(name: str, dtype: torch.dtype) -> None:
    logits, labels = _data(dtype=dtype)
    got = MAKE[name]()(logits.requires_grad_(), labels)
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(got.double(), MAKE[name]()(logits.double(), labels), rtol=1e-5, atol=1e-5)
    got.sum().backward()
    assert logits.grad.dtype == dtype
    assert torch.isfinite(logits.grad).all()


@names
def test_dense_prediction(name: str) -> None:
    logits, _ = _data(rows=24)
    labels = torch.randint(0, CLASSES, (2, 3, 4), generator=torch.Generator().manual_seed(0))
    image = logits.reshape(2, 3, 4, CLASSES).permute(0, 3, 1, 2)
    loss = MAKE[name](label_smoothing=0.1).eval()
    torch.testing.assert_close(loss(image, labels).reshape(-1), loss(logits, labels.reshape(-1)))
    soft = _soft(24)
    dense = loss(image, soft.reshape(2, 3, 4, CLASSES).permute(0, 3, 1, 2))
    torch.testing.assert_close(dense.reshape(-1), loss(logits, soft))


@names
def test_ignored_labels_cost_nothing(name: str) -> None:
    logits, labels = _data()
    loss = MAKE[name](ignore_index=7, label_smoothing=0.1).eval()
    some = torch.where(torch.arange(12) % 3 == 0, 7, labels)
    got = loss(logits.requires_grad_(), some)
    (gradient,) = torch.autograd.grad(got.sum(), logits)
    assert (got[::3] == 0).all()
    assert (gradient[::3] == 0).all()
    torch.testing.assert_close(got[1::3], loss(logits, labels)[1::3])


@names
def test_examples_do_not_mix(name: str) -> None:
    logits, labels = _data()
    loss = MAKE[name]().eval()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(loss(logits[order], labels[order]), loss(logits, labels)[order])
    torch.testing.assert_close(loss(logits[:1], labels[:1]), loss(logits, labels)[:1])


@names
@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.01, 3.0))
def test_a_higher_score_of_the_label_costs_less(name: str, seed: int, more: float) -> None:
    logits, labels = _data(rows=4, seed=seed)
    logits = 0.25 * logits
    loss = MAKE[name]().eval()
    raised = logits + 0.25 * more * functional.one_hot(labels, CLASSES)
    assert (loss(raised, labels) < loss(logits, labels)).all()
    assert (loss(logits, labels) >= 0).all()


@names
@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.0, 1.0))
def test_linear_in_the_label(name: str, seed: int, share: float) -> None:
    """Mixup of two labels costs the mixture of their losses."""
    logits, labels = _data(rows=6, seed=seed)
    loss = MAKE[name](label_smoothing=0.1).eval()
    other = labels.roll(1)
    one_hot = functional.one_hot(labels, CLASSES).double(), functional.one_hot(other, CLASSES).double()
    mixed = loss(logits, share * one_hot[0] + (1 - share) * one_hot[1])
    torch.testing.assert_close(mixed, share * loss(logits, labels) + (1 - share) * loss(logits, other))


@pytest.mark.parametrize("name", [name for name in MAKE if "ldam" not in name])
@pytest.mark.parametrize("size", [1e3, 1e30])
def test_extreme_logits_stay_finite(name: str, size: float) -> None:
    logits = torch.tensor([[size, 0.0, 0.0, -size], [0.0, 0.0, size, size]], requires_grad=True)
    for label in range(CLASSES):
        losses = MAKE[name]()(logits, torch.full((2,), label))
        (gradient,) = torch.autograd.grad(losses.sum(), logits)
        assert torch.isfinite(losses).all()
        assert torch.isfinite(gradient).all()


@names
def test_state_survives(name: str) -> None:
    logits, labels = _data()
    first, second = (
        MAKE[name](),
        LOSSES[name](
            **({"class_counts": np.ones(CLASSES)} if name not in ("cross-entropy", "focal") else {}),
            **({"start_after": 0} if name in ("ldam-drw", "deferred") else {}),
        ),
    )
    first(logits, labels)
    second.load_state_dict(first.state_dict(), strict=True)
    for key, value in first.state_dict().items():
        assert torch.equal(second.state_dict()[key], value)


@names
def test_class_weights_multiply_the_terms(name: str) -> None:
    logits, labels = _data()
    loss = MAKE[name]().eval()
    weights = torch.tensor([0.5, 1.0, 2.0, 4.0])
    torch.testing.assert_close(loss(logits, labels, weights), loss(logits, labels) * weights[labels])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_torchs(smoothing: float, weighted: bool) -> None:
    logits, labels = _data()
    weights = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64) if weighted else None
    labels[2] = -100
    for target in (labels, _soft(12)):
        expected = functional.cross_entropy(logits, target, weights, reduction="none", label_smoothing=smoothing)
        got = cross_entropy(logits, target, class_weights=weights, label_smoothing=smoothing)
        torch.testing.assert_close(got, expected)


def test_functions_agree_with_the_modules() -> None:
    logits, labels = _data()
    torch.testing.assert_close(focal(logits, labels, gamma=1.5), MAKE["focal"]()(logits, labels))
    torch.testing.assert_close(ldam(logits, labels, ldam_margins(COUNTS)), MAKE["ldam"]()(logits, labels))
    prior = torch.tensor(COUNTS / COUNTS.sum()).log()
    got = logit_adjusted(logits, labels, prior, temperature=1.5)
    torch.testing.assert_close(got, MAKE["logit-adjusted"]()(logits, labels), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(cross_entropy(logits, labels), CrossEntropy()(logits, labels))


@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=6), st.floats(0.0, 0.99999))
def test_effective_number_weights(counts: list[int], beta: float) -> None:
    got = effective_number_weights(counts, beta).double().numpy()
    weights = np.array([(1 - beta) / (1 - beta**count) for count in counts])
    np.testing.assert_allclose(got, weights * len(counts) / weights.sum(), rtol=1e-5)
    assert got.sum() == pytest.approx(len(counts), rel=1e-5)


def test_effective_number_limits() -> None:
    inverse = (1 / COUNTS) * CLASSES / (1 / COUNTS).sum()
    np.testing.assert_allclose(effective_number_weights(COUNTS, 1.0), inverse, rtol=1e-6)
    np.testing.assert_allclose(effective_number_weights(COUNTS, 1 - 1e-9), inverse, rtol=1e-6)
    np.testing.assert_allclose(effective_number_weights(COUNTS, 0.0), 1.0)


def test_limits_are_cross_entropy() -> None:
    logits, labels = _data()
    plain = CrossEntropy()(logits, labels)
    for loss in (
        Focal(gamma=0.0),
        LogitAdjusted(COUNTS, temperature=0.0),
        BalancedSoftmax(np.full(CLASSES, 7)),
        LDAM(COUNTS, largest_margin=1e-12, scale=1.0),
        ClassBalanced(COUNTS, beta=0.0),
        DeferredWeights(COUNTS, start_after=1),
    ):
        torch.testing.assert_close(loss(logits, labels), plain, rtol=1e-6, atol=1e-6)


def test_logit_adjustment_fits_balanced_classes() -> None:
    """With labels drawn independently of the input the best `z` is flat, whatever the frequencies."""
    labels = torch.repeat_interleave(torch.arange(CLASSES), torch.tensor(COUNTS).long())
    z = torch.zeros(CLASSES, dtype=torch.float64, requires_grad=True)
    LogitAdjusted(COUNTS)(z.expand(len(labels), -1), labels).mean().backward()
    torch.testing.assert_close(z.grad, torch.zeros_like(z), rtol=0, atol=1e-7)


def test_focal_gradient_is_finite_where_the_model_is_sure() -> None:
    logits = torch.tensor([[80.0, 0.0]], requires_grad=True)
    Focal(gamma=0.5)(logits, torch.tensor([0])).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_ldam_margin_in_float32_where_the_margin_matters() -> None:
    """A sure but not sure enough prediction: subtracting probabilities would lose all digits here."""
    cosines = torch.tensor([[0.9, -0.2, 0.1, 0.0], [0.0, 0.1, 0.2, 0.95]])
    for label in range(CLASSES):
        labels = torch.full((2,), label)
        expected = _by_hand("ldam", cosines.double(), functional.one_hot(labels, CLASSES).double())
        torch.testing.assert_close(LDAM(COUNTS)(cosines, labels).double(), expected, rtol=2e-6, atol=1e-9)


def test_normalised_linear_is_a_cosine() -> None:
    head, features = NormalisedLinear(5, 3), torch.randn(4, 5)
    for row, feature in zip(head(features), features, strict=True):
        for cosine, vector in zip(row, head.weight, strict=True):
            expected = feature @ vector / (feature.norm() * vector.norm())
            torch.testing.assert_close(cosine, expected)
    torch.testing.assert_close(head(7 * features), head(features))


class TestDeferral:
    logits, labels = _data()

    def _weighted(self, loss):
        return not torch.allclose(loss(self.logits, self.labels), cross_entropy(self.logits, self.labels))

    def test_switches_after_the_steps_that_were_asked(self) -> None:
        loss = DeferredWeights(COUNTS, start_after=3, beta=0.9)
        assert [self._weighted(loss) for _ in range(5)] == [False, False, False, True, True]
        got = loss(self.logits, self.labels)
        expected = cross_entropy(self.logits, self.labels, class_weights=effective_number_weights(COUNTS, 0.9))
        torch.testing.assert_close(got, expected)

    def test_share_of_training(self) -> None:
        assert DeferredWeights(COUNTS, total_steps=200).start == 160
        assert DeferredWeights(COUNTS, start_after=0.5, total_steps=9).start == 4

    def test_evaluation_does_not_count(self) -> None:
        loss = DeferredWeights(COUNTS, start_after=1)
        loss.eval()(self.logits, self.labels)
        with torch.no_grad():
            loss.train()(self.logits, self.labels)
        assert loss.steps == 0

    def test_resumes(self) -> None:
        first, second = (DeferredWeights(COUNTS, start_after=2, beta=0.9) for _ in range(2))
        first(self.logits, self.labels)
        first(self.logits, self.labels)
        second.load_state_dict(first.state_dict())
        assert self._weighted(second)

    def test_counts_optimiser_steps_when_attached(self) -> None:
        head = torch.nn.Linear(3, CLASSES).double()
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        loss = DeferredWeights(COUNTS, start_after=1)
        handle = loss.attach(optimizer)
        features = torch.randn(12, 3, dtype=torch.float64)
        for _ in range(2):
            for _ in range(3):
                loss(head(features), self.labels).mean().backward()
            optimizer.step()
        assert loss.steps == 2
        handle.remove()
        optimizer.step()
        assert loss.steps == 2

    def test_manual(self) -> None:
        loss = DeferredWeights(COUNTS, start_after=1, update="manual", beta=0.9)
        assert not self._weighted(loss)
        assert not self._weighted(loss)
        loss.step()
        assert self._weighted(loss)
        with pytest.raises(InputError, match="count twice"):
            DeferredWeights(COUNTS, start_after=1).step()

    def test_checkpointing_is_refused_unless_manual(self) -> None:
        logits = self.logits.clone().requires_grad_()
        loss = DeferredWeights(COUNTS, start_after=1)
        got = checkpoint(loss, logits, self.labels, use_reentrant=False).sum()
        with pytest.raises(InputError, match=r"second time during backward.*update='manual'"):
            got.backward()
        loss = DeferredWeights(COUNTS, start_after=1, update="manual")
        checkpoint(loss, logits, self.labels, use_reentrant=False).sum().backward()

    def test_ldam_drw(self) -> None:
        loss = LDAMDRW(COUNTS, start_after=1, beta=0.9)
        plain = LDAM(COUNTS)(self.logits, self.labels)
        torch.testing.assert_close(loss(self.logits, self.labels), plain)
        expected = plain * effective_number_weights(COUNTS, 0.9)[self.labels]
        torch.testing.assert_close(loss(self.logits, self.labels), expected)

    def test_other_weights_and_inner_weights(self) -> None:
        inner = ClassBalanced(COUNTS, beta=0.9)
        loss = DeferredWeights(COUNTS, loss=inner, class_weights=[1.0, 2.0, 3.0, 4.0], start_after=0)
        expected = inner(self.logits, self.labels) * (1.0 + self.labels)
        torch.testing.assert_close(loss(self.logits, self.labels), expected)


LOGITS = torch.zeros(3, CLASSES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CrossEntropy()(LOGITS, torch.tensor([0, 1, 4])), r"from 0 to 3 .* got 4"),
        (lambda: CrossEntropy()(LOGITS, torch.tensor([0, 1, -1])), r"got -1"),
        (lambda: CrossEntropy()(LOGITS, torch.tensor([0.0, 1.0, 2.0])), r"soft labels.*labels\.long\(\)"),
        (lambda: CrossEntropy()(LOGITS, torch.tensor([True, False, True])), r"torch\.bool"),
        (lambda: CrossEntropy()(LOGITS, torch.tensor([0, 1])), r"need labels of shape \(3,\); got \(2,\)"),
        (lambda: CrossEntropy()(LOGITS.long(), torch.tensor([0, 1, 2])), "floating-point"),
        (lambda: CrossEntropy(label_smoothing=1.5), "label_smoothing"),
        (lambda: LDAM([3, 4])(LOGITS, torch.tensor([0, 1, 2])), "for 2 classes; the logits have 4"),
        (lambda: ClassBalanced([3, 4])(LOGITS, torch.tensor([0, 1, 2])), "2 classes"),
        (lambda: CrossEntropy()(LOGITS, torch.tensor([0, 1, 2]), torch.ones(5)), "for 5 classes; the logits have 4"),
        (lambda: LDAM([3, 0]), r"positive count for every class; 1 of 2"),
        (lambda: LDAM([3]), "two classes"),
        (lambda: LDAM(COUNTS)(3.0 + LOGITS, torch.tensor([0, 1, 2])), "from -1 to 1; got 3. Let the model end in"),
        (lambda: LDAM([[3, 4]]), "one number per class"),
        (lambda: LDAM([3, 4], largest_margin=0.0), "largest margin"),
        (lambda: LDAM([3, 4], scale=-1.0), "scale"),
        (lambda: LogitAdjusted([3, 0, 0]), "2 of 3"),
        (lambda: LogitAdjusted([3, 4], temperature=math.nan), "temperature"),
        (lambda: ClassBalanced([3, 4], beta=1.5), "beta"),
        (lambda: Focal(gamma=-1.0), "gamma"),
        (lambda: DeferredWeights([3, 4]), r"total_steps"),
        (lambda: DeferredWeights([3, 4], start_after=1.5), "start_after"),
        (lambda: DeferredWeights([3, 4], start_after=1, class_weights=[1.0]), "one number per class"),
        (lambda: DeferredWeights([3, 4], start_after=1, update="always"), "'forward' or 'manual'"),
        (lambda: DeferredWeights([3, 4], start_after=1, loss=torch.nn.CrossEntropyLoss()), "advshift.losses"),
        (lambda: LOSSES["ldm"], "did you mean 'ldam'"),
    ],
)
def test_bad_input_has_its_sentence(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Focal(gamma="2"), "gamma must be a number from 0 up; got '2'"),
        (lambda: Focal(label_smoothing="x"), "label_smoothing must be a share"),
        (lambda: Focal(ignore_index="x"), "ignore_index must be a label"),
        (lambda: LDAM([3, 4], largest_margin="x"), "largest margin"),
        (lambda: LDAM([3, 4], scale="x"), "scale"),
        (lambda: LDAM(["a", "b"]), "class_counts must hold one number per class; got"),
        (lambda: LogitAdjusted([3, 4], temperature="1"), "temperature must be a finite number"),
        (lambda: ClassBalanced([3, 4], beta="x"), "beta must be a number"),
        (lambda: DeferredWeights([3, 4], start_after="0.8"), "start_after must be"),
        (lambda: DeferredWeights([3, 4], start_after=True), "start_after must be"),
        (lambda: DeferredWeights([3, 4], total_steps="10"), "give total_steps"),
        (lambda: DeferredWeights([3, 4], start_after=1, class_weights=[1, -2]), "finite numbers from 0 up"),
        (lambda: DeferredWeights([3, 4], start_after=1).attach(None), "needs a torch optimizer; got NoneType"),
        (lambda: Focal()(LOGITS, [0, 1, 2]), "must be tensors; got Tensor and list. Convert with"),
        (lambda: Focal()(LOGITS, -torch.ones(3, CLASSES)), "soft labels must be shares from 0 up; got -1"),
    ],
)
def test_input_of_another_kind_has_its_sentence(call, message: str, no_shape_checks: None) -> None:
    with pytest.raises(InputError, match=message):
        call()
