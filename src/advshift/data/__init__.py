"""What models are trained on: readers, splits, augmentation, batches. Needs torch.

>>> from advshift.data import DataOptions, load_data
>>> load_data(DataOptions(name="digits", test=0.5)).class_names[:3]
('0', '1', '2')
"""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.data", "torch")

from advshift.data.batches import eval_batches, on_device, steps_per_epoch, train_batches  # noqa: E402
from advshift.data.loading import SOURCES, load_data  # noqa: E402
from advshift.data.options import Augmentation, DataOptions  # noqa: E402
from advshift.data.randomness import generator, hashed  # noqa: E402
from advshift.data.types import Batch, DataSet, MemorySplit, Plan, Source, Split  # noqa: E402

__all__ = [
    "SOURCES",
    "Augmentation",
    "Batch",
    "DataOptions",
    "DataSet",
    "MemorySplit",
    "Plan",
    "Source",
    "Split",
    "eval_batches",
    "generator",
    "hashed",
    "load_data",
    "on_device",
    "steps_per_epoch",
    "train_batches",
]
