"""Forward and commit compile as one graph, for every adversary, and give what the eager code gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from advshift import RobustObjective
from advshift.adversaries import ADVERSARIES

# array_api_compat caches its look-up of namespaces; dynamo says so once in a process.
pytestmark = pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")

OPTIONS: dict[str, dict[str, Any]] = {"exact": {"radius": 0.2}, "fixed": {"distribution": [0.1, 0.2, 0.7]}}
CASES = [(name, OPTIONS.get(name, {})) for name in ADVERSARIES] + [
    ("advshift", {"class_counts": None, "start_after": 1}),
    ("class-cvar", {"level": [0.9, 0.8, 0.5]}),
]
SLOW = [("advshift", {"step": "exact-prox"}), ("agnostic", {"uncertainty": "kl", "radius": 0.05})]


def check(name: str, options: dict[str, Any], backend: str, **rest: Any) -> None:
    torch.compiler.reset()
    arguments = {"num_classes": 3, "class_counts": [50.0, 30.0, 20.0]} | options | rest
    eager, objective = (RobustObjective(name, **arguments) for _ in range(2))
    compiled = torch.compile(objective, fullgraph=True, backend=backend)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits = torch.randn(16, 3, generator=generator).requires_grad_()
        other = logits.detach().clone().requires_grad_()
        labels = torch.randint(0, 3, (16,), generator=generator)
        one, two = eager(logits, labels), compiled(other, labels)
        one.backward()
        two.backward()
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(logits.grad, other.grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(eager.state_dict(), objective.state_dict(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_one_graph(name: str, options: dict[str, Any]) -> None:
    check(name, options, "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), SLOW, ids=str)
def test_one_graph_of_long_iterations(name: str, options: dict[str, Any]) -> None:
    check(name, options, "aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["advshift", "exact"])
def test_one_kernel_graph(name: str) -> None:
    check(name, OPTIONS.get(name, {}), "inductor")


def test_a_manual_commit_compiles() -> None:
    torch.compiler.reset()
    objective = RobustObjective("advshift", num_classes=3, update="manual")
    plain = RobustObjective("advshift", num_classes=3, update="manual")
    commit = torch.compile(objective.step, fullgraph=True, backend="aot_eager")
    logits, labels = torch.randn(8, 3, requires_grad=True), torch.arange(8) % 3
    for _ in range(2):
        objective(logits, labels)
        plain(logits, labels)
        commit()
        plain.step()
    torch.testing.assert_close(objective.state_dict(), plain.state_dict())
