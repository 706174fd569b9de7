"""The ablation's runs: AdvShift with one factor changed, beside AdvShift as it is, which is that of tier B."""

from __future__ import annotations

from collections.abc import Mapping

from advshift.experiments.protocol import protocol
from advshift.experiments.records import Record
from advshift.experiments.selection import runs_of

__all__ = ["RADII_OF_FACTORS", "ablated", "factor_name", "factors_of"]

RADII_OF_FACTORS = (0.1, 0.5)


def ablated(records: Mapping[str, Record], factor: str, radius: float) -> list[Record]:
    """The finished runs of AdvShift at a radius with a factor changed; `"plain"` is AdvShift as it is."""
    if factor == "plain":
        return runs_of(records, "radii", f"advshift-{radius:g}")
    return runs_of(records, "ablation", f"{factor}@{radius:g}")


def factors_of(records: Mapping[str, Record], radius: float) -> list[str]:
    """The factors that have a finished run at a radius, in the protocol's order."""
    found = {record.about["method"] for record in records.values() if record.finished}
    methods = dict.fromkeys(run.method for run in protocol() if run.group == "ablation")
    return [
        name for name, _, at in (method.partition("@") for method in methods if method in found) if at == f"{radius:g}"
    ]


def factor_name(factor: str) -> str:
    """A factor in words.

    >>> factor_name("clip-0.5"), factor_name("plain"), factor_name("neither")
    ('clip 0.5', 'as it is', 'neither clip nor stabiliser')
    """
    known = {"plain": "as it is", "neither": "neither clip nor stabiliser", "clip-none": "no clip"}
    return known.get(factor, factor.replace("-", " "))
