"""Train a small model in several processes, with a last batch that is uneven; save what every rank ends with.

Run by torchrun. The arguments are the adversary, who commits ("compiled" is the call itself, as one
graph after the model's own; "labels" is the call itself, with several labels an example), and the folder for the
results.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from advshift import RobustObjective

CLASSES, STEPS = 4, 4
SIZES = (12, 12, 12, 7)  # the last one does not divide evenly
OPTIONS: dict[str, dict[str, Any]] = {
    "advshift": {"radius": 0.05, "step_size": 0.1},
    "exact": {"radius": 0.2, "momentum": 0.5},
    "tilted": {"rate": 1.0},
    "group-dro": {"step_size": 0.1},
}


def batches() -> Any:
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        yield torch.randn(size, 5, generator=generator), torch.randint(0, CLASSES, (size,), generator=generator)


def each_label_by_itself(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(1)


def train(name: str, commits: str, rank: int, world: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(5, CLASSES)
    plain = model
    if world > 1:
        model = DistributedDataParallel(model)
    objective = RobustObjective(
        name,
        num_classes=CLASSES,
        update="manual" if commits == "manual" else "forward",
        loss=each_label_by_itself if commits == "labels" else None,
        **OPTIONS[name],
    )
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    if commits == "attached":
        objective.attach(optimizer)
    call: nn.Module = objective
    if commits == "compiled":
        model = torch.compile(model, backend="aot_eager")
        call = torch.compile(objective, fullgraph=True, backend="aot_eager")
    for x, y in batches():
        optimizer.zero_grad()
        mine = slice(rank, None, world)
        labels = (torch.stack([y, y.roll(1)], 1)[:, :, None] == torch.arange(CLASSES)).any(1).float()
        call(model(x[mine]), labels[mine] if commits == "labels" else y[mine]).backward()
        optimizer.step()
        if commits == "manual":
            objective.step()
    return {f"model.{key}": value for key, value in plain.state_dict().items()} | dict(objective.state_dict())


def main() -> None:
    name, commits, folder = sys.argv[1:]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.save(train(name, commits, rank, world), Path(folder) / f"{name}-{commits}-{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
