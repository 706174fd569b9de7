"""The monitor: it takes predictions in, and gives a report whenever one is due."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from advshift.monitor.alarm import Raised, make_alarm
from advshift.monitor.memory import pack, unpack
from advshift.monitor.report import estimated, evidence
from advshift.monitor.settings import Settings
from advshift.monitor.source import Batch, SourceModel
from advshift.monitor.trackers import TRACKERS, State

__all__ = ["Monitor"]

CHUNK = 1000  # examples that are taken in at once; it bounds the memory where a report is far


class Monitor:
    """A running estimate, an alarm, and the examples that wait for the next step.

    What comes out depends on the examples and their times alone, not on how they were cut into batches, and not on
    whether the monitor was saved and restored on the way.

    Parameters
    ----------
    source
        The labelled source.
    settings
        What is asked for.

    >>> from advshift.monitor import make_source
    >>> labels = np.arange(400) % 2
    >>> source = make_source(["cat", "dog"], np.eye(2)[np.where(np.arange(400) % 10 == 0, 1 - labels, labels)], labels)
    >>> monitor = Monitor(source, Settings(every=100))
    >>> (report,) = monitor.feed(Batch(np.zeros(100, dtype=int), np.tile([0.95, 0.05], (100, 1))))
    >>> report["examples"], report["shares"]
    (100, [1.0, 0.0])
    """

    def __init__(self, source: SourceModel, settings: Settings) -> None:
        self.source = source
        self.settings = settings
        self.tracker = TRACKERS[settings.method](source, settings.tracker)
        self.alarm = make_alarm(
            source.predicted, len(source.classes), alpha=settings.alpha, run_length=settings.run_length
        )
        self.state: State = self.tracker.start()
        self.alarm_state = self.alarm.start()
        self.waiting = self._nothing()
        self.raised: list[Raised] = []
        self.examples = 0  # taken in, without those that wait
        self.reported = 0
        self.reports = 0
        self.period: float | None = None
        self.time: str | None = None

    def feed(self, batch: Batch, moments: list[float] | None = None, times: list[str] | None = None) -> Iterator[Any]:
        """Take predictions in their order; yield each report that falls due.

        Parameters
        ----------
        batch
            The predictions.
        moments, times
            Where a time column decides: the seconds of each example, and its time as it was written.
        """
        if self.settings.period is None or moments is None:
            yield from self._count(batch, times)
            return
        for begin, end, period in self._periods(moments):
            if self.period is not None and period > self.period and self.examples + self.held > self.reported:
                yield self.report()
            self.period = period if self.period is None else max(period, self.period)
            yield from self._count(batch.part(begin, end), None if times is None else times[begin:end])

    def report(self) -> dict[str, Any]:
        """Take in what waits, close the round, and say what is known."""
        self._absorb()
        self.state = self.tracker.close(self.state)
        self.reports += 1
        found = self.tracker.estimate(self.state)
        adapted = self.tracker.adapted(self.state)
        report = {
            "kind": "window",
            "number": self.reports,
            "examples": self.examples,
            "since": self.reported,
            "time": self.time,
            "adapted": None if adapted is None else adapted.tolist(),
            **evidence(self.alarm, self.alarm_state, self.raised),
        }
        if found is not None:
            report |= estimated(self.source, self.settings, found)
        self.reported, self.raised = self.examples, []
        return report

    @property
    def pending(self) -> int:
        """The examples since the last report."""
        return self.examples + self.held - self.reported

    @property
    def held(self) -> int:
        """The examples that wait for the next step."""
        return len(self.waiting.predicted)

    def _count(self, batch: Batch, times: list[str] | None) -> Iterator[dict[str, Any]]:
        """Cut a batch where a step or a report falls due."""
        begin, size = 0, len(batch.predicted)
        while begin < size:
            room = CHUNK - self.held
            if self.settings.every is not None and self.settings.period is None:
                room = min(room, self.reported + self.settings.every - self.examples - self.held)
            end = min(size, begin + room)
            self._hold(batch.part(begin, end))
            self.time = self.time if times is None else times[end - 1]
            begin = end
            if self.settings.period is None and self.pending == self.settings.every:
                yield self.report()
            elif self.held == CHUNK:
                self._absorb()

    def _periods(self, moments: list[float]) -> Iterator[tuple[int, int, float]]:
        """Cut a batch where a new period begins; what comes late belongs to the present one."""
        numbers = np.floor(np.asarray(moments) / float(self.settings.period or 1.0))
        numbers = np.maximum.accumulate(np.maximum(numbers, numbers[0] if self.period is None else self.period))
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(edges):
            yield begin, end, float(numbers[begin])

    def _hold(self, batch: Batch) -> None:
        predicted = np.concatenate([self.waiting.predicted, batch.predicted])
        held = self.waiting.rows
        self.waiting = Batch(predicted, None if held is None else np.concatenate([held, batch.rows]))

    def _absorb(self) -> None:
        if not self.held:
            return
        self.state = self.tracker.update(self.state, self.waiting)
        self.alarm_state, raised = self.alarm.update(self.alarm_state, self.waiting.predicted)
        self.raised += raised
        self.examples += self.held
        self.waiting = self._nothing()

    def _nothing(self) -> Batch:
        rows = None if self.source.hard else np.zeros((0, len(self.source.classes)))
        return Batch(np.zeros(0, dtype=np.int64), rows)

    def save(self) -> dict[str, Any]:
        """Everything that the next step needs, ready for JSON, to the last bit."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        arrays = {"predicted": self.waiting.predicted}
        if self.waiting.rows is not None:
            arrays["rows"] = self.waiting.rows
        raised = [list(one) for one in self.raised]
        return plain | {
            "raised": raised,
            "waiting": pack(arrays),
            "tracker": pack(self.state),
            "alarm": pack(_alarm_arrays(self.alarm_state)),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned."""
        for name in _PLAIN:
            setattr(self, name, saved[name])
        self.raised = [Raised(*one) for one in saved["raised"]]
        waiting = unpack(saved["waiting"])
        self.waiting = Batch(waiting["predicted"], waiting.get("rows"))
        self.state = unpack(saved["tracker"])
        self.alarm_state = _alarm_of(unpack(saved["alarm"]))


_PLAIN = ("examples", "reported", "reports", "period", "time")


def _alarm_arrays(state: Any) -> dict[str, Any]:
    starts = {f"starts.{name}": value for name, value in state.starts._asdict().items()}
    numbers = np.array([state.last_alarm, state.alarms, state.test_alarm], dtype=np.int64)
    return {"counts": state.counts, "numbers": numbers, **starts}


def _alarm_of(arrays: dict[str, Any]) -> Any:
    from advshift.monitor.alarm import AlarmState, Starts

    starts = Starts(*(arrays[f"starts.{name}"] for name in Starts._fields))
    return AlarmState(arrays["counts"], starts, *(int(number) for number in arrays["numbers"]))
