"""The networks that are trained: one file per kind. Needs torch.

>>> from advshift.models import build_model
>>> build_model("linear", 10, (64,)).head.out_features
10
"""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.models", "torch")

from advshift.models.building import MODELS, build_model  # noqa: E402
from advshift.models.cifar import CifarResNet, CifarResNet18Wide  # noqa: E402
from advshift.models.imagenet import ResNet18, ResNet34, ResNet50  # noqa: E402
from advshift.models.simple import Linear, MultilayerPerceptron  # noqa: E402

__all__ = [
    "MODELS",
    "CifarResNet",
    "CifarResNet18Wide",
    "Linear",
    "MultilayerPerceptron",
    "ResNet18",
    "ResNet34",
    "ResNet50",
    "build_model",
]
