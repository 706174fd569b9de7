"""From the arguments of a command to statistics: what each file is decides who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from advshift.audit.readers.aggregated import read_aggregated
from advshift.audit.readers.arrays import read_arrays
from advshift.audit.readers.checks import PairingError
from advshift.audit.readers.columns import Wanted, find_columns, is_aggregated
from advshift.audit.readers.examples import read_paired, read_single
from advshift.audit.readers.numpy_files import load_arrays
from advshift.audit.readers.plans import metric_of, plan_of, store_costs
from advshift.audit.readers.sources import Source, checksum, open_source
from advshift.audit.readers.tables import MEMORY, Database, Table, open_database, open_table
from advshift.audit.reading import Input, Options, Reading, Warned
from advshift.errors import InputError

__all__ = ["read_files"]


def read_files(
    files: Sequence[str],
    options: Options | None = None,
    wanted: Wanted | None = None,
    *,
    memory: str = MEMORY,
    threads: int | None = None,
    checksums: bool = True,
) -> Reading:
    """Read the predictions of one model per argument.

    Parameters
    ----------
    files
        Each a file, `NAME=FILE`, a folder, a pattern in quotes, or `-` for standard input.
    options, wanted
        How examples are read, and the columns that the user names.
    memory, threads
        What the database may use.
    checksums
        Whether the files' SHA-256 are computed beside the reading.
    """
    options, wanted = options or Options(), wanted or Wanted()
    if not files:
        raise InputError("expected at least one file of predictions")
    with ExitStack() as stack:
        sources = [stack.enter_context(open_source(file)) for file in files]
        _check_names([source.model for source in sources])
        pool = stack.enter_context(ThreadPoolExecutor(1))
        sums = [pool.submit(checksum, source.paths) if checksums else None for source in sources]
        reading = _read(sources, options, wanted, stack.enter_context(open_database(memory, threads)))
        reading.inputs = [
            replace(one, path=source.name, sha256=None if future is None else future.result())
            for one, source, future in zip(reading.inputs, sources, sums, strict=True)
        ]
    return reading


def _check_names(names: Sequence[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"two models would be called {repeated!r}; name them apart: first=FILE second=FILE")


def _read(sources: Sequence[Source], options: Options, wanted: Wanted, database: Database) -> Reading:
    if all(source.kind in ("npz", "npy") for source in sources):
        return _read_arrays(sources, options, wanted)
    if any(source.kind in ("npz", "npy") for source in sources):
        parts = [_read([source], options, wanted, database) for source in sources]
        return _side_by_side(parts, "arrays and tables cannot be matched row by row")
    tables = [
        tuple(open_table(database, path, source.kind, name) for path, name in _files(source)) for source in sources
    ]
    aggregated = [is_aggregated(list(one[0].types)) for one in tables]
    if any(aggregated):
        pairs = zip(sources, tables, aggregated, strict=True)
        parts = [
            _read_aggregated(database, source, one, options, wanted)
            if summed
            else _read_tables([source], [one], options, wanted, database)
            for source, one, summed in pairs
        ]
        return parts[0] if len(parts) == 1 else _side_by_side(parts, "a table of sums has no examples to match")
    return _read_tables(sources, tables, options, wanted, database)


def _files(source: Source) -> list[tuple[Path, str]]:
    return list(zip(source.paths, source.labels, strict=True))


def _read_arrays(sources: Sequence[Source], options: Options, wanted: Wanted) -> Reading:
    found = []
    for source in sources:
        if len(source.paths) > 1:
            raise InputError(f"{source.name} holds several NumPy files; give them one by one, or as one file")
        found.append(load_arrays(source.paths[0], source.kind, source.labels[0], source.model, wanted))
    reading = read_arrays([examples for examples, _ in found], options)
    reading.notices += [f"{source.name}: {said}" for source, (_, said) in zip(sources, found, strict=True)]
    return reading


def _read_aggregated(
    database: Database, source: Source, tables: tuple[Table, ...], options: Options, wanted: Wanted
) -> Reading:
    statistics, metric, said = read_aggregated(database, tables, wanted, options, source.model)
    inputs = [Input(source.model, int(statistics.counts.sum()))]
    return Reading((source.model,), (statistics,), metric, inputs, [f"{source.name}: {said}"])


def _side_by_side(parts: Sequence[Reading], reason: str) -> Reading:
    """Put readings of different models next to each other."""
    names = {part.metric.name for part in parts}
    if len(names) > 1:
        raise InputError(f"the models must be measured by the same metric; found {', '.join(sorted(names))}")
    joined = Reading((), (), parts[0].metric)
    for part in parts:
        joined.models += part.models
        joined.statistics += part.statistics
        joined.inputs += part.inputs
        joined.notices += part.notices
        joined.warnings += part.warnings
    _ = joined.classes
    joined.warnings.append(Warned("unpaired", f"The models cannot be compared example by example: {reason}."))
    return joined


def _read_tables(
    sources: Sequence[Source],
    tables: Sequence[tuple[Table, ...]],
    options: Options,
    wanted: Wanted,
    database: Database,
) -> Reading:
    found = [find_columns(one[0].types, wanted, source.name) for source, one in zip(sources, tables, strict=True)]
    metric = metric_of(found[0], options, tables[0][0])
    by_id = all(columns.id for columns in found)
    plans = [
        plan_of(database, one, columns, metric, options, by_id=by_id)
        for one, columns in zip(tables, found, strict=True)
    ]
    if metric.kind == "cost":
        store_costs(database, metric)
    notices = [f"{source.name}: {columns.describe()}" for source, columns in zip(sources, found, strict=True)]
    models = tuple(source.model for source in sources)
    try:
        paired = read_single(database, plans[0], models) if len(plans) == 1 else read_paired(database, plans, models)
    except PairingError as error:
        if by_id:
            raise
        parts = [
            Reading((model,), (one,), metric, [Input(model, int(one.counts.sum()))])
            for model, plan in zip(models, plans, strict=True)
            for one in [read_single(database, plan, (model,))]
        ]
        reading = _side_by_side(parts, str(error))
        reading.notices = notices
        return reading
    inputs = [Input(model, int(paired.counts.sum())) for model in models]
    return Reading(models, (paired,), metric, inputs, notices)
