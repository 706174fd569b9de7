"""How quick the training engine is: CIFAR-100, ResNet-20, batches of 128, in turns with two peers in one process.

The peers are the loop that most people write (PIL transforms, a DataLoader with two workers, float32, NCHW, a loss
read at every step), and a bare loop tuned by hand on one batch that is there already (bf16, channels last, a fused
optimiser, no data, no metrics). The floor is what the network's operations would take at the rate of a large product of
matrices.

Seconds of the processor, workers included, stand beside those of the clock: on a machine with other work only the first
can be compared. With one thread no time is lost in waiting for other threads.

    ADVSHIFT_DATA=folder python benchmarks/training_speed.py [--threads 1] [--turns 15] [--formats] [--record FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import environment, save
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from advshift.data import DataSet, load_data
from advshift.models import build_model
from advshift.training import load_recipe
from advshift.training.devices import keep_memory, threads
from advshift.training.session import Session
from advshift.training.workers import Workers

BATCH, STEPS = 128, 4  # steps of a peer in one turn
RECIPES = {"engine": "cifar100-erm", "engine, AdvShift": "cifar100-advshift"}
CPU = torch.device("cpu")


class Images(Dataset[tuple[torch.Tensor, int]]):
    """CIFAR as most people read it: an image of PIL at a time."""

    def __init__(self, data: DataSet) -> None:
        split: Any = data.train
        self.images, self.labels = split.inputs.numpy(), split.labels.tolist()
        self.mean, self.std = data.mean[:, None, None], data.std[:, None, None]
        self.draws = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image, ImageOps

        image = ImageOps.expand(Image.fromarray(self.images[index]), 4)
        left, top = self.draws.integers(0, 9, 2)
        image = image.crop((left, top, left + 32, top + 32))
        if self.draws.random() < 0.5:
            image = ImageOps.mirror(image)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255.0)
        return (pixels - self.mean) / self.std, self.labels[index]


class Naive:
    """The loop that most people write."""

    def __init__(self, data: DataSet) -> None:
        self.model = build_model("cifar-resnet", 100, (3, 32, 32), seed=0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.loader = DataLoader(Images(data), BATCH, shuffle=True, num_workers=2, drop_last=True)
        self.batches = iter(self.loader)
        self.total, self.right = 0.0, 0

    def __call__(self) -> None:
        """Take a step."""
        inputs, labels = next(self.batches)
        self.optimizer.zero_grad()
        logits = self.model(inputs)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        self.optimizer.step()
        self.total += loss.item()
        self.right += (logits.argmax(1) == labels).sum().item()

    def workers_seconds(self) -> float:
        """The processor's seconds that the workers have used."""
        tick = os.sysconf("SC_CLK_TCK")
        files = [Path(f"/proc/{worker.pid}/stat") for worker in getattr(self.batches, "_workers", [])]
        fields = [file.read_text().rsplit(")", 1)[1].split() for file in files if file.exists()]
        return sum((int(field[11]) + int(field[12])) / tick for field in fields)


class Bare:
    """A loop tuned by hand, on one batch that is there already; or in another format, to see what is to be had."""

    def __init__(self, *, bf16: bool = True, channels_last: bool = True, compiled: bool = False) -> None:
        self.bf16 = bf16
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.model = build_model("cifar-resnet", 100, (3, 32, 32), seed=0)
        self.model.to(memory_format=layout)  # type: ignore[call-overload]
        self.network: Any = torch.compile(self.model) if compiled else self.model
        options: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "fused": True}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **options)
        self.inputs = torch.randn(BATCH, 3, 32, 32).to(memory_format=layout)
        self.labels = torch.randint(0, 100, (BATCH,))

    def __call__(self) -> None:
        """Take a step."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.network(self.inputs)
        nn.functional.cross_entropy(logits.float(), self.labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def formats() -> dict[str, Callable[[], None]]:
    """The bare loop in every combination of number format, layout and compilation."""
    return {
        f"{number}, {layout}, {how}": Bare(
            bf16=number == "bf16", channels_last=layout == "channels last", compiled=how == "compiled"
        )
        for number in ("float32", "bf16")
        for layout in ("NCHW", "channels last")
        for how in ("eager", "compiled")
    }


class Engine:
    """The engine's own steps, with all that it reads, draws, counts and weighs."""

    def __init__(self, recipe: str, data: DataSet) -> None:
        self.session = Session(load_recipe(recipe, ["training.precision=bf16"]), data, Workers(0, 1, CPU))
        self.batches = self._endless()

    def _endless(self) -> Iterator[Any]:
        epoch = 0
        while True:
            yield from self.session.feed.epoch(epoch, 0)
            epoch += 1

    def __call__(self) -> None:
        """Take a step."""
        self.session.advance(*next(self.batches))


def measure(peers: dict[str, Callable[[], None]], naive: Naive, turns: int) -> dict[str, dict[str, list[float]]]:
    """Seconds a step, by the clock and of the processor, in turns."""
    found: dict[str, dict[str, list[float]]] = {name: {"clock": [], "processor": []} for name in peers}
    for turn in range(turns + 1):
        for name, step in peers.items():
            clock, own, helpers = time.perf_counter(), time.process_time(), naive.workers_seconds()
            for _ in range(STEPS):
                step()
            passed = (time.perf_counter() - clock) / STEPS
            used = time.process_time() - own
            if name == "naive":  # in the others' turns its workers wait with full queues
                used += naive.workers_seconds() - helpers
            if turn:  # the first warms up
                found[name]["clock"].append(passed)
                found[name]["processor"].append(used / STEPS)
    return found


def operations() -> float:
    """Floating-point operations of one training step, forward and backward."""
    model = build_model("cifar-resnet", 100, (3, 32, 32), seed=0)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(BATCH, 3, 32, 32)).sum().backward()
    return float(counter.get_total_flops())


def matmul_rate(size: int = 2048, turns: int = 9) -> float:
    """Operations a second of the processor of a square product in bf16: the best of some."""
    a, b = (torch.randn(size, size).bfloat16() for _ in range(2))
    seconds = []
    for _ in range(turns):
        began = time.process_time()
        torch.mm(a, b)
        seconds.append(time.process_time() - began)
    return 2.0 * size**3 / min(seconds)


def peak_memory() -> int:
    """Bytes of a process that trains by the recipe for some steps and evaluates, as its record says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "advshift", "train", "cifar100-erm", "--output", folder, "--max-steps", "5"]
        subprocess.run([*command, "--quiet", "evaluate.train_final=false"], check=True, stdout=subprocess.DEVNULL)
        return int(json.loads((Path(folder) / "run.json").read_text())["peak_memory_bytes"])


def describe(values: list[float]) -> dict[str, float]:
    """The median, and the quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "low": low, "high": high}


def ratios(found: dict[str, dict[str, list[float]]], slow: str, quick: str, kind: str) -> dict[str, float]:
    """How many times quicker one is than the other, turn by turn."""
    return describe([a / b for a, b in zip(found[slow][kind], found[quick][kind], strict=True)])


def main() -> None:
    """Measure, print, and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--formats", action="store_true", help="the bare loop in all formats, too: takes minutes")
    parser.add_argument("--record", type=Path)
    wanted = parser.parse_args()
    if "ADVSHIFT_DATA" not in os.environ:
        print("skipped: set ADVSHIFT_DATA to the folder that holds CIFAR-100")
        return
    data = load_data(load_recipe("cifar100-erm").data)
    with threads(wanted.threads), keep_memory():  # which is to the good of all of them
        naive = Naive(data)
        peers: dict[str, Callable[[], None]] = {"naive": naive, "bare": Bare()}
        peers |= {name: Engine(recipe, data) for name, recipe in RECIPES.items()}
        peers |= formats() if wanted.formats else {}
        found = measure(peers, naive, wanted.turns)
        count, rate = operations(), matmul_rate()
    floor = count / rate
    record: dict[str, Any] = {
        "environment": environment("torch", "pillow") | {"load": os.getloadavg(), "threads": wanted.threads},
        "seconds_a_step": {name: {kind: describe(v) for kind, v in kinds.items()} for name, kinds in found.items()},
        "naive_over_engine": {kind: ratios(found, "naive", "engine", kind) for kind in ("clock", "processor")},
        "bare_over_engine": {kind: ratios(found, "bare", "engine", kind) for kind in ("clock", "processor")},
        "bare_over_advshift": {
            kind: ratios(found, "bare", "engine, AdvShift", kind) for kind in ("clock", "processor")
        },
        "operations_a_step": count,
        "matmul_operations_a_second": rate,
        "floor_seconds_a_step": floor,
        "engine_over_floor": statistics.median(found["engine"]["processor"]) / floor,
        "peak_memory_bytes": peak_memory(),
    }
    show(record)
    if wanted.record:
        save(wanted.record, record)


def show(record: dict[str, Any]) -> None:
    """Print the record for a reader."""
    for name, kinds in record["seconds_a_step"].items():
        clock, used = kinds["clock"], kinds["processor"]
        print(
            f"{name:33} {1e3 * clock['median']:7.0f} ms a step by the clock ({1e3 * clock['low']:.0f} to "
            f"{1e3 * clock['high']:.0f}), {1e3 * used['median']:5.0f} ms of the processor "
            f"({1e3 * used['low']:.0f} to {1e3 * used['high']:.0f}), {BATCH / clock['median']:,.0f} images/s"
        )
    for name in ("naive_over_engine", "bare_over_engine", "bare_over_advshift"):
        for kind, value in record[name].items():
            print(f"{name} ({kind}): {value['median']:.2f} ({value['low']:.2f} to {value['high']:.2f})")
    print(
        f"floor {1e3 * record['floor_seconds_a_step']:.0f} ms: {record['operations_a_step'] / 1e9:.1f} GFLOP at "
        f"{record['matmul_operations_a_second'] / 1e9:,.0f} GFLOP/s; the engine takes "
        f"{record['engine_over_floor']:.1f} times that"
    )
    print(f"peak memory {record['peak_memory_bytes'] / 2**20:,.0f} MiB")


if __name__ == "__main__":
    main()
