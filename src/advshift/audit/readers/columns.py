"""Which column of a table holds what: found by usual names, unless the user names it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advshift.errors import InputError
from advshift.registry import nearest

__all__ = ["Columns", "Wanted", "find_columns", "is_aggregated"]

USUAL = {
    "label": ("label", "labels", "y", "y_true", "true_label", "target", "truth", "true", "gold", "actual", "class"),
    "prediction": ("prediction", "predictions", "predicted", "pred", "preds", "y_pred", "predicted_label", "y_hat"),
    "probabilities": ("probabilities", "probability", "probs", "proba", "prob", "y_proba", "softmax"),
    "loss": ("loss", "losses", "value", "nll", "cross_entropy"),
    "id": ("id", "ids", "example_id", "sample_id", "image_id", "uid", "uuid", "key"),
    "count": ("count", "counts", "n", "examples"),
    "errors": ("errors", "error_count", "mistakes"),
    "value_sum": ("value_sum", "sum", "loss_sum"),
    "value_square_sum": ("value_square_sum", "square_sum", "sum_of_squares", "loss_square_sum"),
}
PREFIXES = ("probabilities_", "probability_", "probs_", "proba_", "prob_", "p_")


@dataclass(frozen=True)
class Wanted:
    """The columns that the user named; None leaves one to be found."""

    label: str | None = None
    prediction: str | None = None
    probabilities: str | None = None
    loss: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Columns:
    """The columns that were found.

    `probabilities` is one column of lists, or a column for each of `classes`.
    """

    label: str
    prediction: str | None = None
    probabilities: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    loss: str | None = None
    id: str | None = None

    def describe(self) -> str:
        """Say in a line what was found."""
        shown = {
            "label": self.label,
            "prediction": self.prediction,
            "probabilities": _shorten(self.probabilities),
            "loss": self.loss,
            "id": self.id,
        }
        return ", ".join(f"{role} = {name}" for role, name in shown.items() if name)


def _shorten(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return "".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} columns)"


def usual(role: str, names: Sequence[str]) -> str | None:
    """Find the column of a role by its usual names, whatever their case."""
    folded = {name.lower().strip(): name for name in reversed(names)}
    return next((folded[candidate] for candidate in USUAL[role] if candidate in folded), None)


def is_aggregated(names: Sequence[str]) -> bool:
    """Whether a table has counts and sums of classes rather than examples."""
    found = {role: usual(role, names) for role in ("label", "count", "errors", "value_sum")}
    return bool(found["label"] and found["count"] and (found["errors"] or found["value_sum"]))


def find_columns(types: Mapping[str, str], wanted: Wanted, file: str, *, labelled: bool = True) -> Columns:
    """Find the columns of a table of examples; `types` are DuckDB's names of the columns' types.

    Without `labelled`, a table may lack labels: the column's name is then empty.
    """
    names = list(types)
    label = (_named(wanted.label, names, file) if labelled else wanted.label) or usual("label", names)
    if label is None and labelled:
        raise InputError(
            f"{file} has no column of labels (looked for {', '.join(USUAL['label'])}); its columns are "
            f"{_list(names)}: name one with --label, and see that the file has a header"
        )
    probabilities, classes = _find_probabilities(types, wanted.probabilities, file)
    found = Columns(
        label=label if label in names else "",
        prediction=_named(wanted.prediction, names, file) or usual("prediction", names),
        probabilities=probabilities,
        classes=classes,
        loss=_named(wanted.loss, names, file) or usual("loss", names),
        id=_named(wanted.id, names, file) or usual("id", names),
    )
    if not (found.prediction or found.probabilities or found.loss):
        raise InputError(
            f"{file} has {f'labels ({label}) but ' if label else ''}neither predictions, probabilities nor losses; its "
            f"columns are "
            f"{_list(names)}: name one with --prediction, --probabilities or --loss"
        )
    return found


def _named(name: str | None, names: Sequence[str], file: str) -> str | None:
    if name is None or name in names:
        return name
    raise InputError(f"{file} has no column {name!r}{nearest(name, names)} (its columns: {_list(names)})")


def _find_probabilities(
    types: Mapping[str, str], wanted: str | None, file: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find a list column, or a column per class: by the name, the prefix or the pattern wanted, else the usual ones."""
    if wanted is None:
        single = usual("probabilities", [name for name, kind in types.items() if kind.endswith("]")])
        return ((single,), ()) if single else _by_prefix(list(types), PREFIXES)
    if wanted in types:
        return (wanted,), ()
    if "," in wanted:
        listed = tuple(_named(name.strip(), list(types), file) or "" for name in wanted.split(",") if name.strip())
        return listed, listed
    names, classes = _by_prefix(list(types), (wanted.removesuffix("*"),))
    if not names and any(sign in wanted for sign in "*?["):
        names = tuple(fnmatch.filter(list(types), wanted))
        classes = tuple(re.sub(r"^.*?_", "", name) for name in names)
    if not names:
        raise InputError(
            f"{file} has no column {wanted!r}, and none that begins so (its columns: {_list(list(types))})"
        )
    return names, classes


def _by_prefix(names: Sequence[str], prefixes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for prefix in prefixes:
        found = tuple(name for name in names if name.lower().startswith(prefix.lower()) and len(name) > len(prefix))
        if len(found) > 1:
            return found, tuple(name[len(prefix) :] for name in found)
    return (), ()


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 12 else shown
