"""What the objective adds to a training step, as a ratio to cross-entropy's forward and backward in the same run.

`added` is the time of weights, statistics and commit alone, given the per-example losses: `1 + added/cross-entropy` is
the factor by which the loss grows. It is the time of the objective, forward and backward, of losses that are given,
less that of their plain mean, which cross-entropy has too. The contenders take turns, so that a busy machine slows all
of them; medians and the middle half of the turns are printed. The batches change from step to step, so that the
adversary has something to follow.

    python benchmarks/objective_overhead.py [--turns 50] [--repeats 3] [--compiled] [--step] [--keep-memory]
        [--cpu-time] [--record FILE]

With `--compiled` the objective is compiled, with `--step` it is timed beside a whole step of a ResNet-20, with both
beside a compiled one. With `--keep-memory` the C library keeps what is freed, as the training engine tells it to:
cross-entropy then pays for no fresh pages. With `--cpu-time` the clock is the process's own, which stands still while
another process has the core: for a machine that is busy, together with OMP_NUM_THREADS=1. A record is a line of JSON;
`--show FILE` prints records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from timing import environment
from torch import Tensor, nn
from torch.nn import functional

from advshift import RobustObjective
from advshift.training.devices import keep_memory

LIMITS = {("advshift", 1000): 1.3, ("exact", 1000): 1.6, ("advshift", 21000): 1.05, ("exact", 21000): 1.1}
STEP_LIMITS = {"advshift": 1.01, "exact": 1.02}
TURN = 10_000.0  # microseconds
ADVERSARIES = ("advshift", "exact")
PLAIN = "mean of given losses"

Clock = Callable[[], float]
Loss = Callable[[Tensor, Tensor], Tensor]
Rows = list[dict[str, Any]]


def interleaved(contenders: dict[str, Callable[[], object]], turns: int, clock: Clock) -> dict[str, list[float]]:
    """Time the contenders in turns, in microseconds a run; a turn repeats what is short."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {name: max(1, round(TURN / timed(run, 3, clock))) for name, run in contenders.items()}
    for _ in range(turns):
        for name, run in contenders.items():
            times[name].append(timed(run, repeats[name], clock))
    return times


def timed(run: Callable[[], object], repeats: int, clock: Clock) -> float:
    """Microseconds a run, after one that does not count."""
    run()
    begin = clock()
    for _ in range(repeats):
        run()
    return 1e6 * (clock() - begin) / repeats


def compared(case: str, times: dict[str, list[float]], limits: dict[str, float]) -> Rows:
    """Medians, middle halves, and ratios to the first contender, printed as they are found."""
    base, plain = (statistics.median(times[name]) for name in (next(iter(times)), PLAIN))
    rows: Rows = []
    print(f"\n{case}")
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        ratio = 1.0 + (median - plain) / base if name.endswith("added") else median / base
        limit = limits.get(name.split(":")[0]) if name.endswith("added") else None
        print(
            f"  {name:24} {median:9.0f} µs ({low:.0f} to {high:.0f})  {ratio:7.4f}×"
            + (f"  (limit {limit})" if limit else "")
        )
        numbers = {"median_us": median, "low_us": low, "high_us": high, "ratio": ratio, "limit": limit}
        rows.append({"case": case, "name": name, **numbers})
    return rows


class Batches:
    """Eight batches in turn: their labels, logits for cross-entropy, and losses of which three quarters are below 2."""

    def __init__(self, batch: int, classes: int) -> None:
        self.logits = torch.randn(batch, classes, requires_grad=True)
        self.losses = torch.zeros(batch, requires_grad=True)
        hardness = 0.5 + 2.0 * torch.rand(classes)
        labels = torch.cat([torch.randperm(classes) for _ in range(1 + 8 * batch // classes)])[: 8 * batch]
        losses = hardness[labels] * torch.empty(8 * batch).exponential_()
        turns = list(zip(labels.view(8, batch), losses.view(8, batch), strict=True))
        self._turns = cycle(turns)

    def step(self, loss: Loss) -> None:
        """Run a loss forward and backward on the next batch."""
        labels, losses = next(self._turns)
        self.logits.grad = self.losses.grad = None
        self.losses.data.copy_(losses)
        loss(self.logits, labels).backward()

    def given(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the batch's losses, at no cost."""
        return self.losses

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the losses' plain mean."""
        return self.losses.mean()


def build(name: str, classes: int, loss: Loss | None = None) -> RobustObjective:
    """An objective with a known reference."""
    return RobustObjective(name, class_counts=1.0 + torch.arange(classes, dtype=torch.float64), radius=0.1, loss=loss)


def losses_only(classes: int, turns: int, clock: Clock, *, compiled: bool, batch: int = 256) -> Rows:
    """The added time alone, beside cross-entropy."""
    torch.manual_seed(0)
    batches = Batches(batch, classes)
    losses: dict[str, Loss] = {"cross-entropy": functional.cross_entropy, PLAIN: batches.mean}
    for name in ADVERSARIES:
        alone, whole = build(name, classes, batches.given), build(name, classes)
        losses[f"{name}: added"] = torch.compile(alone, fullgraph=True) if compiled else alone
        losses[f"{name}: whole loss"] = torch.compile(whole, fullgraph=True) if compiled else whole
    contenders = {name: (lambda loss=loss: batches.step(loss)) for name, loss in losses.items()}
    limits = {name: LIMITS[name, classes] for name in ADVERSARIES}
    case = f"batch {batch}, {classes} classes, {'compiled' if compiled else 'eager'}"
    return compared(case, interleaved(contenders, turns, clock), limits)


class Block(nn.Module):
    """Two convolutions and a shortcut that pads with zeros."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.outside, self.stride = outside, stride

    def forward(self, x: Tensor) -> Tensor:
        """Add the block to its input."""
        skip = x[:, :, :: self.stride, :: self.stride]
        skip = functional.pad(skip, (0, 0, 0, 0, 0, self.outside - skip.shape[1]))
        return functional.relu(self.body(x) + skip)


def resnet20(classes: int) -> nn.Module:
    """The small residual network of CIFAR."""
    widths = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)]
    return nn.Sequential(*stem, *[Block(*width) for width in widths], *head)


def whole_steps(turns: int, clock: Clock, *, compiled: bool, batch: int = 128, classes: int = 100) -> Rows:
    """A step of a CIFAR ResNet-20: the loss's added time over everything else."""
    torch.manual_seed(0)
    model = resnet20(classes)
    if compiled:
        model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, classes, (batch,))
    batches = Batches(batch, classes)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    contenders: dict[str, Callable[[], object]] = {"step": step, PLAIN: lambda: batches.step(batches.mean)}
    for name in ADVERSARIES:
        objective: Loss = build(name, classes, batches.given)
        if compiled:
            objective = torch.compile(objective, fullgraph=True)
        contenders[f"{name}: added"] = lambda objective=objective: batches.step(objective)  # type: ignore[misc]
    times = interleaved(contenders, turns, clock)
    case = f"ResNet-20, batch {batch}, {classes} classes, {'compiled' if compiled else 'eager'}"
    return compared(case, times, STEP_LIMITS)


def table(records: list[dict[str, Any]]) -> str:
    """The factors by which the loss (or the step) grows, as Markdown: the median of all repeats and their range."""
    cases: dict[tuple[str, str], Rows] = {}
    for record in records:
        threads = record["environment"]["threads"]
        setting = f"{threads} thread{'s' * (threads > 1)}" + ", memory kept" * ("--keep-memory" in record["command"])
        for row in record["rows"]:
            cases.setdefault((row["case"], setting), []).append(row)
    lines = [
        "| case | setting | base, µs | advshift | exact | whole loss, advshift |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (case, setting), rows in sorted(cases.items()):
        base = statistics.median(row["median_us"] for row in rows if row["name"] == rows[0]["name"])
        names = (*[f"{name}: added" for name in ADVERSARIES], f"{ADVERSARIES[0]}: whole loss")
        cells = [spread([row["ratio"] for row in rows if row["name"] == name]) for name in names]
        lines.append(f"| {case} | {setting} | {base:,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(ratios: list[float]) -> str:
    """The median, and the range where there is one."""
    if not ratios:
        return ""
    digits = 4 if max(ratios) < 1.002 else 2
    low, middle, high = (f"{number:.{digits}f}" for number in (min(ratios), statistics.median(ratios), max(ratios)))
    return f"{middle}× ({low} to {high})" if len(ratios) > 1 else f"{middle}×"


def main() -> None:
    """Read the options, run, and keep a record where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--show", type=Path, help="print the table of a record, and measure nothing")
    arguments = parser.parse_args()
    if arguments.show:
        print(table([json.loads(line) for line in arguments.show.read_text(encoding="utf-8").splitlines()]))
        return
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {arguments.turns} turns")
    rows: Rows = []
    with keep_memory() if arguments.keep_memory else nullcontext():
        for repeat in range(arguments.repeats):
            rows += [{"repeat": repeat} | row for row in measured(arguments, clock)]
    if arguments.record:
        command = " ".join(["python", "benchmarks/objective_overhead.py", *sys.argv[1:]])
        found = {"command": command, "environment": environment("advshift", "numpy", "torch"), "rows": rows}
        found["environment"]["threads"] = torch.get_num_threads()
        with arguments.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


def measured(arguments: argparse.Namespace, clock: Clock) -> Rows:
    """The rows of one repeat."""
    few = max(10, arguments.turns // 3)
    if arguments.step:
        return whole_steps(few, clock, compiled=arguments.compiled)
    cases = ((1000, arguments.turns), (21000, few))
    return [row for classes, turns in cases for row in losses_only(classes, turns, clock, compiled=arguments.compiled)]


if __name__ == "__main__":
    main()
