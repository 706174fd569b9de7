"""Readers of prediction files: tables through DuckDB, arrays through NumPy, and tables that are aggregated already."""

from __future__ import annotations

from advshift.audit.readers.arrays import Examples, read_arrays
from advshift.audit.readers.columns import Wanted
from advshift.audit.readers.files import read_files
from advshift.audit.readers.tables import MEMORY
from advshift.audit.reading import Options, Reading

__all__ = ["MEMORY", "Examples", "Options", "Reading", "Wanted", "read_arrays", "read_files"]
