"""What a person sees: a table over a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from advshift.training.progress import Lines, Reporter, Screen, Silent, duration, epoch_cells, reporter_for

ROW: dict[str, Any] = {"epoch": 3, "train": {"loss": 1.25}, "images_per_second": 1234.5}
MEASURED = {"error": 0.25, "worst_class_error": 0.5, "worst_case": {"0.5": 0.3, "1": 0.4, "2": 0.45}}


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_gets_a_screen() -> None:
    assert isinstance(reporter_for(console(terminal=True)), Screen)
    assert isinstance(reporter_for(console(terminal=False)), Lines)
    assert all(isinstance(reporter, Reporter) for reporter in (Silent(), reporter_for(console(terminal=True))))


def test_a_plain_line_tells_everything() -> None:
    place = console(terminal=False)
    Lines(place).epoch(ROW | {"validation": MEASURED}, 20, "validation")
    assert shown(place) == (
        "epoch 3/20   train loss 1.250   validation error 25.0%   worst class 50.0%   worst case at 1 40.0%   "
        "examples/s 1,234\n"
    )


def test_a_screen_is_a_table_with_one_heading() -> None:
    place = console(terminal=True)
    with Screen(place) as screen:
        screen.epoch(ROW | {"validation": MEASURED}, 20, "validation")
        screen.epoch(ROW, 20, "validation")
        screen.epoch(ROW | {"validation": MEASURED}, 20, "validation")
    lines = [line for line in re.sub(r"\x1b\[[?0-9]*[A-Za-z]|\r", "", shown(place)).splitlines() if line.strip()]
    assert lines[0] == "epoch  train loss  validation error  worst class  worst case at 1  examples/s"
    assert lines[1] == " 3/20       1.250             25.0%        50.0%            40.0%       1,234"
    assert lines[2] == " 3/20       1.250                                                       1,234"
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("terminal", [False, True])
def test_steps_show_speed_and_time_left(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    place, clock = console(terminal=terminal), [0.0]
    monkeypatch.setattr("advshift.training.progress.time.monotonic", lambda: clock[0])
    with reporter_for(place) as reporter:
        for step in range(101, 131):  # resumed at 100
            reporter.step(2, 4, step, 200, 64)
            clock[0] += 2.0
    text = shown(place)
    found = re.search(r"epoch 2/4   step (\d+)/200   (\d+) examples/s   (\d+):(\d+) left", text)
    assert found is not None
    step, speed, minutes, seconds = map(int, found.groups())
    assert speed == 32  # 64 examples in two seconds; the first step, which is not timed, counts for nothing
    assert 60 * minutes + seconds == 2 * (200 - step)
    assert max(int(word) for word in re.findall(r"(\d+) examples/s", text.replace(",", ""))) == 32
    assert ("━" in text) == terminal


def test_an_epoch_without_a_measurement_or_without_radii() -> None:
    assert list(epoch_cells(ROW, 20, "validation")) == ["epoch", "train loss", "examples/s"]
    bare = {"error": 0.25, "worst_class_error": 0.5}
    assert "worst class" in epoch_cells(ROW | {"test": bare}, 20, "test")
    assert "worst class" not in epoch_cells(ROW | {"test": bare}, 20, "validation")


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 3599, 3600, 90_000)] == [
        *("0:00", "1:00", "59:59"),
        *("1:00:00", "25:00:00"),
    ]
