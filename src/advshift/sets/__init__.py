"""Which label distributions are feared: one file per uncertainty set, all with one contract.

>>> from advshift.sets import SETS, KLBall
>>> SETS["kl"] is KLBall
True
"""

from __future__ import annotations

from advshift.registry import Registry
from advshift.sets.base import UncertaintySet
from advshift.sets.box import Box
from advshift.sets.chi_square import ChiSquareBall
from advshift.sets.frequency_cap import FrequencyCap
from advshift.sets.kl import KLBall
from advshift.sets.reverse_kl import ReverseKLBall
from advshift.sets.simplex import Simplex
from advshift.sets.top_k import TopK
from advshift.sets.total_variation import TotalVariationBall

__all__ = [
    "SETS",
    "Box",
    "ChiSquareBall",
    "FrequencyCap",
    "KLBall",
    "ReverseKLBall",
    "Simplex",
    "TopK",
    "TotalVariationBall",
    "UncertaintySet",
]

SETS: Registry[UncertaintySet] = Registry(
    "uncertainty set",
    {
        kind.name: kind
        for kind in (
            KLBall,
            ReverseKLBall,
            ChiSquareBall,
            TotalVariationBall,
            FrequencyCap,
            TopK,
            Simplex,
            Box,
        )
    },
)
