"""The tests of compiled code, in a process of their own: torch.compile cannot trace through the shape checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER_WARNS = "ignore:`torch.jit:DeprecationWarning"  # inductor uses what torch itself has deprecated


@pytest.mark.parametrize("kind", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_compiled_code(kind: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    folder = str(Path(__file__).parent / "compiled")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", kind, "-W", COMPILER_WARNS, folder],
        env=environment | {"ADVSHIFT_SHAPE_CHECKS": "0"},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr
