"""Every reduction compiles as one graph, forward and backward, with its state."""

from __future__ import annotations

import pytest
import torch

from advshift import reductions
from advshift.reductions import REDUCTIONS
from advshift.sets import SETS

ARGUMENTS = {
    "mean": (),
    "top-k": (2.5,),
    "cvar": (0.3,),
    "cvar-dual": (0.3,),
    "chi-square": (0.4,),
    "penalised-chi-square": (0.5,),
    "hashimoto": (0.2,),
    "chi-square-dual": (0.4,),
    "tilted": (1.5,),
    "streaming-tilted": (1.5,),
}


def _make(name: str, num_groups: int | None) -> reductions.Reduction:
    if name == "doro":
        return reductions.DORO(0.3, epsilon=0.1, num_groups=num_groups)
    if name == "worst-case":
        return reductions.WorstCaseMean(SETS["tv"](0.2), clip=1.0, num_groups=num_groups)
    if name == "multilevel":
        return reductions.MultiLevel(reductions.CVaR(0.3, num_groups=num_groups), smallest=4, largest=16)
    if name == "kl":
        return reductions.KL(0.4, steps=6, num_groups=num_groups)
    return REDUCTIONS[name](*ARGUMENTS[name], num_groups=num_groups)


@pytest.mark.parametrize(
    ("name", "grouped"), [*((name, False) for name in REDUCTIONS), ("cvar", True), ("tilted", True)]
)
def test_one_graph(name: str, grouped: bool) -> None:
    torch.compiler.reset()
    plain, traced = (_make(name, 3 if grouped else None) for _ in range(2))
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    groups = (torch.arange(16) % 3,) if grouped else ()
    for _ in range(2):
        first = torch.rand(16, requires_grad=True)
        second = first.detach().clone().requires_grad_()
        weights = torch.rand(16)
        expected, got = plain(first, *groups, weights=weights), compiled(second, *groups, weights=weights)
        torch.testing.assert_close(got, expected)
        expected.backward()
        got.backward()
        torch.testing.assert_close(second.grad, first.grad)
    torch.testing.assert_close(dict(traced.named_buffers()), dict(plain.named_buffers()))
