"""An estimate as a table: one row per class."""

from __future__ import annotations

import csv
import io

from advshift.estimation.record import EstimateRecord

__all__ = ["estimate_csv"]


def estimate_csv(record: EstimateRecord) -> str:
    """The classes as CSV; the share is in a column that `--reference` of the audit reads."""
    text = io.StringIO(newline="")
    rows = [
        {"class": entry.label, "share": entry.estimate, **entry.model_dump(exclude={"label", "estimate"})}
        for entry in record.classes
    ]
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
