"""The forms for compiled code make one graph, without a read of the device.

A fresh process runs them: here the shape checks wrap every function, and those are no part of what users compile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import advshift

PROGRAM = """
import sys
import numpy as np
import torch
from advshift import numerics

backend = sys.argv[1]
for dtype in (torch.float64, torch.float32):
    wide = dtype == torch.float64
    v = torch.tensor([[0.9, 0.3, 0.1, -0.2], [0.1, 0.2, 0.3, 2.0]], dtype=dtype)
    p = torch.tensor([0.2, 0.3, 0.5, 0.0], dtype=dtype)
    log_p, log_q = p.log(), torch.tensor([0.3, 0.3, 0.2, 0.2], dtype=dtype).log()
    cases = {
        "projection": (lambda v, p: numerics.project_kl_ball(v, p, 0.1, steps=7)[:5], (v, p)),
        "simplex": (lambda v: (numerics.project_simplex(v, check=False),), (v,)),
        "divergence": (lambda q, p: (numerics.divergence("kl", q, p, check=False),), (log_q.exp(), log_q.exp())),
        "omega": (lambda v: (numerics.wright_omega(v),), (v,)),
        "mirror": (lambda a, b, g: (numerics.mirror_step(a, b, g, 0.1, 1.0),), (log_q, log_p, v)),
        "proximal": (lambda a, b, g: numerics.exact_proximal_step(a, b, g, 0.5, 9.0, 0.02, steps=6), (log_p, log_p, v)),
    }
    for name, (function, arguments) in cases.items():
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, backend=backend)(*arguments)
        for found, expected in zip(compiled, function(*arguments), strict=True):
            close = torch.allclose(found, expected, rtol=1e-9 if wide else 1e-3)
            assert close, (name, found, expected)
print("compiled")
"""


def _run(backend: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(advshift.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM, backend], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "compiled", done.stderr[-3000:]


def test_one_graph() -> None:
    _run("eager")


@pytest.mark.slow
def test_inductor() -> None:
    _run("inductor")
