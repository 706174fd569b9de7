"""What must be known before an estimate is trusted: a stable code and a sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advshift.audit.readers.outputs import Outputs, named_classes
from advshift.estimation.choosing import Confusion
from advshift.types import PriorEstimate

__all__ = ["FAILS", "warnings_of"]

FAILS = 0.01  # p-values up to here say that label shift does not hold, up to the level that it is doubtful
ILL_CONDITIONED = 100.0
FEW_ROWS = 5  # target rows per class below which an estimate is mostly noise, and its intervals do not say so
FEW_LEFT = 30.0  # source examples that the weights should leave


def warnings_of(
    source: Outputs,
    target: Outputs,
    estimate: PriorEstimate,
    confusion: Confusion,
    test: dict[str, Any] | None,
) -> list[dict[str, str]]:
    """Every warning, the gravest first."""
    found = (
        *_of_the_test(test),
        *_of_the_confusion(confusion, len(source.classes), estimate.method),
        *_of_the_samples(source, target, estimate),
    )
    return [{"code": code, "message": message} for code, message in found]


def _of_the_test(test: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if test is None:
        yield (
            "untested",
            "Predicted classes alone fit nearly any mix, so whether the classes themselves have changed could not be "
            "tested; give probabilities.",
        )
    elif test["p_value"] <= FAILS:
        yield (
            "not-label-shift",
            "The target's predictions fit no mix of the source's classes, so the classes themselves have changed: "
            "neither the estimate nor anything that follows from it can be trusted. Label some of the target.",
        )
    elif test["p_value"] <= test["level"]:
        yield (
            "doubtful-label-shift",
            "The target's predictions fit a mix of the source's classes badly: that only the mix has changed is "
            "doubtful. Look at the deviating classes before you use the estimate.",
        )


def _of_the_confusion(confusion: Confusion, classes: int, method: str) -> Iterator[tuple[str, str]]:
    if confusion.never:
        yield (
            "never-predicted",
            f"The model never predicts {named_classes(confusion.never)} on the source; what is estimated there rests "
            "on small probabilities alone.",
        )
    if confusion.rank < classes:
        yield (
            "singular",
            f"The confusion matrix has rank {confusion.rank} for {classes} classes: several mixes may explain the "
            f"predictions, and {method} chose one of them; the intervals allow for the others.",
        )
    elif confusion.condition > ILL_CONDITIONED:
        yield (
            "ill-conditioned",
            f"The confusion matrix is ill-conditioned ({confusion.condition:,.0f}): some classes look alike to the "
            "model, and their shares are uncertain.",
        )


def _of_the_samples(source: Outputs, target: Outputs, estimate: PriorEstimate) -> Iterator[tuple[str, str]]:
    if not estimate.converged:
        yield "not-converged", f"{estimate.method} did not converge; its estimate may be off. Try another method."
    if target.rows < FEW_ROWS * len(source.classes):
        yield (
            "few-rows",
            f"The target has {target.rows:,} rows for {len(source.classes):,} classes, fewer than {FEW_ROWS} a class: "
            "intervals and the ball around the estimate are then often too small to hold the truth. Rely on neither; "
            "gather more rows, or fear a radius of your own around the source's mix (advshift audit --radii).",
        )
    left = estimate.diagnostics["effective_sample_size"]
    if left < FEW_LEFT:
        yield (
            "few-left",
            f"Weighted by the estimate, the source is worth {left:.0f} of its {source.rows:,} examples: what is said "
            "of the target's accuracy rests on those.",
        )
    if source.sha256 is not None and source.sha256 == target.sha256:
        yield "same-file", "Source and target are the same file: the estimate is the source's own mix."
