"""What the objective adds to a training step, as a ratio to cross-entropy's forward and backward in the same run.

`added` is the time of weights, statistics and commit alone, given the per-example losses: `1 + added/cross-entropy` is
the factor by which the loss grows. The contenders take turns, so that a busy machine slows all of them; medians and the
middle half of the turns are printed. With `--step` the objective is also timed in a whole step of a ResNet-20.

    python benchmarks/objective_overhead.py [--turns 50] [--compiled] [--step] [--cpu-time]

With `--cpu-time` the clock is the process's own, which stands still while another process has the core: for a machine
that is busy, together with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from advshift import RobustObjective

LIMITS = {("advshift", 1000): 1.3, ("exact", 1000): 1.6, ("advshift", 21000): 1.05, ("exact", 21000): 1.1}
STEP_LIMITS = {"advshift": 1.01, "exact": 1.02}
TURN = 10_000.0  # microseconds
ADVERSARIES = ("advshift", "exact")


def interleaved(
    contenders: dict[str, Callable[[], object]], turns: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Time the contenders in turns, in microseconds a run; a turn repeats what is short."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {name: max(1, round(TURN / timed(run, 3, clock))) for name, run in contenders.items()}
    for _ in range(turns):
        for name, run in contenders.items():
            times[name].append(timed(run, repeats[name], clock))
    return times


def timed(run: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Microseconds a run, after one that does not count."""
    run()
    begin = clock()
    for _ in range(repeats):
        run()
    return 1e6 * (clock() - begin) / repeats


def spread(times: list[float]) -> str:
    """Median and middle half."""
    low, _, high = statistics.quantiles(times, n=4)
    return f"{statistics.median(times):9.0f} µs ({low:.0f} to {high:.0f})"


def given_losses(losses: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss that costs nothing."""
    return lambda _, labels: losses


def build(name: str, classes: int, losses: Tensor | None = None) -> RobustObjective:
    """An objective with a known reference, of cross-entropy or of losses that are given."""
    counts = 1.0 + torch.arange(classes, dtype=torch.float64)
    loss = None if losses is None else given_losses(losses)
    return RobustObjective(name, class_counts=counts, radius=0.1, loss=loss)


def losses_only(classes: int, turns: int, clock: Callable[[], float], *, compiled: bool, batch: int = 256) -> None:
    """The added time alone, beside cross-entropy."""
    torch.manual_seed(0)
    logits = torch.randn(batch, classes, requires_grad=True)
    labels = torch.randint(0, classes, (batch,))
    losses = functional.cross_entropy(logits, labels, reduction="none").detach().requires_grad_()

    def cross_entropy(function: Callable[..., Tensor] = functional.cross_entropy) -> None:
        logits.grad = None
        function(logits, labels).backward()

    def added(objective: Callable[..., Tensor]) -> Callable[[], None]:
        def run() -> None:
            losses.grad = None
            objective(logits, labels).backward()

        return run

    def whole(objective: Callable[..., Tensor]) -> Callable[[], None]:
        return lambda: cross_entropy(objective)

    contenders: dict[str, Callable[[], object]] = {"cross-entropy": cross_entropy}
    for name in ADVERSARIES:
        alone, all_of_it = build(name, classes, losses), build(name, classes)
        contenders[f"{name}: added"] = added(torch.compile(alone, fullgraph=True) if compiled else alone)
        contenders[f"{name}: whole loss"] = whole(torch.compile(all_of_it, fullgraph=True) if compiled else all_of_it)
    times = interleaved(contenders, turns, clock)
    base = statistics.median(times["cross-entropy"])
    print(f"\nbatch {batch}, {classes} classes, {'compiled' if compiled else 'eager'}")
    for name, values in times.items():
        kind = name.split(":")[0]
        ratio = statistics.median(values) / base + (1.0 if name.endswith("added") else 0.0)
        limit = f"  (limit {LIMITS[kind, classes]})" if name.endswith("added") and (kind, classes) in LIMITS else ""
        print(f"  {name:22} {spread(values)}  {ratio:6.3f}×{limit}")


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


def whole_steps(turns: int, clock: Callable[[], float], batch: int = 128, classes: int = 100) -> None:
    """A step of a CIFAR ResNet-20: the loss's added time over everything else."""
    torch.manual_seed(0)
    model = resnet20(classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, classes, (batch,))
    losses = torch.rand(batch, requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    logits = torch.randn(batch, classes)
    contenders: dict[str, Callable[[], object]] = {"step with cross-entropy": step}
    for name in ADVERSARIES:
        objective = build(name, classes, losses)
        contenders[f"{name}: added"] = lambda objective=objective: objective(logits, labels).backward()  # type: ignore[misc]
    times = interleaved(contenders, turns, clock)
    base = statistics.median(times["step with cross-entropy"])
    print(f"\nResNet-20, batch {batch}, {classes} classes, eager")
    for name, values in times.items():
        added = name.endswith("added")
        limit = f"  (limit {STEP_LIMITS[name.split(':')[0]]})" if added else ""
        print(f"  {name:24} {spread(values)}  {statistics.median(values) / base + added:6.4f}×{limit}")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {arguments.turns} turns")
    for classes, turns in ((1000, arguments.turns), (21000, max(10, arguments.turns // 3))):
        losses_only(classes, turns, clock, compiled=False)
        if arguments.compiled:
            losses_only(classes, turns, clock, compiled=True)
    if arguments.step:
        whole_steps(max(10, arguments.turns // 3), clock)


if __name__ == "__main__":
    main()
