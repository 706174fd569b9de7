"""Every loss compiles as one graph, forward and backward, with its state."""

from __future__ import annotations

import pytest
import torch

from advshift.losses import LOSSES, Loss

COUNTS = [50, 20, 5, 1]
LABELS = {"indices": torch.tensor([0, 3, -100, 2]), "soft": torch.softmax(torch.randn(4, 4), 1)}


def _make(name: str) -> Loss:
    counts = {} if name in ("cross-entropy", "focal") else {"class_counts": COUNTS}
    deferred = {"start_after": 2} if name in ("ldam-drw", "deferred") else {}
    return LOSSES[name](**counts, **deferred)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("kind", list(LABELS))
def test_one_graph(name: str, kind: str) -> None:
    torch.compiler.reset()
    plain, traced = _make(name), _make(name)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    for _ in range(4):
        first = torch.randn(4, 4).tanh().requires_grad_()  # cosines, as some losses ask for
        second = first.detach().clone().requires_grad_()
        expected, got = plain(first, LABELS[kind]), compiled(second, LABELS[kind])
        torch.testing.assert_close(got, expected)
        expected.sum().backward()
        got.sum().backward()
        torch.testing.assert_close(second.grad, first.grad)
    torch.testing.assert_close(dict(traced.named_buffers()), dict(plain.named_buffers()))
