"""The example on a real local cluster gives what one process gives."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import advshift
from advshift.audit import ClassStatistics, read_files

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "audit_distributed.py"

if importlib.util.find_spec("distributed") is None:
    pytest.skip("dask.distributed is not installed: pip install 'dask[distributed]'", allow_module_level=True)

RUN = """
import importlib.util, sys
sys.path.insert(0, {folder!r})
import audit_distributed
if __name__ == "__main__":
    print(audit_distributed.merged_statistics(sys.argv[1:]).to_json())
"""


def test_workers_merge_to_what_one_process_reads(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for k in range(5):
        labels, guesses = generator.integers(0, 6, (2, 300))
        rows = "".join(f"{a},{b}\n" for a, b in zip(labels, guesses, strict=True))
        (tmp_path / f"part{k}.csv").write_text("label,prediction\n" + rows)
    script = tmp_path / "run.py"
    script.write_text(RUN.format(folder=str(EXAMPLE.parent)))
    files = sorted(map(str, tmp_path.glob("*.csv")))
    # A process of its own: the workers are started afresh and import the example by its name.
    environment = {**os.environ, "PYTHONPATH": f"{Path(advshift.__file__).parents[1]}:{EXAMPLE.parent}"}
    done = subprocess.run(
        [sys.executable, str(script), *files], capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = ClassStatistics.from_json(done.stdout)
    (whole,) = read_files([f"model={tmp_path}/*.csv"]).statistics
    assert found.classes == whole.classes
    assert found.counts.tolist() == whole.counts.tolist()
    assert found.sums.tolist() == whole.sums.tolist()
    assert found.products.tolist() == whole.products.tolist()
