"""On an accelerator: nothing waits for the device, and all is as on the host. Skipped where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from advshift import RobustObjective
from advshift.adversaries import ADVERSARIES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

CLASSES, SIZE = 5, 64
COUNTS = [50.0, 30.0, 15.0, 4.0, 1.0]
OPTIONS: dict[str, dict[str, Any]] = {
    "exact": {"radius": 0.2},
    "fixed": {"distribution": [0.1, 0.2, 0.3, 0.2, 0.2]},
    "group-dro": {"adjustment": 1.0},
}
CASES = [(name, OPTIONS.get(name, {})) for name in ADVERSARIES] + [
    ("advshift", {"step": "exact-prox"}),
    ("advshift", {"class_counts": None, "start_after": 1}),
    ("agnostic", {"uncertainty": "kl", "radius": 0.05}),
    ("exact", {"uncertainty": "chi2", "radius": 0.1}),
]
by_case = pytest.mark.parametrize(("name", "options"), CASES, ids=str)


def build(name: str, options: dict[str, Any], **rest: Any) -> RobustObjective:
    return RobustObjective(name, **({"num_classes": CLASSES, "class_counts": COUNTS} | options | rest))


def batches(steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        labels = torch.multinomial(torch.tensor(COUNTS), SIZE, replacement=True, generator=generator)
        yield 2 * torch.randn(SIZE, CLASSES, generator=generator), labels


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    """Turn every wait for the device into an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def close(one: RobustObjective, other: RobustObjective) -> None:
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor.cpu(), other.state_dict()[name].cpu(), rtol=1e-4, atol=1e-6, msg=name)


@by_case
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_waits_for_nothing_and_is_as_on_the_host(name: str, options: Any, compiled: bool) -> None:
    torch.compiler.reset()
    host, device = build(name, options), build(name, options).cuda()
    call = torch.compile(device, fullgraph=True) if compiled else device
    for step, (logits, labels) in enumerate(batches(4)):
        own, other = logits.clone().requires_grad_(), logits.cuda().requires_grad_()
        on_device = labels.cuda()
        host(own, labels).backward()
        with no_waiting() if step > 0 or not compiled else contextlib.nullcontext():
            call(other, on_device).backward()
        torch.testing.assert_close(other.grad.cpu(), own.grad, rtol=1e-4, atol=1e-6)
    close(host, device)


@pytest.mark.parametrize("name", ["advshift", "exact"])
def test_a_checkpoint_moves_between_devices(name: str) -> None:
    host, device = build(name, OPTIONS.get(name, {})), build(name, OPTIONS.get(name, {})).cuda()
    for logits, labels in batches(3):
        device(logits.cuda().requires_grad_(), labels.cuda())
    host.load_state_dict(device.state_dict(), strict=True)
    close(host, device)
    assert all(tensor.device.type == "cpu" for tensor in host.state_dict().values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["advshift", "exact"])
def test_mixed_precision_keeps_the_state_in_float32(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, CLASSES).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, enabled=dtype == torch.float16)
    objective = build(name, OPTIONS.get(name, {})).cuda()
    plain = build(name, OPTIONS.get(name, {})).cuda()
    objective.attach(optimizer)
    for step in range(6):
        x, labels = torch.randn(SIZE, 8).cuda(), torch.arange(SIZE).cuda() % CLASSES
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            logits = model(x)
            loss = objective(logits, labels)
        assert logits.dtype == dtype
        assert loss.dtype == torch.float32
        before = objective.steps.item()
        overflow = step == 2 and scaler.is_enabled()
        scaler.scale(loss * (float("inf") if overflow else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        assert objective.steps.item() == before + (not overflow)  # a step that was skipped commits nothing
        if scaler.is_enabled():
            continue
        plain(logits.detach().float().requires_grad_(), labels)
    assert all(t.dtype in (torch.float32, torch.int64) for t in objective.state_dict().values())
    if not scaler.is_enabled():
        close(objective, plain)


@pytest.mark.parametrize("name", ["advshift", "exact", "group-dro"])
def test_a_graph_replays_forward_backward_and_commit(name: str) -> None:
    options = OPTIONS.get(name, {})
    eager, captured = build(name, options).cuda(), build(name, options).cuda()
    logits = torch.zeros(SIZE, CLASSES, device="cuda", requires_grad=True)
    labels = torch.zeros(SIZE, dtype=torch.int64, device="cuda")
    begin = {key: tensor.clone() for key, tensor in captured.state_dict().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            captured(logits, labels).backward()
    torch.cuda.current_stream().wait_stream(side)
    logits.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = captured(logits, labels)
        loss.backward()
    captured.load_state_dict(begin)
    for given, classes in batches(5):
        logits.data.copy_(given)
        labels.copy_(classes)
        graph.replay()
        other = given.cuda().requires_grad_()
        expected = eager(other, classes.cuda())
        expected.backward()
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(logits.grad, other.grad)
    close(eager, captured)


def test_an_objective_that_was_left_on_the_host_is_refused() -> None:
    with pytest.raises(ValueError, match=r"objective\.to\(device\)"):
        build("advshift", {})(torch.randn(4, CLASSES).cuda(), torch.zeros(4, dtype=torch.int64).cuda())
