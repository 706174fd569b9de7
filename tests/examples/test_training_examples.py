"""The training examples run as a user runs them: they audit every model, and what was trained beats chance."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import advshift

pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLES = Path(__file__).parents[2] / "examples"
ROW = re.compile(r"^([\w-]+) +([\d.]+|nan|inf) +([\d.]+|nan|inf) +([\d.]+|nan|inf) +([\d.]+|nan|inf)(?:  \w+)?$", re.M)


def run(name: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout


def check_tables(output: str, models: list[str], tables: int = 1) -> None:
    rows = [(name, [float(cell) for cell in cells]) for name, *cells in ROW.findall(output)]
    assert [name for name, _ in rows] == [*models, "largest"] * tables, output
    for start in range(0, len(rows), len(models) + 1):
        table = dict(rows[start : start + len(models) + 1])
        for errors in table.values():
            assert all(map(math.isfinite, errors))
            assert errors == sorted(errors)  # the average, then ever larger balls
        for name in models:
            assert table[name][0] < 0.8 * table["largest"][0]
            assert table[name][2] < table["largest"][2]


CASES = [
    ("train_images.py", "12", ["erm", "advshift", "exact"], 1),
    ("train_text.py", "3", ["erm", "advshift", "group-dro"], 1),
    ("train_tabular.py", "6", ["erm", "classes", "sites"], 2),
]


@pytest.mark.parametrize(("name", "epochs", "models", "tables"), CASES, ids=[case[0] for case in CASES])
def test_trained_models_are_audited_and_beat_chance(
    tmp_path: Path, name: str, epochs: str, models: list[str], tables: int
) -> None:
    page = tmp_path / "audit.html"
    check_tables(run(name, "--epochs", epochs, "--seed", "1", "--output", str(page)), models, tables)
    text = page.read_text()
    assert "<html" in text
    assert all(model in text for model in models)


@pytest.mark.parametrize("name", [case[0] for case in CASES])
def test_short_enough_to_read(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 100
