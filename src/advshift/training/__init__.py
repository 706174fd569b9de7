"""The training engine: optimisers, schedules, averages of weights, and the loop. Needs torch."""

from __future__ import annotations

from advshift.errors import require

require("torch", "advshift.training", "torch")
