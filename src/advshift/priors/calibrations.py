"""The calibrations by name."""

from __future__ import annotations

from typing import Any

from advshift.errors import InputError
from advshift.priors.calibration import (
    BiasCorrectedTemperature,
    Calibration,
    Temperature,
    VectorScaling,
    VectorScalingNoBias,
)
from advshift.priors.shrunk_bias import ShrunkBias
from advshift.registry import Registry

__all__ = ["CALIBRATIONS", "make_calibration"]

CALIBRATIONS: Registry[Calibration] = Registry(
    "calibration",
    {
        form.name: form
        for form in (Temperature, BiasCorrectedTemperature, VectorScaling, VectorScalingNoBias, ShrunkBias)
    },
)


def make_calibration(calibration: Any) -> Calibration | None:
    """A calibration by its name, or the given one."""
    if calibration is None or isinstance(calibration, Calibration):
        return calibration
    if isinstance(calibration, str):
        return CALIBRATIONS[calibration]()
    raise InputError(
        f"calibration must be None, a name ({', '.join(CALIBRATIONS)}) or a Calibration; got {calibration!r}"
    )
