"""Evaluating a split over all processes, every example once, and saving what the model says of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from advshift.training.session import Session
from advshift.training.tally import ClassResults, Tally

__all__ = ["Outputs", "measure", "outputs"]


class Outputs(NamedTuple):
    """The logits of a split's examples, in the order of their ids."""

    ids: Int[np.ndarray, " examples"]
    labels: Int[np.ndarray, " examples"]
    logits: Float[np.ndarray, "examples classes"]

    def arrays(self, class_names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """The arrays of a predictions file."""
        predictions = self.logits.argmax(axis=1)
        return {
            "ids": self.ids,
            "labels": self.labels,
            "predictions": predictions,
            "logits": self.logits,
            "class_names": np.array(class_names),
        }


def measure(session: Session, split: str) -> ClassResults:
    """Evaluate a split."""
    tally = Tally(session.classes, session.workers.device)
    with session.ready_to_measure() as model:
        for batch in session.feed.split(split):
            with session.formats.autocast():
                logits = model(batch.inputs)
            tally.add(logits, batch.labels)
    session.workers.add_up(tally.table)
    return tally.results()


def outputs(session: Session, split: str) -> Outputs:
    """Collect the logits of a split from all processes; in full precision, so that no prediction changes."""
    found: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    with session.ready_to_measure() as model:
        for batch in session.feed.split(split):
            with session.formats.autocast():
                logits = model(batch.inputs)
            found.append((batch.ids.cpu(), batch.labels.cpu(), logits.float().cpu()))
    own = [torch.cat(parts).numpy() for parts in zip(*found, strict=True)] if found else None
    shards = [shard for shard in session.workers.gather(own) if shard is not None]
    ids, labels, logits = (np.concatenate(parts) for parts in zip(*shards, strict=True))
    order = np.argsort(ids, kind="stable")
    return Outputs(ids[order], labels[order], logits[order])
