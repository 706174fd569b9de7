"""Inference on worst cases from statistics by class: one file per method, pure functions on NumPy arrays."""

from __future__ import annotations

from advshift.audit.intervals.bootstrap import bootstrap_interval
from advshift.audit.intervals.breaking import breaking_interval, marginal_effects
from advshift.audit.intervals.cross_fit import cross_fitted_value, split_ones
from advshift.audit.intervals.curve import REASONS, IntervalPoint, guaranteed_upper, worst_case_intervals
from advshift.audit.intervals.debiased_chi_square import debiased_chi_square
from advshift.audit.intervals.debiased_kl import debiased_kl
from advshift.audit.intervals.delta import delta_interval
from advshift.audit.intervals.dual_bound import dual_upper
from advshift.audit.intervals.limits import clopper_pearson, lower_limits, union_lower, union_upper, upper_limits
from advshift.audit.intervals.paired import Difference, compare_worst_cases
from advshift.audit.intervals.sample import ClassSample, class_sample, fill_missing

__all__ = [
    "REASONS",
    "ClassSample",
    "Difference",
    "IntervalPoint",
    "bootstrap_interval",
    "breaking_interval",
    "class_sample",
    "clopper_pearson",
    "compare_worst_cases",
    "cross_fitted_value",
    "debiased_chi_square",
    "debiased_kl",
    "delta_interval",
    "dual_upper",
    "fill_missing",
    "guaranteed_upper",
    "lower_limits",
    "marginal_effects",
    "split_ones",
    "union_lower",
    "union_upper",
    "upper_limits",
    "worst_case_intervals",
]
