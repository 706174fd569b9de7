"""The training objective: a loss whose class weights follow an adversary. Needs torch.

>>> from advshift.objective import AdvShift, RobustObjective
>>> issubclass(AdvShift, RobustObjective)
True
"""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.objective", "torch")

from advshift.objective.module import AdvShift, RobustObjective  # noqa: E402

__all__ = ["AdvShift", "RobustObjective"]
