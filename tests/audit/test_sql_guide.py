"""The guide's SQL, run as it is printed, gives tables from which the audit finds what it finds in the examples."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from advshift.audit.readers import Options, read_files

GUIDE = Path(__file__).parents[2] / "docs" / "audit-sql.md"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    labels, guesses = generator.integers(0, 5, (2, 4000))
    losses = generator.exponential(1.0, 4000)
    path = tmp_path / "rows.csv"
    lines = (f"{k},{a},{b},{c!r}\n" for k, (a, b, c) in enumerate(zip(labels, guesses, losses.tolist(), strict=True)))
    path.write_text("id,label,prediction,loss\n" + "".join(lines))
    return path


def _summed(rows: Path, query: str) -> str:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE predictions AS SELECT * FROM '{rows}'")
    target = rows.parent / "summed.csv"
    connection.execute(f"COPY ({query}) TO '{target}' (HEADER)")
    return str(target)


def test_every_query_of_the_guide(rows: Path) -> None:
    queries = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(queries) == 3
    for query, metric, folds in zip(queries, ("error", "loss", "loss"), (1, 1, 10), strict=True):
        (single,) = read_files([str(rows)], Options(metric=metric)).statistics
        (summed,) = read_files([_summed(rows, query)]).statistics
        assert summed.folds == folds
        assert summed.classes == single.classes
        assert summed.count.tolist() == single.count.tolist()
        np.testing.assert_allclose(summed.means, single.means, rtol=1e-12)
        np.testing.assert_allclose(summed.products.sum(axis=1), single.products.sum(axis=1), rtol=1e-12)
        sizes = summed.counts.sum(axis=0)
        assert sizes.min() > 0.8 * sizes.mean()
