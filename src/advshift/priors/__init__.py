"""Estimators of a target's label distribution from unlabelled predictions: one file per method, one contract.

>>> from advshift.priors import ESTIMATORS, EM
>>> ESTIMATORS["em"] is EM
True
"""

from __future__ import annotations

from advshift.priors.auto import Auto
from advshift.priors.base import PriorEstimator
from advshift.priors.bbse import BBSE
from advshift.priors.calibration import (
    BiasCorrectedTemperature,
    Calibration,
    Temperature,
    VectorScaling,
    VectorScalingNoBias,
)
from advshift.priors.calibrations import CALIBRATIONS
from advshift.priors.em import EM
from advshift.priors.gls import GLSWeights
from advshift.priors.kl_matching import KLMatching
from advshift.priors.kmm import KernelMeanMatching
from advshift.priors.mapls import MAPLS
from advshift.priors.rlls import RLLS
from advshift.priors.shift_test import ShiftTest, shift_test
from advshift.priors.shrunk_bias import ShrunkBias
from advshift.registry import Registry
from advshift.types import PriorEstimate

__all__ = [
    "BBSE",
    "CALIBRATIONS",
    "EM",
    "ESTIMATORS",
    "MAPLS",
    "RLLS",
    "Auto",
    "BiasCorrectedTemperature",
    "Calibration",
    "GLSWeights",
    "KLMatching",
    "KernelMeanMatching",
    "PriorEstimate",
    "PriorEstimator",
    "ShiftTest",
    "ShrunkBias",
    "Temperature",
    "VectorScaling",
    "VectorScalingNoBias",
    "shift_test",
]

ESTIMATORS: Registry[PriorEstimator] = Registry(
    "prior estimator",
    {kind.name: kind for kind in (Auto, EM, BBSE, RLLS, MAPLS, KernelMeanMatching, KLMatching, GLSWeights)},
)
