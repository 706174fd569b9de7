"""How often does the monitor's alarm ring without a change, and how soon after one? By simulation.

    python benchmarks/monitor_run_lengths.py [--streams 100] [--output docs/results/monitor-run-lengths.json]

Without a change: source and stream are drawn from one random distribution of predicted classes, anew for each stream.
The share of streams in which the test ever rings must be at most `alpha`; the examples per alarm of the detector must
be at least the run length asked for. Beside it stands the alarm that believes the source's shares, which is the same
betting against a null that is taken to be known.

With a change: after 1,000 examples a share of the stream moves to one class. The delay of the detector, at its default
run length of 100,000, is counted from there; alarms before it count as false.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import gammaln, logsumexp
from timing import environment, save

from advshift.audit.intervals.limits import clopper_pearson
from advshift.monitor.alarm import STRENGTHS, Alarm, AlarmState, Raised, make_alarm

ALPHA, RUN_LENGTH = 0.05, 1000.0
SOURCES = (50, 200, 1000, 10_000)
CLASSES = (3, 10, 100)
LENGTH = 3000
CHANGE, AFTER = 1000, 4000
MOVES = (0.1, 0.2, 0.4)
EVERY = 50  # examples between two looks of the alarm that believes the source


def believing(alarm: Alarm, stream: np.ndarray) -> bool:
    """Whether the test rings that takes the source's shares (smoothed by half an example) for the truth."""
    counts = alarm.counts + 0.5
    truth = np.log(counts / counts.sum())
    groups = alarm.group_of[stream]
    seen = np.cumsum(np.eye(len(counts))[groups], axis=0)[EVERY - 1 :: EVERY]
    strengths = np.array(STRENGTHS)
    mean = strengths[:, None] * counts / counts.sum()
    grown = (gammaln(seen[:, None, :] + mean) - gammaln(mean)).sum(axis=-1)
    total = seen.sum(axis=1, keepdims=True)
    forecasts = grown - gammaln(total + strengths) + gammaln(strengths)
    value = logsumexp(forecasts - (seen @ truth)[:, None], axis=1) - np.log(len(strengths))
    return bool((value >= -np.log(ALPHA)).any())


def without_change(classes: int, size: int, streams: int) -> dict[str, object]:
    """False alarms of both forms."""
    rung, believed, alarms = 0, 0, 0
    for seed in range(streams):
        generator = np.random.default_rng([seed, classes, size])
        shares = generator.dirichlet(np.ones(classes))
        alarm = make_alarm(generator.choice(classes, size, p=shares), classes, alpha=ALPHA, run_length=RUN_LENGTH)
        stream = generator.choice(classes, LENGTH, p=shares)
        state, _ = alarm.update(alarm.start(), stream)
        rung += state.test_alarm > 0
        alarms += state.alarms
        believed += believing(alarm, stream)
    upper = clopper_pearson(np.array([float(rung)]), np.array([float(streams)]), 0.05)[0]
    return {
        "classes": classes,
        "source": size,
        "test_rang": rung / streams,
        "test_rang_upper_95": float(upper),
        "believing_the_source_rang": believed / streams,
        "detector_alarms": alarms,
        "examples_per_alarm": streams * LENGTH / alarms if alarms else None,
        "examples": streams * LENGTH,
    }


def first_alarm(alarm: Alarm, state: AlarmState, stream: np.ndarray) -> Raised | None:
    """The detector's next alarm."""
    for begin in range(0, len(stream), 250):
        state, raised = alarm.update(state, stream[begin : begin + 250])
        found = [one for one in raised if one.form == "detector"]
        if found:
            return found[0]
    return None


def with_change(classes: int, size: int, moved: float, streams: int) -> dict[str, object]:
    """Delays of the detector at its default run length, and how near the change it places the beginning."""
    delays, errors, early, distances = [], [], 0, []
    for seed in range(streams):
        generator = np.random.default_rng([seed, classes, size, int(100 * moved)])
        shares = generator.dirichlet(np.full(classes, 5.0))
        other = (1 - moved) * shares + moved * np.eye(classes)[seed % classes]
        alarm = make_alarm(generator.choice(classes, size, p=shares), classes)
        state, before = alarm.update(alarm.start(), generator.choice(classes, CHANGE, p=shares))
        early += any(one.form == "detector" for one in before)
        first = first_alarm(alarm, state, generator.choice(classes, AFTER, p=other))
        delays.append(np.inf if first is None else first.example - CHANGE)
        distances.append(float((other * np.log(other / shares)).sum()))
        if first is not None:
            errors.append(abs(first.since - CHANGE))
    quartiles = [
        None if np.isinf(one) else float(one) for one in np.sort(delays)[[streams // 4, streams // 2, 3 * streams // 4]]
    ]
    return {
        "classes": classes,
        "source": size,
        "moved": moved,
        "kl": float(np.median(distances)),
        "seen": float(np.mean(np.isfinite(delays))),
        "delay_quartiles": quartiles,
        "delay_if_the_mixes_were_known": float(np.log(1e5) / np.median(distances)),
        "median_error_of_the_place": float(np.median(errors)) if errors else None,
        "false_alarms_before": early,
    }


def show(console: Console, rows: list[dict[str, object]]) -> None:
    """Print cells as a table."""
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*[f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()])
    console.print(table)


def main() -> None:
    """Run all cells, print them and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    console = Console(width=200)
    calm = [without_change(classes, size, arguments.streams) for classes in CLASSES for size in SOURCES]
    show(console, calm)
    changes = [
        with_change(classes, size, moved, max(arguments.streams // 4, 4))
        for classes in (3, 10)
        for size in SOURCES
        for moved in MOVES
    ]
    show(console, changes)
    record = {
        "alpha": ALPHA,
        "run_length_without_change": RUN_LENGTH,
        "run_length_with_change": 1e5,
        "streams": arguments.streams,
        "examples_of_a_stream": LENGTH,
        "without_change": calm,
        "with_change": changes,
        "environment": environment("numpy", "scipy"),
    }
    if arguments.output:
        save(arguments.output, record)


if __name__ == "__main__":
    main()
