"""What a monitor is asked to do, checked before anything is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from advshift.errors import InputError
from advshift.monitor.trackers import TRACKERS, TrackerOptions
from advshift.numerics.divergences import DIVERGENCES
from advshift.priors import CALIBRATIONS, ESTIMATORS
from advshift.registry import nearest

__all__ = ["Audited", "Settings"]


@dataclass(frozen=True)
class Audited:
    """What an audit found of the model: the worst case at each of its radii."""

    radii: tuple[float, ...]
    worst: tuple[float | None, ...]
    metric: str


@dataclass(frozen=True)
class Settings:
    """Everything but the source and the stream.

    Attributes
    ----------
    method, tracker
        Which running estimate is kept, and how.
    every
        Examples from one report to the next; None where `period` counts.
    period
        Seconds of the time column from one report to the next.
    set_name, radius
        The divergence, and the radius that the model was trained or audited for.
    audited
        What an audit says of the model.
    alpha, run_length
        The false-alarm rates of the two forms of the alarm.
    confidence
        Of the intervals.
    """

    method: str = "window"
    tracker: TrackerOptions = field(default_factory=TrackerOptions)
    every: int | None = 250
    period: float | None = None
    set_name: str = "kl"
    radius: float | int | None = None
    audited: Audited | None = None
    alpha: float = 0.01
    run_length: float | int = 1e5
    confidence: float = 0.95

    def __post_init__(self) -> None:
        _ = TRACKERS[self.method], ESTIMATORS[self.tracker.estimator]
        if self.tracker.calibration is not None:
            _ = CALIBRATIONS[self.tracker.calibration]
        if self.set_name not in DIVERGENCES:
            known = ", ".join(DIVERGENCES)
            raise InputError(f"unknown set {self.set_name!r}{nearest(self.set_name, DIVERGENCES)} (known: {known})")
        if self.every is not None and self.every < 1:
            raise InputError(f"a report must come after 1 example or more; got {self.every}")
        if self.radius is not None and not self.radius >= 0:
            raise InputError(f"the radius must be 0 or more; got {self.radius}")
        if not 0 < self.confidence < 1:
            raise InputError(f"the confidence must lie between 0 and 1; got {self.confidence}")

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and names."""
        return asdict(self)
