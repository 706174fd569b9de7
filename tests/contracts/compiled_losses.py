"""Run by test_losses.py in a process of its own: shape checks are off there, as they cannot be traced."""

from __future__ import annotations

import sys

import torch

from advshift.losses import LOSSES

COUNTS = [50, 20, 5, 1]


def main() -> None:
    for name, kind in LOSSES.items():
        options = {"class_counts": COUNTS} if name not in ("cross-entropy", "focal") else {}
        deferred = {"start_after": 2} if "DRW" in kind.__name__ or name == "deferred" else {}
        for labels in (torch.tensor([0, 3, -100, 2]), torch.softmax(torch.randn(4, 4), 1)):
            torch._dynamo.reset()
            plain, traced = kind(**options, **deferred), kind(**options, **deferred)
            compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
            for _ in range(4):
                first = torch.randn(4, 4, requires_grad=True)
                second = first.detach().clone().requires_grad_()
                expected, got = plain(first, labels), compiled(second, labels)
                torch.testing.assert_close(got, expected)
                expected.sum().backward()
                got.sum().backward()
                torch.testing.assert_close(second.grad, first.grad)
            torch.testing.assert_close(dict(traced.named_buffers()), dict(plain.named_buffers()))
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
