"""scikit-learn's handwritten digits: real images that ship with a dependency."""

from __future__ import annotations

from pathlib import Path

import torch

from advshift.data.options import DataOptions
from advshift.data.types import MemorySplit, Source
from advshift.errors import require

__all__ = ["read_digits"]


def read_digits(options: DataOptions, folder: Path) -> Source:
    """Read 1,797 images of 8×8 pixels; the 17 greys are spread over the bytes' range."""
    require("sklearn", "the set 'digits'", "sklearn")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images).mul(255 / 16).round().to(torch.uint8).view(-1, 8, 8, 1)
    classes = torch.from_numpy(labels).long()
    return Source({"train": MemorySplit(pixels, classes, torch.arange(len(classes)))}, tuple("0123456789"))
