"""Every set compiles as one graph, so that a training step never waits for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from strategies import NAMES, Case, make

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [(), (5,)])
def test_one_graph(name: str, batch: tuple[int, ...]) -> None:
    risks = torch.from_numpy(RNG.beta(1.5, 4, (*batch, 20)))
    reference = torch.from_numpy(RNG.dirichlet(np.ones(20)))
    uncertainty_set = make(name, Case(risks.numpy(), reference.numpy(), 0.5))

    def worst(risks: torch.Tensor, reference: torch.Tensor) -> Any:
        return tuple(uncertainty_set.worst_case(risks, reference, steps=16))

    torch.compiler.reset()
    compiled = torch.compile(worst, fullgraph=True, backend="aot_eager")(risks, reference)
    expected = uncertainty_set.worst_case(risks, reference)
    for part, whole in zip(compiled, expected, strict=True):
        torch.testing.assert_close(part, whole, rtol=0, atol=1e-9, equal_nan=True)
