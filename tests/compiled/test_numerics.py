"""The forms for compiled code make one graph, without a read of the device, and agree with the eager ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from advshift import numerics

REFERENCE = torch.tensor([0.2, 0.3, 0.5, 0.0], dtype=torch.float64)
OTHER = torch.tensor([0.3, 0.3, 0.2, 0.2], dtype=torch.float64)
VALUES = torch.tensor([[0.9, 0.3, 0.1, -0.2], [0.1, 0.2, 0.3, 2.0]], dtype=torch.float64)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "divergence": (
        lambda q, p: (numerics.divergence("kl", q, p, check=False),),
        lambda q, p: (numerics.divergence("kl", q, p),),
        (REFERENCE, OTHER),
    ),
    "wright_omega": (lambda v: (numerics.wright_omega(v),), lambda v: (numerics.wright_omega(v),), (VALUES,)),
    "project_simplex": (
        lambda v: (numerics.project_simplex(v, check=False),),
        lambda v: (numerics.project_simplex(v),),
        (VALUES,),
    ),
    "project_kl_ball": (
        lambda v, p: numerics.project_kl_ball(v, p, 0.1, steps=7)[:5],
        lambda v, p: numerics.project_kl_ball(v, p, 0.1)[:5],
        (VALUES, REFERENCE),
    ),
    "mirror_step": (
        lambda a, b, g: (numerics.mirror_step(a, b, g, 0.1, 1.0),),
        lambda a, b, g: (numerics.mirror_step(a, b, g, 0.1, 1.0),),
        (OTHER.log(), REFERENCE.log(), VALUES),
    ),
    "exact_proximal_step": (
        lambda a, b, g: numerics.exact_proximal_step(a, b, g, 0.5, 9.0, 0.02, steps=6),
        lambda a, b, g: numerics.exact_proximal_step(a, b, g, 0.5, 9.0, 0.02),
        (OTHER.log(), REFERENCE.log(), VALUES),
    ),
}


def _compare(name: str, backend: str) -> None:
    fixed, eager, arguments = CASES[name]
    torch.compiler.reset()
    found = torch.compile(fixed, fullgraph=True, backend=backend)(*arguments)
    for part, whole in zip(found, eager(*arguments), strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_one_graph(name: str) -> None:
    _compare(name, "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_inductor(name: str) -> None:
    _compare(name, "inductor")
