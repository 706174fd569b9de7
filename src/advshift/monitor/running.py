"""The whole watch: source and stream in; reports, log, state and metrics out; safe to stop and to kill at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from advshift import __version__
from advshift.audit.readers.distributions import read_classes, read_reference
from advshift.audit.readers.outputs import Outputs, read_outputs
from advshift.errors import InputError
from advshift.monitor.engine import Monitor
from advshift.monitor.ledger import Ledger
from advshift.monitor.lines import BadLineError, Format, Parser, Prediction, detect
from advshift.monitor.report import header
from advshift.monitor.request import STANDARD_INPUT, Hearing, Request, Signals, Silence, Stopped
from advshift.monitor.source import Batch, SourceModel, make_source, training_mix
from advshift.monitor.streams import Growing, Piped, TableRows, Whole

__all__ = ["watch"]

NAMED = 5  # faulty lines that are named one by one; after that every tenfold number
BEGINNING = {"line": 0, "offset": 0, "bad": 0, "first": None}  # of a stream
HOPELESS = 100  # lines without a single prediction after which the stream is taken to be something else


def watch(request: Request, hearing: Hearing | None = None) -> Stopped:
    """Read the stream to its end, or until a signal.

    Parameters
    ----------
    request
        What is asked for.
    hearing
        Who is told.
    """
    ledger = Ledger(request.state, request.log, request.prometheus)
    signals = Signals()
    with signals.caught():
        run = _Watch(request, ledger, hearing or Silence(), signals)
        try:
            run.read()
            run.finish()
        finally:
            ledger.close()
    return run.stopped()


class _Watch:
    """One run: where it stands in the stream."""

    def __init__(self, request: Request, ledger: Ledger, hearing: Hearing, stop: Signals) -> None:
        self.request, self.ledger, self.hearing, self.stop = request, ledger, hearing, stop
        self.outputs = _read_source(request)
        self.training = _training(request, self.outputs)
        for notice in self.outputs.notices:
            hearing.noticed(notice)
        self.identity = _identity(request, self.outputs, self.training)
        ledger.check_same(self.identity)
        saved = ledger.saved
        self.place: dict[str, Any] = BEGINNING | ({} if saved is None else saved["place"])
        self.skip = int(self.place["line"]) if request.replay and request.stream == STANDARD_INPUT else 0
        self.stream: Piped | Growing | Whole | None = None
        self.parser: Parser | None = None
        self.monitor: Monitor | None = None
        self.taken: list[Prediction] = []
        self.broken: BrokenPipeError | None = None

    def read(self) -> None:
        """Read all that there is."""
        if self.request.is_table:
            self._read_table()
            return
        if self.place["first"] is not None:
            self._begin_lines(self.place["first"])
        self.stream = self._stream()
        for block in self.stream.blocks():
            for raw in block:
                self._line(raw)
            self._hand_on()
            if self.ledger.due():
                self._save()
            if self.stop() or self.broken is not None:
                return

    def _stream(self) -> Piped | Growing | Whole:
        name = self.request.stream
        if name == STANDARD_INPUT:
            return Piped(self.stop)
        offset = int(self.place["offset"])
        if offset and self._is_another(Path(name)):
            self._restarted()
            offset = 0
        if self.request.follow:
            return Growing(name, offset, self.stop, self._restarted)
        return Whole(name, offset, self.stop, last=self.request.state is None)

    def _is_another(self, path: Path) -> bool:
        """Whether the name leads to another file than the saved watch had read: a followed one that was replaced."""
        if not path.is_file():
            return False
        now, inode = path.stat(), self.place.get("inode")
        return now.st_size < self.place["offset"] or (self.request.follow and inode not in (None, now.st_ino))

    def _restarted(self) -> None:
        self.hearing.noticed(f"{self.request.stream} is a new file; it is read from its beginning")
        self.place |= {"line": 0, "offset": 0}

    def _line(self, raw: bytes) -> None:
        if self.skip:
            self.skip -= 1
            return
        before = dict(self.place)
        self.place["line"] += 1
        self.place["offset"] += len(raw) + 1
        try:
            text = raw.decode("utf-8-sig" if before["line"] == 0 else "utf-8").rstrip("\r")
            if not text.strip() or self._is_header(text):
                return
            assert self.parser is not None
            self.taken.append(self.parser.line(text))
        except UnicodeDecodeError:
            self._fault("is not text in UTF-8", before)
        except BadLineError as error:
            self._fault(str(error), before)

    def _is_header(self, text: str) -> bool:
        """Whether a line names columns; the first one of all says how the stream is written."""
        if self.parser is None:
            self.place["first"] = text
            self._begin_lines(text)
        assert self.parser is not None
        return text == self.parser.form.header

    def _begin_lines(self, first: str) -> None:
        self._begin(detect(first, self._name(), self.request.wanted, self.request.time, self.outputs.classes))

    def _read_table(self) -> None:
        rows = TableRows(
            self.request.stream, self.request.wanted, self.request.time, self.place["line"], self.request.memory
        ).rows(self.stop)
        self._begin(Format("table", (), next(rows), self.request.time, None))
        assert self.parser is not None
        for block in rows:
            for row in block:
                before = dict(self.place)
                self.place["line"] += 1
                try:
                    self.taken.append(self.parser.row(row))
                except BadLineError as error:
                    self._fault(str(error), before)
            self._hand_on()
            if self.ledger.due():
                self._save()
            if self.stop() or self.broken is not None:
                return

    def _begin(self, form: Format) -> None:
        """Now that the stream's form is known, make the monitor, and take up what was saved."""
        hard = self.outputs.hard or not form.soft
        if self.outputs.hard and form.soft:
            self.hearing.noticed("the source has predicted classes alone, so the stream's probabilities are not used")
        if form.soft is False and not self.outputs.hard:
            self.hearing.noticed("the stream has predicted classes alone, so the source's probabilities are not used")
        source = self._source_model(hard)
        self.parser = Parser(form, source.classes, hard=hard, renormalise=self.request.renormalise)
        self.monitor = Monitor(source, self.request.settings)
        if self.ledger.saved is not None:
            self.monitor.restore(self.ledger.saved["monitor"])
            self.hearing.noticed(f"going on after {self.monitor.examples + self.monitor.held:,} examples")
        request = self.request
        details = {
            "source": request.source,
            "stream": request.stream,
            "reference": request.reference,
            "time": request.time,
        }
        first = header(source, request.settings, __version__, details)
        self.ledger.header = first
        self._tell(lambda: self.hearing.opened(first))

    def _source_model(self, hard: bool) -> SourceModel:
        outputs = self.outputs
        assert outputs.labels is not None
        return make_source(outputs.classes, outputs.probabilities, outputs.labels, hard=hard, training=self.training)

    def _fault(self, reason: str, before: dict[str, Any]) -> None:
        """Count a faulty line, name it, and stop there if that was asked for."""
        self._hand_on()
        what = "row" if self.request.is_table else "line"
        sentence = f"{what} {self.place['line']:,} {reason}"
        if self.request.on_bad_line == "stop":
            self.place = before
            self._save()
            raise InputError(f"{sentence}; mend it, or pass over such {what}s with --on-bad-line skip")
        self.place["bad"] += 1
        bad = int(self.place["bad"])
        if bad <= NAMED or str(bad).strip("0") == "1":
            self.hearing.noticed(f"{sentence} ({bad:,} passed over)")
        if bad >= HOPELESS and (self.monitor is None or not self.monitor.examples + self.monitor.held):
            raise InputError(f"none of the first {bad} {what}s is a prediction; the last one, {sentence}")

    def _hand_on(self) -> None:
        """Give the monitor what was parsed, and pass its reports on."""
        if self.monitor is None or not self.taken:
            return
        if not self.ledger.begun:
            if self.ledger.saved is None:
                self._save(BEGINNING)
            self.ledger.begin()
        taken, self.taken = self.taken, []
        batch = _batch(taken)
        times = None if taken[0].time is None else [str(one.time) for one in taken]
        moments = None if taken[0].moment is None else [float(one.moment or 0.0) for one in taken]
        for report in self.monitor.feed(batch, moments, times):
            self._report(report)

    def _report(self, report: dict[str, Any]) -> None:
        whole = report | {"bad_lines": self.place["bad"]}
        self.ledger.report(whole)
        self._tell(lambda: self.hearing.reported(whole))

    def _tell(self, say: Callable[[], None]) -> None:
        """A reader that has gone is remembered: the state must be saved before we stop."""
        if self.broken is not None:
            return
        try:
            say()
        except BrokenPipeError as error:
            self.broken = error

    def finish(self) -> None:
        """At the end of a stream that nothing will go on from, report the rest; save the state."""
        if self.monitor is None and not self.stop():
            raise InputError(f"{self._name()} holds no prediction; expected one in a line, after a header")
        if self.monitor is not None and self.request.state is None and not self.stop() and self.monitor.pending:
            self._report(self.monitor.report())
        self._save()
        if self.broken is not None:
            raise self.broken

    def _name(self) -> str:
        return "standard input" if self.request.stream == STANDARD_INPUT else self.request.stream

    def _save(self, place: dict[str, Any] | None = None) -> None:
        """Save where the stream stands, or that it stands elsewhere."""
        if self.monitor is not None:
            if isinstance(self.stream, Growing):
                self.place["inode"] = self.stream.inode
            content = {"identity": self.identity, "place": place or self.place, "monitor": self.monitor.save()}
            self.ledger.save(content)

    def stopped(self) -> Stopped:
        """How it ended."""
        if self.monitor is None:
            return Stopped(0, 0, 0, self.place["bad"], self.stop.received)
        seen = self.monitor.examples + self.monitor.held
        alarms = self.monitor.alarm_state.alarms + bool(self.monitor.alarm_state.test_alarm)
        return Stopped(seen, self.monitor.pending, alarms, self.place["bad"], self.stop.received)


def _batch(taken: list[Prediction]) -> Batch:
    if taken[0].probabilities is None:
        return Batch(np.array([one.predicted for one in taken], dtype=np.int64), None)
    rows = np.array([one.probabilities for one in taken])
    return Batch(rows.argmax(axis=1), rows)


def _read_source(request: Request) -> Outputs:
    classes = None if request.classes is None else read_classes(request.classes)
    return read_outputs(
        request.source, request.wanted, classes=classes, renormalise=request.renormalise, memory=request.memory
    )


def _training(request: Request, outputs: Outputs) -> Any:
    """The label distribution of training; None where the source's own counts for it."""
    if request.reference == "empirical":
        return None
    if request.reference == "uniform":
        return np.full(len(outputs.classes), 1.0 / len(outputs.classes))
    found = read_reference(request.reference)
    return training_mix(outputs.classes, found.classes, found.distribution)


def _identity(request: Request, outputs: Outputs, training: Any) -> dict[str, Any]:
    """What must be the same for a saved watch to go on."""
    return {
        "source": outputs.sha256,
        "classes": [str(one) for one in outputs.classes],
        "reference": request.reference if training is None else training.tolist(),
        "stream": request.stream,
        "time": request.time,
        "renormalise": request.renormalise,
        **request.settings.to_dict(),
    }
