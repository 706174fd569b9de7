"""How fast the audit's reader is, beside DuckDB alone computing the same folds, sums and cross-products.

    python benchmarks/audit_throughput.py [rows] [probability_rows] [repeats]

Runs of both are interleaved; medians, and the median of the ratios of neighbours, are printed. The reader runs in a
process of its own once more for its peak memory. Files are made with DuckDB in a temporary folder and removed.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from advshift.audit.folds import FOLDS, sql_fold_of_row
from advshift.audit.readers import MEMORY, Options, read_files

REPEATS = 7
CLASSES = 1000
COLUMNS = 100


def make_table(path: Path, rows: int) -> None:
    """Write labels, predictions and losses."""
    duckdb.execute(
        f"""COPY (SELECT label, CASE WHEN random() < 0.8 THEN label ELSE (random() * {CLASSES - 1})::INTEGER END AS
        prediction, -ln(1.0 - random()) AS loss FROM (SELECT (random() * {CLASSES - 1})::INTEGER AS label FROM
        range({rows}))) TO '{path}' (FORMAT parquet)"""
    )


def make_probabilities(path: Path, rows: int) -> None:
    """Write a label and a probability for each of `COLUMNS` classes."""
    scores = ", ".join(f"random() AS s{k}" for k in range(COLUMNS))
    total = " + ".join(f"s{k}" for k in range(COLUMNS))
    shares = ", ".join(f"s{k} / total AS prob_{k}" for k in range(COLUMNS))
    duckdb.execute(
        f"""COPY (SELECT label, {shares} FROM (SELECT *, {total} AS total FROM (SELECT
        (random() * {COLUMNS - 1})::INTEGER AS label, {scores} FROM range({rows})))) TO '{path}' (FORMAT parquet)"""
    )


def plain(path: Path, value: str) -> int:
    """Compute folds, counts, sums and sums of squares with DuckDB and nothing else."""
    fold = sql_fold_of_row("CAST(file_row_number AS UBIGINT)", path.name, FOLDS, 0)
    connection = duckdb.connect()
    groups = connection.execute(
        f"""SELECT label, fold, count(*), sum(v), sum(v * v) FROM (SELECT label, {fold} AS fold, CAST({value} AS DOUBLE)
        AS v FROM read_parquet('{path}', file_row_number = true)) GROUP BY label, fold"""
    ).fetchnumpy()
    connection.close()
    return len(groups["label"])


def ours(path: Path, metric: str, *, checksums: bool = False) -> int:
    """Read the same with the audit's reader, checks and all."""
    reading = read_files([str(path)], Options(metric=metric), checksums=checksums)
    return int((reading.statistics[0].counts > 0).sum())


def seconds(function: Callable[[], int]) -> tuple[float, int]:
    """Time one call."""
    start = time.perf_counter()
    groups = function()
    return time.perf_counter() - start, groups


def compare(title: str, rows: int, repeats: int, ours_: Callable[[], int], plain_: Callable[[], int]) -> None:
    """Interleave the two, and print medians and the ratio of throughputs."""
    assert ours_() == plain_(), "the two must find the same groups"
    pairs = [(seconds(ours_)[0], seconds(plain_)[0]) for _ in range(repeats)]
    mine, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{title:<34}{rows / mine / 1e6:>9.1f}{rows / theirs / 1e6:>9.1f}{ratio:>9.2f}", flush=True)


def peak(path: Path, metric: str) -> float:
    """The peak memory of a process that reads the file, in GB."""
    done = subprocess.run([sys.executable, __file__, "--peak", str(path), metric], capture_output=True, check=True)
    return float(done.stdout) / 2**20


def main(rows: int = 10_000_000, probability_rows: int = 1_000_000, repeats: int = REPEATS) -> None:
    """Make the files and print the table."""
    with tempfile.TemporaryDirectory(prefix="advshift-benchmark-") as folder:
        table, wide = Path(folder) / "table.parquet", Path(folder) / "wide.parquet"
        make_table(table, rows)
        make_probabilities(wide, probability_rows)
        print(f"million rows a second; {rows:,} rows of label, prediction, loss; memory limit {MEMORY}\n")
        print(f"{'':<34}{'reader':>9}{'DuckDB':>9}{'ratio':>9}")
        error = "label <> prediction"
        compare("error", rows, repeats, lambda: ours(table, "error"), lambda: plain(table, error))
        compare("loss", rows, repeats, lambda: ours(table, "loss"), lambda: plain(table, "loss"))
        compare(
            "error, with SHA-256",
            rows,
            repeats,
            lambda: ours(table, "error", checksums=True),
            lambda: plain(table, error),
        )
        print(f"\npeak memory of the process: {peak(table, 'error'):.2f} GB\n")
        for metric in ("error", "top-5", "log-loss"):
            took = statistics.median(seconds(lambda metric=metric: ours(wide, metric))[0] for _ in range(3))
            title = f"{metric} of {probability_rows:,} x {COLUMNS}"
            print(f"{title:<34}{probability_rows / took / 1e6:>9.2f}")
        print(f"\npeak memory of the process: {peak(wide, 'log-loss'):.2f} GB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        ours(Path(sys.argv[2]), sys.argv[3])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main(*map(int, sys.argv[1:]))
