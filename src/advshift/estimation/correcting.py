"""Prior correction of a file of probabilities, and the file that comes out."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from advshift.audit.readers.outputs import Outputs
from advshift.audit.readers.quoting import literal
from advshift.errors import InputError
from advshift.estimation.assembly import smoothed
from advshift.estimation.record import EstimateRecord
from advshift.files import write_atomically
from advshift.posthoc import correct_probabilities
from advshift.priors import CALIBRATIONS
from advshift.types import Array

__all__ = ["FORMATS", "check_format", "correct_file", "corrected_probabilities"]

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".npz")


def corrected_probabilities(record: EstimateRecord, outputs: Outputs) -> Float[Array, "examples classes"]:
    """The probabilities under the estimated mix: calibrated as for the estimate, then times `q/p`, normalised.

    One example's worth of the source's mix is kept in `q`, so that no class is ruled out by a sample.
    """
    if outputs.hard:
        raise InputError(
            f"{outputs.name} has predicted classes alone, and a correction weighs probabilities; give a file with them"
        )
    rows = outputs.probabilities
    made = record.method.calibration
    if made is not None:
        calibration = CALIBRATIONS[made.name]()
        calibration.scale, calibration.bias = np.array(made.scale), np.array(made.bias)
        rows = calibration(rows)
    return correct_probabilities(
        rows, record.model_prior, smoothed(record.prior, record.model_prior, record.target.rows)
    )


def correct_file(record: EstimateRecord, outputs: Outputs, path: Path) -> float:
    """Write corrected probabilities and predictions; return the share of predictions that changed.

    Columns of the input other than its probabilities and predictions are kept as they are.
    """
    check_format(path)
    rows = corrected_probabilities(record, outputs)
    guesses = rows.argmax(axis=1)
    write_atomically(path, _WRITERS[path.suffix.lower()](outputs, rows, guesses))
    return float(np.mean(guesses != outputs.probabilities.argmax(axis=1)))


def check_format(path: Path) -> None:
    """Raise unless the name says how to write the file."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot tell the format of {str(path)!r}; name it with one of {', '.join(FORMATS)}")


def _header(outputs: Outputs) -> list[str]:
    return [*_kept(outputs), "prediction", *[f"probability_{label}" for label in outputs.classes]]


def _kept(outputs: Outputs) -> dict[str, Any]:
    made = {"prediction", *[f"probability_{label}" for label in outputs.classes]}
    return {name: column for name, column in outputs.others.items() if name not in made}


def _table(outputs: Outputs, rows: Any, guesses: Any) -> Iterator[list[Any]]:
    kept = [np.ma.asarray(column).tolist() for column in _kept(outputs).values()]
    for number, (guess, row) in enumerate(zip(guesses.tolist(), rows, strict=True)):
        yield [*[column[number] for column in kept], outputs.classes[guess], *row.tolist()]


def _delimited(outputs: Outputs, rows: Any, guesses: Any, delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(_header(outputs))
    writer.writerows(_table(outputs, rows, guesses))
    return text.getvalue()


def _tabbed(outputs: Outputs, rows: Any, guesses: Any) -> str:
    return _delimited(outputs, rows, guesses, "\t")


def _json_lines(outputs: Outputs, rows: Any, guesses: Any) -> str:
    header = _header(outputs)
    lines = (dict(zip(header, row, strict=True)) for row in _table(outputs, rows, guesses))
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False, default=str) + "\n" for line in lines)


def _parquet(outputs: Outputs, rows: Any, guesses: Any) -> bytes:
    """Through DuckDB, which has the types of the columns from their text."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="advshift-") as folder, duckdb.connect(":memory:") as connection:
        text, made = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        text.write_text(_delimited(outputs, rows, guesses), encoding="utf-8", newline="")
        connection.execute(
            f"COPY (SELECT * FROM read_csv({literal(str(text))}, header = true, sample_size = -1)) "
            f"TO {literal(str(made))} (FORMAT parquet)"
        )
        return made.read_bytes()


def _arrays(outputs: Outputs, rows: Any, guesses: Any) -> bytes:
    buffer = io.BytesIO()
    classes = np.array(outputs.classes)
    kept: dict[str, Any] = {
        name: np.array(np.ma.asarray(column).tolist(), dtype=str) for name, column in _kept(outputs).items()
    }
    kept |= {"classes": classes, "predictions": classes[guesses], "probabilities": rows}
    np.savez_compressed(buffer, **kept)
    return buffer.getvalue()


_WRITERS: dict[str, Any] = {
    ".csv": _delimited,
    ".tsv": _tabbed,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
    ".npz": _arrays,
}
