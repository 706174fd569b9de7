"""The target that an audit of another model found: what the method FIXED trains on."""

from __future__ import annotations

import os

import numpy as np
from jaxtyping import Float

from advshift.audit import AuditRecord
from advshift.audit.record import ModelRecord
from advshift.errors import InputError
from advshift.sets import SETS

__all__ = ["audited_distribution"]


def audited_distribution(
    audit: str | os.PathLike[str] | AuditRecord, radius: float, *, model: str | None = None
) -> Float[np.ndarray, " classes"]:
    """Find the label distribution that is worst for an audited model, at any radius of the audit's set.

    Parameters
    ----------
    audit
        The JSON that an audit saved, or its record. Audit a held-out part of the *training* data: a target found on the
        validation examples leaks them into training.
    radius
        The radius, whether or not the audit's curve has it.
    model
        Which model, where the audit has several.
    """
    record = audit if isinstance(audit, AuditRecord) else AuditRecord.read(audit)
    kind = SETS[record.uncertainty_set.name]
    if len(kind.parameter_names) != 1:
        raise InputError(
            f"the audit's set {record.uncertainty_set.name!r} has no single radius; "
            "find its worst case yourself and pass distribution="
        )
    classes = {entry.label: entry.risk for entry in _model(record, model).classes}
    risks = [classes.get(label) for label in record.reference.classes]
    reference = np.asarray(record.reference.distribution, dtype=np.float64)
    missing = [str(label) for label, risk, share in zip(record.reference.classes, risks, reference, strict=True)
               if risk is None and share > 0]  # fmt: skip
    if missing:
        raise InputError(f"the audit knows no risk of {', '.join(missing[:3])}; audit examples of every class")
    values = np.array([0.0 if risk is None else float(risk) for risk in risks])
    found = kind(radius).worst_case(values, reference / reference.sum())  # type: ignore[call-arg, arg-type]
    return np.asarray(found.distribution)


def _model(record: AuditRecord, name: str | None) -> ModelRecord:
    names = [model.name for model in record.models]
    if not names or (name is None and len(names) > 1) or (name is not None and name not in names):
        raise InputError(f"the audit is of the models {', '.join(names) or '(none)'}; pass model= one of them")
    return record.models[0 if name is None else names.index(name)]
