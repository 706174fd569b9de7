"""Who commits, when, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from advshift import AdvShift, RobustObjective
from advshift.errors import InputError

CLASSES = 3
COUNTS = [50.0, 30.0, 20.0]


def batch(seed: int, size: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 4, generator=generator), torch.randint(0, CLASSES, (size,), generator=generator)


def setting(**options: Any) -> tuple[nn.Linear, torch.optim.Optimizer, RobustObjective]:
    torch.manual_seed(0)
    model = nn.Linear(4, CLASSES)
    objective = RobustObjective("advshift", class_counts=COUNTS, radius=0.1, step_size=0.1, **options)
    return model, torch.optim.SGD(model.parameters(), lr=0.5), objective


def same(one: nn.Module, other: nn.Module, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=tolerance, atol=tolerance)


def snapshot(objective: nn.Module) -> dict[str, torch.Tensor]:
    return copy.deepcopy(objective.state_dict())


def unchanged(objective: nn.Module, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, before[name]) for name, tensor in objective.state_dict().items())


def test_the_call_commits_by_itself() -> None:
    model, _, objective = setting()
    before = snapshot(objective)
    objective(model(batch(0)[0]), batch(0)[1])
    assert not torch.equal(objective.distribution, before["state_log_distribution"].exp())
    assert objective.steps == 1
    assert not objective.pending.any()


def test_eval_mode_and_no_grad_move_nothing() -> None:
    model, optimizer, objective = setting()
    x, y = batch(0)
    for attached in (False, True):
        if attached:
            objective.attach(optimizer)
        before = snapshot(objective)
        with torch.no_grad():
            objective(model(x), y)
        objective.eval()
        loss = objective(model(x), y)
        objective.train()
        assert unchanged(objective, before)
        assert loss.requires_grad


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_accumulation_follows_the_big_batch(pieces: int) -> None:
    model, optimizer, objective = setting()
    other, other_optimizer, plain = setting()
    objective.attach(optimizer)
    for seed in range(5):
        x, y = batch(seed)
        plain(other(x), y).backward()
        other_optimizer.step()
        other_optimizer.zero_grad()
        for part, labels in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
            (objective(model(part), labels) / pieces).backward()
        optimizer.step()
        optimizer.zero_grad()
    same(model, other)
    same(objective, plain)
    assert objective.steps == 5


def test_manual_commits_only_at_step() -> None:
    model, _, objective = setting(update="manual")
    _, _, plain = setting()
    x, y = batch(0)
    before = objective.distribution.clone()
    objective(model(x), y)
    assert torch.equal(objective.distribution, before)
    objective.step()
    plain(model(x), y)
    same(objective, plain)


def test_refresh_replaces_what_is_pending() -> None:
    model, optimizer, objective = setting(update="manual")
    x, y = batch(0)
    objective(model(x), y).backward()
    optimizer.step()
    objective.refresh(model(x), y)
    objective.step()
    _, _, plain = setting()
    plain(model(x), y)
    same(objective, plain)


def test_calls_that_do_not_fit_who_commits() -> None:
    model, optimizer, objective = setting()
    x, y = batch(0)
    with pytest.raises(InputError, match=r"commits by itself \(update='forward'"):
        objective.step()
    with pytest.raises(InputError, match="update='manual'"):
        objective.refresh(model(x), y)
    with pytest.raises(InputError, match="not attached"):
        objective.detach()
    objective.attach(optimizer)
    with pytest.raises(InputError, match=r"commits by itself \(update='attached'"):
        objective.step()
    with pytest.raises(InputError, match=r"'attached' already; detach\(\) it first"):
        objective.attach(optimizer)
    objective.detach()
    assert objective.update == "forward"
    with pytest.raises(InputError, match="build it with update='forward'"):
        setting(update="manual")[2].attach(optimizer)
    _, _, manual = setting(update="manual")
    with pytest.raises(InputError, match="in eval mode nothing moves"):
        manual.eval().refresh(model(x), y)


def test_detached_steps_do_not_commit() -> None:
    model, optimizer, objective = setting()
    objective.attach(optimizer)
    objective.detach()
    objective(model(batch(0)[0]), batch(0)[1]).backward()
    optimizer.step()
    assert objective.steps == 1


def run_checkpointed(objective: RobustObjective, *, reentrant: bool) -> torch.Tensor:
    """The gradient of a loss that lies inside an activation checkpoint together with its layer."""
    torch.manual_seed(0)
    weight = torch.randn(4, CLASSES, requires_grad=True)
    x, y = batch(0)

    def block(weight: torch.Tensor) -> torch.Tensor:
        return objective(x @ weight, y)

    checkpoint(block, weight, use_reentrant=reentrant).backward()
    assert weight.grad is not None
    return weight.grad


def test_checkpointing_an_attached_loss_counts_once_and_keeps_the_gradient() -> None:
    _, optimizer, objective = setting()
    objective.attach(optimizer)
    found = run_checkpointed(objective, reentrant=False)
    once = objective.pending.clone()
    torch.manual_seed(0)
    weight = torch.randn(4, CLASSES, requires_grad=True)
    x, y = batch(0)
    _, _, plain = setting(update="manual")
    plain(x @ weight, y).backward()
    torch.testing.assert_close(found, weight.grad)
    torch.testing.assert_close(once, plain.pending)


def test_checkpointing_a_loss_that_commits_by_itself_raises() -> None:
    with pytest.raises(InputError, match="run again by activation checkpointing"):
        run_checkpointed(setting()[2], reentrant=False)


def test_reentrant_checkpointing_raises_instead_of_learning_nothing() -> None:
    _, optimizer, objective = setting()
    objective.attach(optimizer)
    with pytest.raises(InputError, match="use_reentrant=False"):
        run_checkpointed(objective, reentrant=True)


@pytest.mark.parametrize("name", ["advshift", "tilted", "group-dro"])
def test_checkpointed_micro_batches_one_after_the_other(name: str) -> None:
    """What is weighed by its own class means has other weights in each call: each run again must find its own."""
    gradients = []
    for checkpointed in (False, True):
        model, optimizer, _ = setting()
        objective = RobustObjective(name, class_counts=COUNTS)
        objective.attach(optimizer)
        for seed in range(3):
            logits, y = model(batch(seed)[0]), batch(seed)[1]
            loss = checkpoint(objective, logits, y, use_reentrant=False) if checkpointed else objective(logits, y)
            loss.backward()
        gradients.append(model.weight.grad)
    torch.testing.assert_close(*gradients)


def test_checkpointed_calls_with_weights_of_their_own_that_wait_together_raise() -> None:
    model, optimizer, _ = setting()
    objective = RobustObjective("tilted", class_counts=COUNTS)
    objective.attach(optimizer)
    data = [batch(seed) for seed in (0, 1)]
    calls = [checkpoint(objective, model(x), y, use_reentrant=False) for x, y in data]
    with pytest.raises(InputError, match="call backward\\(\\) after each of them"):
        sum(calls).backward()


def test_checkpointing_the_model_alone_needs_nothing() -> None:
    model, _, objective = setting()
    x, y = batch(0)
    objective(checkpoint(model, x.requires_grad_(), use_reentrant=False), y).backward()
    assert objective.steps == 1


def test_a_closure_is_evaluated_often_and_commits_once() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, CLASSES)
    _, _, objective = setting()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    objective.attach(optimizer)
    x, y = batch(0)
    seen, statistics = [], torch.zeros_like(objective.pending)

    def closure() -> float:
        optimizer.zero_grad()
        loss = objective(model(x), y)
        losses = functional.cross_entropy(model(x), y, reduction="none").detach().clamp_max(2.0)
        statistics[:CLASSES].index_add_(0, y, losses)
        seen.append(objective.distribution.clone())
        loss.backward()
        return loss.item()

    optimizer.step(closure)
    assert len(seen) > 2
    assert all(torch.equal(one, seen[0]) for one in seen)
    assert objective.steps == 1
    g = statistics[:CLASSES] / (len(seen) * len(y) * objective.reference)
    pi = seen[0]
    divergence = (pi * (pi / objective.reference).log()).sum()
    alpha = 1.0 if divergence >= 0.1 else 0.0
    expected = (pi * objective.reference**alpha) ** (1 / (1 + alpha)) * torch.exp(0.1 * g)
    expected = 0.999 * expected / expected.sum() + 0.001 * objective.reference
    torch.testing.assert_close(objective.distribution, expected)


def test_a_step_that_the_gradient_scaler_skips_leaves_pending() -> None:
    model, optimizer, objective = setting()
    objective.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    x, y = batch(0)
    before = objective.distribution.clone()
    scaler.scale(objective(model(x), y)).backward()
    assert model.weight.grad is not None
    model.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    assert objective.steps == 0
    assert objective.pending[CLASSES:-1].sum() == 12
    assert torch.equal(objective.distribution, before)
    scaler.scale(objective(model(x), y)).backward()
    assert objective.pending[CLASSES:-1].sum() == 24
    scaler.step(optimizer)
    assert objective.steps == 1
    _, _, plain = setting()
    plain(functional.linear(x, *_initial()), y)
    torch.testing.assert_close(objective.distribution, plain.distribution, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["advshift", "exact"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_fused_optimiser_skips_within_its_step(kind: Any, name: str) -> None:
    """The scaler calls its `step` after an overflow, too: the kernel does nothing, and so must the hook."""
    model, _, _ = setting()
    optimizer = kind(model.parameters(), lr=0.1, fused=True)
    objective, plain = (
        RobustObjective(name, class_counts=COUNTS, radius=0.1, loss=loss, total_steps=9) for loss in ("deferred", None)
    )
    objective.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    logits = []
    for overflows in (True, False):
        x, y = batch(int(overflows))
        before = snapshot(objective), model.weight.clone()
        logits.append(model(x))
        scaler.scale(objective(logits[-1], y)).backward()
        pending = objective.pending.clone()
        assert model.weight.grad is not None
        if overflows:
            model.weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert torch.equal(model.weight, before[1]) == overflows
        if overflows:
            assert unchanged(objective, before[0] | {"pending": pending})
    assert (objective.steps, objective.loss.steps) == (1, 1)
    assert not objective.pending.any()
    plain(torch.cat(logits).detach().requires_grad_(), torch.cat([batch(1)[1], batch(0)[1]]))
    torch.testing.assert_close(objective.distribution, plain.distribution)


@pytest.mark.parametrize("name", ["advshift", "exact", "group-dro"])
def test_half_precision_with_a_scaler(name: str) -> None:
    """Real overflows: the first scales are too large for float16, so that the scaler skips the first steps."""
    options: dict[str, Any] = {"class_counts": COUNTS} | ({"radius": 0.1} if name == "exact" else {})
    torch.manual_seed(0)
    model = nn.Linear(4, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    objective, plain = (RobustObjective(name, **options) for _ in range(2))
    objective.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
    skipped, waiting = 0, []
    for seed in range(8):
        x, y = batch(seed)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            loss = objective(logits, y)
        assert (logits.dtype, loss.dtype) == (torch.float16, torch.float32)
        waiting.append((logits.detach(), y))
        before = objective.steps.item()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if objective.steps == before:
            skipped += 1
            continue
        plain(torch.cat([own for own, _ in waiting]).requires_grad_(), torch.cat([labels for _, labels in waiting]))
        waiting = []
    assert 0 < skipped < 8
    assert {tensor.dtype for tensor in objective.state} == {torch.float32}
    torch.testing.assert_close(objective.state_dict(), plain.state_dict())


def test_deferred_weights_count_optimiser_steps_with_an_attached_objective() -> None:
    model, optimizer, _ = setting()
    objective = RobustObjective("erm", class_counts=COUNTS, loss="deferred", total_steps=5)
    assert (objective.loss.start, objective.loss.update) == (4, "forward")
    objective.attach(optimizer)
    x, y = batch(0)
    for _ in range(3):
        for _ in range(4):
            objective(model(x), y).backward()
        optimizer.step()
    assert objective.loss.steps == 3
    objective.detach()
    objective(model(x), y)
    optimizer.step()
    assert objective.loss.steps == 4


@pytest.mark.parametrize("way", [copy.deepcopy, lambda objective: pickle.loads(pickle.dumps(objective))])
def test_a_copy_of_an_attached_objective_is_not_attached(way: Any) -> None:
    model, optimizer, _ = setting()
    objective = RobustObjective("advshift", class_counts=COUNTS, loss="deferred", total_steps=5)
    objective.attach(optimizer)
    x, y = batch(0)
    objective(model(x), y).backward()
    other = way(objective)
    same(objective, other, tolerance=0.0)
    assert (other.update, other.loss.update) == ("forward", "forward")
    assert (objective.update, objective.loss.update) == ("attached", "manual")
    optimizer.step()
    assert (objective.steps, other.steps) == (1, 0)
    other(model(x), y)
    assert (other.steps, other.loss.steps) == (1, 1)


def _initial() -> tuple[torch.Tensor, torch.Tensor]:
    model, _, _ = setting()
    return model.weight, model.bias


def test_losses_that_are_not_finite_are_skipped_and_counted() -> None:
    _, _, objective = setting(update="manual")
    _, _, clean = setting(update="manual")
    logits = torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    spoiled = logits.clone()
    spoiled[1, 0], spoiled[4, 1] = float("nan"), float("-inf")
    loss = objective(spoiled.requires_grad_(), labels)
    keep = [0, 2, 3, 5]
    clean(logits[keep].requires_grad_(), labels[keep])
    assert not torch.isfinite(loss)
    torch.testing.assert_close(objective.pending[:-1], clean.pending[:-1])
    for each in (objective, clean):
        each.step()
    assert objective.skipped == 2
    torch.testing.assert_close(objective.distribution, clean.distribution)
    assert objective.metrics()["skipped"] == 2


@pytest.mark.parametrize("loss", [None, lambda logits, _: logits.logsumexp(1)])
def test_soft_labels_that_are_not_finite_are_skipped_and_counted(loss: Any) -> None:
    objective, other = (RobustObjective("advshift", num_classes=3, loss=loss) for _ in range(2))
    logits, soft = torch.randn(6, 3).requires_grad_(), torch.rand(6, 3).softmax(1)
    soft[2, 1], soft[4] = float("nan"), float("inf")
    objective(logits, soft)
    kept = [0, 1, 3, 5]
    other(logits[kept], soft[kept])
    assert objective.skipped == 2
    torch.testing.assert_close(objective.distribution, other.distribution)
    torch.testing.assert_close(objective.reference, other.reference)


def test_several_labels_an_example_are_not_taken_for_losses_left_out() -> None:
    objective = RobustObjective(
        "advshift",
        num_classes=3,
        loss=lambda z, y: functional.binary_cross_entropy_with_logits(z, y, reduction="none").sum(1),
    )
    objective(torch.randn(6, 3).requires_grad_(), torch.randint(0, 2, (6, 3)).float())
    assert objective.skipped == 0


def test_a_batch_of_nothing_but_infinite_losses_moves_nothing() -> None:
    _, _, objective = setting()
    before = objective.distribution.clone()
    objective(torch.full((4, CLASSES), float("nan"), requires_grad=True), torch.tensor([0, 1, 2, 0]))
    assert torch.equal(objective.distribution, before)
    assert (int(objective.steps), int(objective.skipped)) == (0, 4)


@pytest.mark.parametrize("name", ["agnostic", "class-cvar", "group-dro"])
def test_finite_losses_whose_sum_is_not_do_not_poison_the_state(name: str) -> None:
    objective = RobustObjective(name, class_counts=COUNTS, loss=lambda logits, _: logits[:, 0])
    for size in (3e38, 1.0):
        loss = objective(torch.full((12, CLASSES), size, requires_grad=True), torch.arange(12) % CLASSES)
    assert torch.isfinite(loss)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in objective.state_dict().values())


def test_losses_that_are_not_finite_raise_if_so_chosen() -> None:
    _, _, objective = setting(non_finite="raise")
    before = snapshot(objective)
    with pytest.raises(InputError, match="1 losses are not finite"):
        objective(torch.tensor([[0.0, 0.0, 0.0], [float("nan"), 0.0, 0.0]]).requires_grad_(), torch.tensor([0, 1]))
    assert unchanged(objective, before)


def test_mixed_precision_keeps_the_state_in_float32() -> None:
    model, optimizer, objective = setting()
    x, y = batch(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = objective(model(x), y)
    loss.backward()
    optimizer.step()
    assert loss.dtype == torch.float32
    _, _, plain = setting()
    plain(functional.linear(x, *_initial()), y)
    torch.testing.assert_close(objective.distribution, plain.distribution, rtol=1e-3, atol=1e-4)
    for convert in ("half", "bfloat16", "double"):
        getattr(objective, convert)()
        floating = [tensor for tensor in objective.buffers() if tensor.is_floating_point()]
        assert {tensor.dtype for tensor in floating} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_of_any_precision(dtype: torch.dtype) -> None:
    logits = torch.randn(8, CLASSES, dtype=dtype, requires_grad=True)
    loss = AdvShift(CLASSES)(logits, torch.arange(8) % CLASSES)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.dtype == dtype


def test_a_checkpoint_for_another_number_of_classes() -> None:
    with pytest.raises(RuntimeError, match="is for 4 classes or groups, this one for 3; build it with the same number"):
        AdvShift(3).load_state_dict(AdvShift(4).state_dict())


def test_a_checkpoint_with_another_reference_is_not_taken_for_the_known_one() -> None:
    known, estimated = AdvShift(class_counts=COUNTS), AdvShift(CLASSES)
    other = AdvShift(class_counts=[number * 7 for number in COUNTS])
    other.load_state_dict(known.state_dict(), strict=True)
    for saved in (estimated, AdvShift(class_counts=COUNTS[::-1])):
        with pytest.raises(RuntimeError, match="the checkpoint's reference is not that of class_counts="):
            known.load_state_dict(saved.state_dict())


def test_the_state_moves_with_the_model() -> None:
    moved = AdvShift(3).to("meta")
    assert {buffer.device.type for buffer in moved.buffers()} == {"meta"}
