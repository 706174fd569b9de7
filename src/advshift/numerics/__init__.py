"""Pure functions on arrays, written once for NumPy and torch."""

from __future__ import annotations

from advshift.numerics.divergences import divergence
from advshift.numerics.lambert import wright_omega
from advshift.numerics.projection import Projection, project_kl_ball, project_simplex
from advshift.numerics.proximal import ProximalStep, exact_proximal_step, mirror_step

__all__ = [
    "Projection",
    "ProximalStep",
    "divergence",
    "exact_proximal_step",
    "mirror_step",
    "project_kl_ball",
    "project_simplex",
    "wright_omega",
]
