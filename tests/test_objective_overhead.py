"""The record of the objective's overhead: the page shows it, and the arithmetic of its ratios is what is said."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "objective-overhead.jsonl"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        path = ROOT / "benchmarks" / "objective_overhead.py"
        specification = importlib.util.spec_from_file_location("objective_overhead", path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return module


def test_the_page_shows_the_record(benchmark: ModuleType) -> None:
    records = [json.loads(line) for line in RECORD.read_text().splitlines()]
    page = (ROOT / "docs" / "training.md").read_text()
    for line in benchmark.table(records).splitlines():
        assert line in page


def test_ratios_are_of_what_is_added(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"base": [100.0] * 4, benchmark.PLAIN: [10.0] * 4, "advshift: added": [35.0] * 4, "whole": [150.0] * 4}
    rows = {row["name"]: row["ratio"] for row in benchmark.compared("a case", times, {"advshift": 1.3})}
    assert rows == {"base": 1.0, benchmark.PLAIN: 0.1, "advshift: added": 1.25, "whole": 1.5}
    assert "(limit 1.3)" in capsys.readouterr().out
