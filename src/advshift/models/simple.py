"""Models without convolutions: linear, and layers of units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from advshift.errors import InputError
from advshift.models.layers import Head, build_head, check_whole

__all__ = ["Linear", "MultilayerPerceptron"]


class MultilayerPerceptron(nn.Module):
    """Layers of rectified units; an input of any shape is taken as one row of features.

    Parameters
    ----------
    num_classes, shape
        The number of classes, and the shape of an input.
    hidden
        The width of each hidden layer, or of the only one.
    dropout
        The share of a hidden layer's units that a training step leaves out.
    head
        `"linear"` or `"cosine"`.

    >>> model = MultilayerPerceptron(10, (64,), hidden=[32, 16])
    >>> [tuple(weight.shape) for weight in model.parameters() if weight.ndim == 2]
    [(32, 64), (16, 32), (10, 16)]
    """

    def __init__(
        self,
        num_classes: int,
        shape: tuple[int, ...],
        *,
        hidden: int | Sequence[int] = (128,),
        dropout: float = 0.0,
        head: Head = "linear",
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must be a share from 0 up to below 1; got {dropout!r}")
        self.body = nn.Sequential(nn.Flatten())
        inside = math.prod(shape)
        widths: list[Any] = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
        for width in widths:
            check_whole("each width in hidden", width)
            self.body.extend([nn.Linear(inside, width), nn.ReLU(inplace=True)])
            if dropout:
                self.body.append(nn.Dropout(dropout))
            inside = width
        self.head = build_head(head, inside, num_classes)

    def features(self, x: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch features"]:
        """What the head sees."""
        features: Tensor = self.body(x)
        return features

    def forward(self, x: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        logits: Tensor = self.head(self.features(x))
        return logits


class Linear(MultilayerPerceptron):
    """Logits that are linear in the input; with `head="cosine"`, cosines.

    >>> Linear(10, (8, 8)).head
    Linear(in_features=64, out_features=10, bias=True)
    """

    def __init__(self, num_classes: int, shape: tuple[int, ...], *, head: Head = "linear") -> None:
        super().__init__(num_classes, shape, hidden=(), head=head)
