"""The engine: reports do not depend on how the stream is cut or on restarts, and say what is true."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advshift.errors import InputError
from advshift.monitor import TRACKERS, Audited, Batch, Monitor, Settings, TrackerOptions
from advshift.monitor.prometheus import exposition
from advshift.monitor.report import divergence_interval, header
from advshift.numerics.divergences import divergence
from advshift.priors import BBSE

from .conftest import SHIFTED, TRAINING, World

WORLD = World()


def reports_of(monitor: Monitor, batch: Batch, cuts: list[int], moments: list[float] | None = None) -> list[Any]:
    found = []
    edges = sorted({0, *cuts, len(batch.predicted)})
    for begin, end in pairwise(edges):
        times = None if moments is None else moments[begin:end]
        found += list(monitor.feed(batch.part(begin, end), times, None if times is None else [f"{t:g}" for t in times]))
    return found


@given(st.lists(st.integers(1, 599), max_size=6), st.integers(20, 400))
@settings(max_examples=10)
def test_cuts_do_not_matter(cuts: list[int], every: int) -> None:
    source, batch = WORLD.source(), WORLD.batch(1, SHIFTED, 600)
    asked = Settings(every=every, tracker=TrackerOptions(window=300))
    assert reports_of(Monitor(source, asked), batch, []) == reports_of(Monitor(source, asked), batch, cuts)


@given(st.lists(st.integers(1, 399), max_size=5))
@settings(max_examples=10)
def test_periods_end_where_the_next_begins(cuts: list[int]) -> None:
    source, batch = WORLD.source(), WORLD.batch(1, SHIFTED, 400)
    moments = np.cumsum(np.random.default_rng(0).exponential(20.0, 400))
    moments[100:110] -= 500.0  # late ones belong to the present period
    found = reports_of(Monitor(source, Settings(every=None, period=1000.0)), batch, cuts, moments.tolist())
    numbers = np.maximum.accumulate(np.floor(moments / 1000.0))
    assert [one["examples"] for one in found] == (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    assert all(one["time"] == f"{moments[one['examples'] - 1]:g}" for one in found)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("name", list(TRACKERS))
def test_a_restart_changes_nothing(name: str, hard: bool) -> None:
    """Through JSON text, at any example, to the last bit."""
    source, batch = WORLD.source(hard=hard), WORLD.batch(2, SHIFTED, 600, hard=hard)
    asked = Settings(method=name, every=150, tracker=TrackerOptions(window=200), run_length=1e3)
    whole = reports_of(Monitor(source, asked), batch, [])
    assert any(one["alarms"] for one in whole)
    monitor, found, begin = Monitor(source, asked), [], 0
    for end in (1, 137, 300, 461, 600):
        found += list(monitor.feed(batch.part(begin, end)))
        saved, monitor, begin = monitor.save(), Monitor(source, asked), end
        monitor.restore(json.loads(json.dumps(saved, allow_nan=False)))
    assert json.dumps(found) == json.dumps(whole)


def test_the_report_is_that_of_the_estimator() -> None:
    source, batch = WORLD.source(), WORLD.batch(3, SHIFTED, 500)
    audited = Audited((0.1, 0.5, 2.0), (0.2, 0.3, 0.4), "error")
    asked = Settings(every=500, tracker=TrackerOptions(window=500), radius=0.1, audited=audited)
    (report,) = Monitor(source, asked).feed(batch)
    found = BBSE().fit(source.rows, source.labels).estimate(batch.rows)
    assert report["shares"] == pytest.approx(found.prior.tolist())
    assert np.subtract(report["upper"], report["shares"]) == pytest.approx(1.95996 * found.standard_errors, rel=1e-4)
    value = float(divergence("kl", found.prior, source.prior))
    assert report["divergence"]["value"] == pytest.approx(value)
    errors = [source.wrong[source.labels == k].mean() for k in range(3)]
    assert report["error"]["value"] == pytest.approx(found.prior @ errors)
    assert report["error"]["lower"] < report["error"]["value"] < report["error"]["upper"]
    assert (report["inside"], report["certain"]) == (False, True)
    assert report["audited"] == {"radius": 0.5, "worst_case": 0.3, "metric": "error"}
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_the_error_is_that_of_the_target() -> None:
    rows, labels = WORLD.draw(np.random.default_rng(9), SHIFTED, 20_000)
    true = float((rows.argmax(axis=1) != labels).mean())
    held = 0
    for seed in range(40):
        monitor = Monitor(WORLD.source(seed), Settings(every=400, tracker=TrackerOptions(window=400)))
        (report,) = monitor.feed(WORLD.batch(900 + seed, SHIFTED, 400))
        held += report["error"]["lower"] <= true <= report["error"]["upper"]
    assert held >= 35


@pytest.mark.parametrize("target", [TRAINING, np.array([0.4, 0.35, 0.25]), SHIFTED])
@pytest.mark.parametrize("name", ["kl", "tv"])
def test_interval_of_the_divergence_is_careful(target: np.ndarray, name: str) -> None:
    true = float(divergence(name, target, TRAINING))
    held = 0
    for seed in range(60):
        source, batch = WORLD.source(seed), WORLD.batch(400 + seed, target, 300)
        found = BBSE().fit(source.rows, source.labels).estimate(batch.rows)
        value, lower, upper = divergence_interval(found, TRAINING, name, 0.95)
        assert 0.0 <= lower <= value <= upper
        held += lower <= true <= upper
    assert held >= 54


def test_divergence_of_a_corner_has_an_interval() -> None:
    source = WORLD.source(hard=True)
    (report,) = Monitor(source, Settings(every=50)).feed(Batch(np.full(50, 2), None))
    found = report["divergence"]
    assert found["lower"] <= found["value"] <= found["upper"]


def test_metrics_are_in_prometheus_format() -> None:
    source = WORLD.source()
    asked = Settings(every=300, radius=0.3, run_length=100.0)
    *_, report = Monitor(source, asked).feed(WORLD.batch(1, SHIFTED, 600))
    text = exposition(header(source, asked, "0", {}), report | {"bad_lines": 2})
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            names.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.partition("{")[0] in names
            float(value)
    assert 'advshift_monitor_share{class="c"} ' in text
    assert "advshift_monitor_bad_lines_total 2\n" in text
    assert "advshift_monitor_inside_radius 0\n" in text
    assert text.endswith("\n")


def test_labels_are_escaped_for_prometheus() -> None:
    text = exposition({"classes": ['a"\\\n'], "training": [1.0]}, {"examples": 1, "number": 1})
    assert r'{class="a\"\\\n"} 1.0' in text


@pytest.mark.parametrize("name", list(TRACKERS))
def test_memory_does_not_grow(name: str) -> None:
    """What is saved is all that there is: after 9,000 examples about as much as after 3,000."""
    asked = Settings(method=name, every=1000, tracker=TrackerOptions(window=100), run_length=1e9)
    monitor, batch = Monitor(WORLD.source(size=200), asked), WORLD.batch(0, TRAINING, 3000)
    sizes = []
    for _ in range(3):
        list(monitor.feed(batch))
        sizes.append(len(json.dumps(monitor.save())))
    assert sizes[-1] < 1.3 * sizes[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "windw"}, "did you mean 'window'"),
        ({"set_name": "top-k"}, "unknown set 'top-k'"),
        ({"every": 0}, "1 example or more"),
        ({"radius": -0.5}, "0 or more"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"tracker": TrackerOptions(estimator="emm")}, "did you mean"),
        ({"tracker": TrackerOptions(calibration="platt")}, "unknown calibration"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**wrong)
