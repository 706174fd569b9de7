"""Per class: how many examples, how many mistaken, and the sum of their losses, added up on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional

__all__ = ["ClassResults", "Tally"]


class ClassResults(NamedTuple):
    """What a split came to, per class: examples, mistakes, and the mean loss (nan for a class without examples)."""

    counts: Float[np.ndarray, " classes"]
    errors: Float[np.ndarray, " classes"]
    losses: Float[np.ndarray, " classes"]

    @property
    def error(self) -> float:
        """The share of mistakes among all examples."""
        return float(self.errors.sum() / max(self.counts.sum(), 1.0))

    @property
    def loss(self) -> float:
        """The mean loss of all examples."""
        present = self.counts > 0
        return float((self.counts * self.losses)[present].sum() / max(self.counts.sum(), 1.0))

    @property
    def risks(self) -> Float[np.ndarray, " classes"]:
        """The share of mistakes of each class; nan for a class without examples."""
        return _divided(self.errors, self.counts)


class Tally:
    """Adds up batches without ever waiting for the device.

    Parameters
    ----------
    classes
        How many there are.
    device
        Where the batches are.

    >>> tally = Tally(2, torch.device("cpu"))
    >>> tally.add(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    >>> tally.results().errors.tolist()
    [0.0, 1.0]
    """

    def __init__(self, classes: int, device: torch.device) -> None:
        self.table: Float[Tensor, "3 classes"] = torch.zeros(3, classes, dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, logits: Float[Tensor, "batch classes"], labels: Shaped[Tensor, "batch *classes"]) -> None:
        """Count a batch; a soft label counts for its largest class."""
        logits = logits.detach().float()
        losses = functional.cross_entropy(logits, labels, reduction="none")
        classes = labels.argmax(dim=1) if labels.ndim == 2 else labels
        wrong = logits.argmax(dim=1) != classes
        rows = torch.stack((torch.ones_like(losses), wrong.to(losses), losses)).double()
        self.table.index_add_(1, classes, rows)

    def results(self) -> ClassResults:
        """Read the sums; this waits for the device."""
        counts, errors, losses = self.table.cpu().numpy()
        return ClassResults(counts.copy(), errors.copy(), _divided(losses, counts))


def _divided(
    sums: Float[np.ndarray, " classes"], counts: Float[np.ndarray, " classes"]
) -> Float[np.ndarray, " classes"]:
    found: np.ndarray = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return found
