"""Losses per example, `(logits, labels) -> losses`: one file per method, all with one contract.

>>> from advshift.losses import LOSSES, LogitAdjusted
>>> LOSSES["logit-adjusted"] is LogitAdjusted
True
"""

from __future__ import annotations

from advshift.errors import require
from advshift.registry import Registry

require("torch", "advshift.losses", "torch")

from advshift.losses.balanced_softmax import BalancedSoftmax  # noqa: E402
from advshift.losses.base import Loss  # noqa: E402
from advshift.losses.class_balanced import ClassBalanced, effective_number_weights  # noqa: E402
from advshift.losses.cross_entropy import CrossEntropy, cross_entropy  # noqa: E402
from advshift.losses.deferred import LDAMDRW, DeferredWeights  # noqa: E402
from advshift.losses.focal import Focal, focal  # noqa: E402
from advshift.losses.ldam import LDAM, NormalisedLinear, ldam, ldam_margins  # noqa: E402
from advshift.losses.logit_adjusted import LogitAdjusted, logit_adjusted  # noqa: E402

__all__ = [
    "LDAM",
    "LDAMDRW",
    "LOSSES",
    "BalancedSoftmax",
    "ClassBalanced",
    "CrossEntropy",
    "DeferredWeights",
    "Focal",
    "LogitAdjusted",
    "Loss",
    "NormalisedLinear",
    "cross_entropy",
    "effective_number_weights",
    "focal",
    "ldam",
    "ldam_margins",
    "logit_adjusted",
]

LOSSES: Registry[Loss] = Registry(
    "loss",
    {
        kind.name: kind
        for kind in (
            CrossEntropy,
            ClassBalanced,
            LDAM,
            LDAMDRW,
            LogitAdjusted,
            BalancedSoftmax,
            Focal,
            DeferredWeights,
        )
    },
)
