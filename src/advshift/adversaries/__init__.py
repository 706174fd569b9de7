"""How the class weights move in training: one file per adversary, all with one contract. Needs torch.

>>> from advshift.adversaries import ADVERSARIES, AdvShiftAdversary
>>> ADVERSARIES["advshift"] is AdvShiftAdversary
True
"""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.adversaries", "torch")

from advshift.adversaries.advshift import AdvShiftAdversary  # noqa: E402
from advshift.adversaries.agnostic import AgnosticAdversary  # noqa: E402
from advshift.adversaries.balanced import BalancedAdversary  # noqa: E402
from advshift.adversaries.base import Adversary, ClassLosses  # noqa: E402
from advshift.adversaries.class_cvar import ClassCVaRAdversary  # noqa: E402
from advshift.adversaries.erm import ERMAdversary  # noqa: E402
from advshift.adversaries.exact import ExactAdversary  # noqa: E402
from advshift.adversaries.fixed import FixedAdversary  # noqa: E402
from advshift.adversaries.group_dro import GroupDROAdversary  # noqa: E402
from advshift.adversaries.penalty import PenaltySearch, resting_divergence, tune_penalty  # noqa: E402
from advshift.adversaries.tilted import TiltedAdversary  # noqa: E402
from advshift.registry import Registry  # noqa: E402

__all__ = [
    "ADVERSARIES",
    "AdvShiftAdversary",
    "Adversary",
    "AgnosticAdversary",
    "BalancedAdversary",
    "ClassCVaRAdversary",
    "ClassLosses",
    "ERMAdversary",
    "ExactAdversary",
    "FixedAdversary",
    "GroupDROAdversary",
    "PenaltySearch",
    "TiltedAdversary",
    "resting_divergence",
    "tune_penalty",
]

ADVERSARIES: Registry[Adversary] = Registry(
    "adversary",
    {
        kind.name: kind
        for kind in (
            AdvShiftAdversary,
            ExactAdversary,
            TiltedAdversary,
            AgnosticAdversary,
            GroupDROAdversary,
            ClassCVaRAdversary,
            FixedAdversary,
            BalancedAdversary,
            ERMAdversary,
        )
    },
)
