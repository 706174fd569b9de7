"""Audit predictions that lie on many machines: workers sum up their own files, and only the sums travel.

    python examples/audit_distributed.py 'predictions/*.parquet'

Statistics per class are small however many examples there are, and they add up in any order. So each worker reads
some of the files into `ClassStatistics`, the results are merged, and the audit is that of all files together. Here a
local Dask cluster of two processes does the work; with an address of a real one nothing else changes.
"""

from __future__ import annotations

import functools
import glob
import sys
from collections.abc import Sequence

from advshift.audit import ClassStatistics, read_files
from advshift.results import AuditResult, audit_statistics


def partial_statistics(file: str) -> str:
    """Read one file; this runs in a worker. JSON is what travels."""
    (statistics,) = read_files([f"model={file}"], threads=1).statistics
    return statistics.to_json()


def merged_statistics(files: Sequence[str], address: str | None = None) -> ClassStatistics:
    """Let the workers of a Dask cluster read the files, and merge what they find."""
    from dask.distributed import Client, LocalCluster

    if address is not None:
        with Client(address) as client:
            return _gather(client, files)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        return _gather(client, files)


def _gather(client, files: Sequence[str]) -> ClassStatistics:  # noqa: ANN001 - Dask is imported late
    parts = client.gather(client.map(partial_statistics, list(files)))
    return functools.reduce(ClassStatistics.merge, map(ClassStatistics.from_json, parts))


def main(pattern: str) -> AuditResult:
    """Audit all files that match a pattern as one model."""
    files = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be anywhere
    result = audit_statistics(merged_statistics(files))
    for point in result.record.models[0].curve:
        print(f"radius {point.radius:g}: {point.plug_in:.4f}, guaranteed below {point.guaranteed_upper:.4f}")
    return result


if __name__ == "__main__":
    main(sys.argv[1])
