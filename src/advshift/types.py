"""Records and shape types that the whole package shares.

An `Array` is a NumPy array or a torch tensor: the numerics are written once against the array API.
Shapes are written in the annotations (`Float[Array, "*batch classes"]`) and are checked while tests run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Bool, Float

__all__ = ["Array", "ArrayLike", "PerProblem", "PerProblemFlag", "PriorEstimate", "WorstCase"]

Array: TypeAlias = Any
ArrayLike: TypeAlias = Any

# A number or a flag per problem: the classes' axis is kept with length 1, but a single NumPy problem has scalars.
PerProblem: TypeAlias = Float[Array, "*#batch 1"] | Float[Array, ""] | float
PerProblemFlag: TypeAlias = Bool[Array, "*#batch 1"] | Bool[Array, ""]


class WorstCase(NamedTuple):
    """The worst label distribution of a set, and how bad it is.

    Attributes
    ----------
    value
        The largest expected risk over the set.
    distribution
        A label distribution of the set that attains it. Where classes tie, the tie is split in proportion
        to what each may take, so that the answer does not depend on the order of the classes.
    multiplier
        The derivative of `value` with respect to the set's radius: 0 where the radius is slack, infinite
        at radius 0 of a smooth ball, nan for a set without one radius.
    converged
        Whether the iteration met its tolerance; always true for the sets that are solved by a sort.
    """

    value: Float[Array, "*batch"]
    distribution: Float[Array, "*batch classes"]
    multiplier: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """An estimated label distribution, and how sure one may be of it.

    Attributes
    ----------
    prior
        The estimated label distribution of the target.
    source
        The label distribution of the source that it is compared with.
    covariance
        The covariance of `prior`; None where it was not asked for. The asymptotic form is that of the estimate without
        its bounds, so that a class estimated at zero has a variance, too.
    replicates
        The estimates of the bootstrap, one per row; None where there was none.
    converged
        Whether the solver met its tolerance.
    iterations
        The steps that it took.
    source_size, target_size
        The number of examples on each side.
    diagnostics
        Numbers by name that say how far the estimate can be trusted.
    method
        The name of the estimator.
    source_influence
        `g ↦ Σ_i g_i·(influence of source example i on the prior)`, to first order: what else is computed from the same
        source is correlated with the estimate. It is not saved with the record.
    """

    prior: Float[Array, " classes"]
    source: Float[Array, " classes"]
    covariance: Float[Array, "classes classes"] | None
    replicates: Float[Array, "replicates classes"] | None
    converged: bool
    iterations: int
    source_size: int
    target_size: int
    diagnostics: dict[str, float] = field(default_factory=dict)
    method: str = ""
    source_influence: Callable[[Any], Any] | None = field(default=None, repr=False)

    @property
    def weights(self) -> Float[Array, " classes"]:
        """The importance weight of each class, `q/p`."""
        return self.prior / self.source

    @property
    def standard_errors(self) -> Float[Array, " classes"]:
        """The standard error of each class's share; nan where no covariance was asked for."""
        if self.covariance is None:
            return self.prior * float("nan")
        return self.covariance.diagonal() ** 0.5

    def to_objective_options(self) -> dict[str, Any]:
        """What to give to `RobustObjective` to train for the estimated mix: importance weights `prior/p`.

        `p` is the mix of the training data, which the objective knows from its `class_counts`. To train for every mix
        that the estimate leaves possible, take `confidence_ball(estimate).to_objective_options()`.
        """
        return {"adversary": "fixed", "distribution": self.prior}

    def to_dict(self) -> dict[str, Any]:
        """The record as plain numbers and lists, ready for JSON."""
        arrays = {name: getattr(self, name) for name in ("prior", "source", "covariance", "replicates")}
        plain = {name: None if array is None else array.tolist() for name, array in arrays.items()}
        names = ("converged", "iterations", "source_size", "target_size", "diagnostics", "method")
        return {"schema": "advshift.prior-estimate/1", **plain, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> PriorEstimate:
        """The record that `to_dict` wrote."""
        import numpy as np

        from advshift.errors import InputError

        if record.get("schema") != "advshift.prior-estimate/1":
            raise InputError(f"expected a record of schema 'advshift.prior-estimate/1'; got {record.get('schema')!r}")
        values = {name: value for name, value in record.items() if name != "schema"}
        for name in ("prior", "source", "covariance", "replicates"):
            values[name] = None if values[name] is None else np.asarray(values[name], dtype=np.float64)
        return cls(**values)
