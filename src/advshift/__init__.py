"""advshift: classifiers that hold up when the mix of classes at deployment is not the mix of training.

`import advshift` is light: every public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advshift import losses, numerics, posthoc, priors, reductions, sets
    from advshift.errors import AdvshiftError, InputError, MissingDependencyError
    from advshift.objective import AdvShift, RobustObjective
    from advshift.results import AuditResult, audit
    from advshift.types import PriorEstimate, WorstCase

__version__ = "0.1.0"

# Public name -> the module that holds it.
_PUBLIC = {
    "AdvshiftError": "advshift.errors",
    "InputError": "advshift.errors",
    "MissingDependencyError": "advshift.errors",
    "PriorEstimate": "advshift.types",
    "WorstCase": "advshift.types",
    "AuditResult": "advshift.results",
}
# Public name -> (the module that holds it, the module it needs, the extra that brings that module).
_OPTIONAL: dict[str, tuple[str, str, str]] = {
    "AdvShift": ("advshift.objective", "torch", "torch"),
    "RobustObjective": ("advshift.objective", "torch", "torch"),
}
_MODULES = ("audit", "losses", "numerics", "posthoc", "priors", "reductions", "sets")

__all__ = [
    "AdvShift",
    "AdvshiftError",
    "AuditResult",
    "InputError",
    "MissingDependencyError",
    "PriorEstimate",
    "RobustObjective",
    "WorstCase",
    "__version__",
    "audit",
    "losses",
    "numerics",
    "posthoc",
    "priors",
    "reductions",
    "sets",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _OPTIONAL:
        from advshift.errors import require

        module, needed, extra = _OPTIONAL[name]
        require(needed, f"advshift.{name}", extra)
        return getattr(importlib.import_module(module), name)
    if name in _MODULES:
        return importlib.import_module(f"advshift.{name}")
    raise AttributeError(f"module 'advshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
