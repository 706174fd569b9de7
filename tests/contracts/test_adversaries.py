"""What every adversary promises, checked over the registry."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from advshift import RobustObjective
from advshift.adversaries import ADVERSARIES, Adversary, AdvShiftAdversary, ClassLosses

CLASSES = 5
REFERENCE = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0])
OPTIONS: dict[str, dict[str, Any]] = {"exact": {"radius": 0.2}, "fixed": {"distribution": [0.1, 0.2, 0.3, 0.4, 0.0]}}
CASES = [(name, OPTIONS.get(name, {})) for name in ADVERSARIES] + [
    ("advshift", {"step": "exact-prox"}),
    ("advshift", {"stabiliser": 0.0, "initial": "reference"}),
    ("advshift", {"stabilise_towards": "uniform", "stabiliser": 0.1}),
    ("agnostic", {"uncertainty": "kl", "radius": 0.05}),
    ("class-cvar", {"level": [0.9, 0.8, 0.5, 0.5, 1.0]}),
    ("group-dro", {"adjustment": 1.0, "examples": 100.0}),
    *[
        ("exact", {"uncertainty": name, "radius": radius})
        for name, radius in (("reverse-kl", 0.1), ("chi2", 0.2), ("tv", 0.1), ("frequency-cap", 2.0), ("top-k", 2.5))
    ],
    ("exact", {"uncertainty": "simplex"}),
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in CASES]
by_case = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)


def build(name: str, options: dict[str, Any]) -> Adversary:
    return ADVERSARIES[name](**options)


def losses_of(sums: Any, counts: Any) -> ClassLosses:
    counts = torch.as_tensor(counts, dtype=torch.float32) * (REFERENCE > 0)
    sums = torch.as_tensor(sums, dtype=torch.float32) * counts
    return ClassLosses(sums, counts, counts.sum())


numbers = st.lists(st.floats(0, 50, width=32), min_size=CLASSES, max_size=CLASSES)
amounts = st.lists(st.integers(0, 40), min_size=CLASSES, max_size=CLASSES).filter(lambda c: sum(c[:-1]) > 0)


@by_case
@settings(max_examples=25)
@given(batches=st.lists(st.tuples(numbers, amounts), min_size=1, max_size=6))
def test_stays_a_distribution_on_the_references_classes(name: str, options: Any, batches: Any) -> None:
    adversary = build(name, options)
    state = adversary.init(REFERENCE)
    for sums, counts in batches:
        state, info = adversary.step(state, losses_of(sums, counts), REFERENCE)
        distribution = adversary.distribution(state, REFERENCE)
        assert distribution.sum().item() == pytest.approx(1.0, abs=1e-5)
        assert bool((distribution >= 0).all())
        assert distribution[-1].item() == 0.0
        assert all(bool(torch.isfinite(tensor).all()) for tensor in (*state, *info))


@by_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_keeps_names_shapes_and_dtypes(name: str, options: Any, dtype: torch.dtype) -> None:
    adversary = build(name, options)
    reference = REFERENCE.to(dtype)
    state = adversary.init(reference)
    losses = ClassLosses(*(tensor.to(dtype) for tensor in losses_of([1, 2, 3, 4, 0], [5, 4, 3, 2, 0])))
    moved, info = adversary.step(state, losses, reference)
    assert type(moved) is type(state)
    assert hasattr(info, "_fields")
    for before, after in zip(state, moved, strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
        assert before.dtype == dtype


@by_case
@settings(max_examples=25)
@given(batches=st.lists(st.tuples(numbers, amounts), min_size=1, max_size=4))
def test_numpy_and_tensors_agree_to_the_last_digits(name: str, options: Any, batches: Any) -> None:
    adversary = build(name, options)
    assert adversary.takes_numpy
    state = adversary.init(REFERENCE)
    for sums, counts in batches:
        losses = losses_of(sums, counts)
        arrays = type(state)(*[tensor.numpy() for tensor in state])
        own = ClassLosses(losses.sums.numpy(), losses.counts.numpy(), losses.counts.numpy().sum())
        with np.errstate(all="ignore"):
            moved, _ = adversary.step(arrays, own, REFERENCE.numpy())
            found = adversary.distribution(moved, REFERENCE.numpy())
        state, _ = adversary.step(state, losses, REFERENCE)
        for array, tensor in zip(moved, state, strict=True):
            assert array.dtype == np.float32
            torch.testing.assert_close(torch.as_tensor(array), tensor, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            torch.as_tensor(found), adversary.distribution(state, REFERENCE), rtol=1e-5, atol=1e-7
        )


class InTensors(AdvShiftAdversary):
    """As an adversary of someone's own that is written for tensors alone."""

    takes_numpy = False


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_the_objective_moves_alike_in_numpy_and_in_tensors(known: bool, soft: bool) -> None:
    reference: dict[str, Any] = {"class_counts": [40, 30, 20, 10]} if known else {"num_classes": 4}
    rest: dict[str, Any] = {"start_after": 2} | reference | ({} if soft else {"ignore_index": 3})
    one, other = (RobustObjective(kind(0.05, step_size=0.1), **rest) for kind in (AdvShiftAdversary, InTensors))
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        logits = torch.randn(20, 4, generator=generator)
        logits[0] = float("inf") if step == 3 else 0.0
        labels = torch.randint(0, 4, (20,), generator=generator)
        given = torch.rand(20, 4, generator=generator).softmax(1) if soft else labels
        losses = [objective(logits.requires_grad_(), given) for objective in (one, other)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0, equal_nan=True)
    assert one.skipped.item() > 0
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=2e-6, atol=1e-7)


@by_case
def test_a_step_is_pure(name: str, options: Any) -> None:
    adversary = build(name, options)
    losses = losses_of([1, 2, 3, 4, 0], [5, 4, 3, 2, 0])
    state, _ = adversary.step(adversary.init(REFERENCE), losses, REFERENCE)
    held = copy.deepcopy((state, losses, adversary.__dict__))
    first = adversary.step(state, losses, REFERENCE)
    second = adversary.step(state, losses, REFERENCE)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.testing.assert_close(held[0], state, rtol=0, atol=0)
    torch.testing.assert_close(held[1], losses, rtol=0, atol=0)
    assert repr(held[2]) == repr(adversary.__dict__)


def _train(objective: RobustObjective, seed: int, steps: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(())
    for _ in range(steps):
        logits = torch.randn(12, CLASSES, generator=generator, requires_grad=True)
        total = total + objective(logits, torch.randint(0, CLASSES - 1, (12,), generator=generator)).detach()
    return total


def objective_for(name: str, options: Any, **rest: Any) -> RobustObjective:
    return RobustObjective(name, class_counts=REFERENCE.numpy(), **options, **rest)


@by_case
def test_save_and_resume_gives_the_same_bits(name: str, options: Any, tmp_path: Any) -> None:
    one = objective_for(name, options)
    _train(one, 0, 3)
    torch.save(one.state_dict(), tmp_path / "state.pt")
    other = objective_for(name, options)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), strict=True)
    assert torch.equal(_train(one, 1, 3), _train(other, 1, 3))
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


@by_case
def test_micro_batches_add_up_to_the_batch(name: str, options: Any) -> None:
    whole, parts = (objective_for(name, options, update="manual", weighting="importance") for _ in range(2))
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits = torch.randn(12, CLASSES, generator=generator, requires_grad=True)
        labels = torch.randint(0, CLASSES - 1, (12,), generator=generator)
        whole(logits, labels)
        for piece in (slice(0, 3), slice(3, 4), slice(4, 12)):
            parts(logits[piece], labels[piece])
        whole.step()
        parts.step()
    for one, other in zip(whole.state, parts.state, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


@by_case
def test_nothing_is_read_on_the_host(name: str, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device `meta` there are no values at all: a step that looks at one fails."""
    adversary = build(name, options)
    state = adversary.init(REFERENCE)
    bare = type(state)(*(tensor.to("meta") for tensor in state))
    losses = ClassLosses(*(tensor.to("meta") for tensor in losses_of([1, 2, 3, 4, 0], [5, 4, 3, 2, 0])))
    moved, _ = adversary.step(bare, losses, REFERENCE.to("meta"))
    assert all(tensor.shape == before.shape for tensor, before in zip(moved, state, strict=True))


@by_case
def test_a_step_without_examples_changes_nothing(name: str, options: Any) -> None:
    objective = objective_for(name, options, update="manual")
    _train(objective, 0, 2)
    objective.step()
    before = copy.deepcopy(objective.state_dict())
    objective.step()
    torch.testing.assert_close(objective.state_dict(), before, rtol=0, atol=0)


MOVING = [name for name in ADVERSARIES if name not in ("fixed", "balanced", "erm")]


@pytest.mark.parametrize("name", MOVING)
def test_the_hard_class_gains(name: str) -> None:
    """The sign test: with one hard class, the adversary's weight on it grows, and that of the easy ones falls."""
    options = dict(OPTIONS.get(name, {}))
    if name in ("advshift", "group-dro"):
        options["initial"] = "reference"
    reference = torch.full((4,), 0.25)
    adversary = ADVERSARIES[name](**options)
    state = adversary.init(reference)
    losses = ClassLosses(torch.tensor([0.1, 0.1, 1.9, 0.1]) * 8, torch.full((4,), 8.0), torch.tensor(32.0))
    before = adversary.distribution(state, reference)
    for _ in range(3):
        state, _ = adversary.step(state, losses, reference)
        after = adversary.distribution(state, reference)
        assert after[2] > 0.25
        assert bool((after[[0, 1, 3]] < 0.25).all())
    assert after[2] > before[2]


def test_unknown_names_are_pointed_to_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'group-dro'"):
        _ = ADVERSARIES["groupdro"]
