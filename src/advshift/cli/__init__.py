"""The command line: parse, call one function, print."""

from __future__ import annotations

from advshift.cli.app import main

__all__ = ["main"]
