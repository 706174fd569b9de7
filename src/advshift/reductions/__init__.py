"""Robust means of losses per example, `losses -> scalar`: one file per method, all with one contract.

>>> from advshift.reductions import REDUCTIONS, CVaR
>>> REDUCTIONS["cvar"] is CVaR
True
"""

from __future__ import annotations

from advshift.errors import require
from advshift.registry import Registry

require("torch", "advshift.reductions", "torch")

from advshift.reductions.base import Reduction  # noqa: E402
from advshift.reductions.chi_square import ChiSquare, PenalisedChiSquare  # noqa: E402
from advshift.reductions.cvar import CVaR, DualCVaR, cvar_dual  # noqa: E402
from advshift.reductions.doro import DORO, without_the_worst  # noqa: E402
from advshift.reductions.hashimoto import DualChiSquare, Hashimoto, chi_square_dual  # noqa: E402
from advshift.reductions.kl import KL  # noqa: E402
from advshift.reductions.mean import Mean  # noqa: E402
from advshift.reductions.multilevel import MultiLevel  # noqa: E402
from advshift.reductions.tilted import StreamingTilted, Tilted, tilted_mean  # noqa: E402
from advshift.reductions.top_k import AverageTopK  # noqa: E402
from advshift.reductions.worst_case import WorstCaseMean, worst_case_weights  # noqa: E402

__all__ = [
    "DORO",
    "KL",
    "REDUCTIONS",
    "AverageTopK",
    "CVaR",
    "ChiSquare",
    "DualCVaR",
    "DualChiSquare",
    "Hashimoto",
    "Mean",
    "MultiLevel",
    "PenalisedChiSquare",
    "Reduction",
    "StreamingTilted",
    "Tilted",
    "WorstCaseMean",
    "chi_square_dual",
    "cvar_dual",
    "tilted_mean",
    "without_the_worst",
    "worst_case_weights",
]

REDUCTIONS: Registry[Reduction] = Registry(
    "reduction",
    {
        kind.name: kind
        for kind in (
            Mean,
            AverageTopK,
            CVaR,
            DualCVaR,
            ChiSquare,
            PenalisedChiSquare,
            Hashimoto,
            DualChiSquare,
            KL,
            Tilted,
            StreamingTilted,
            DORO,
            WorstCaseMean,
            MultiLevel,
        )
    },
)
