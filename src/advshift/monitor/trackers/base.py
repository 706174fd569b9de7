"""What every way of keeping a running estimate shares: pure steps on a state of named arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from jaxtyping import Float

from advshift.errors import InputError
from advshift.monitor.source import Batch, SourceModel
from advshift.types import Array, PriorEstimate

__all__ = ["State", "Tracker", "TrackerOptions"]

State: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class TrackerOptions:
    """How much is remembered, and how a window is estimated.

    Attributes
    ----------
    window
        The examples of the sliding window.
    half_life
        The examples after which exponential forgetting has halved a weight; by default a third of the window, which
        is then worth about as many examples.
    estimator, calibration
        Of a window, by the names that `advshift estimate` has.
    horizon
        The rounds for which online steps are optimal; None lets the steps of `rogd` tune themselves.
    """

    window: int = 1000
    half_life: float | None = None
    estimator: str = "bbse"
    calibration: str | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        if self.window < 2:
            raise InputError(f"the window must hold 2 examples or more; got {self.window}")
        if self.half_life is not None and not self.half_life > 0:
            raise InputError(f"the half-life must be a number of examples above 0; got {self.half_life}")
        if self.horizon is not None and self.horizon < 1:
            raise InputError(f"the horizon must be 1 round or more; got {self.horizon}")


class Tracker(ABC):
    """A running estimate of the stream's label distribution.

    Parameters
    ----------
    source
        The labelled source.
    options
        What is remembered, and how.
    """

    name: ClassVar[str]

    def __init__(self, source: SourceModel, options: TrackerOptions) -> None:
        self.source = source
        self.options = options

    @abstractmethod
    def start(self) -> State:
        """The state before the first example."""

    @abstractmethod
    def update(self, state: State, batch: Batch) -> State:
        """Take in some predictions."""

    def close(self, state: State) -> State:
        """End a round; only the online methods have rounds."""
        return state

    @abstractmethod
    def estimate(self, state: State) -> PriorEstimate | None:
        """The label distribution with its covariance; None while there are too few examples."""

    def adapted(self, state: State) -> Float[Array, " classes"] | None:
        """The label distribution to correct the next predictions for, where that is not the estimate."""
        return None
