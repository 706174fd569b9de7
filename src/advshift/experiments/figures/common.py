"""What the figures share: which runs belong together, their names in words, mean curves with bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.experiments.records import Record
from advshift.report.style import Series, Theme, finish, percent_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TAUS", "curve_axes", "draw_band", "legend", "name_of", "runs_of", "seeds_of"]

T = TypeVar("T")

TAUS = np.concatenate([np.linspace(0.0, 0.5, 11), np.linspace(0.6, 3.0, 25), [3.5, 4.0]])

NAMES = {
    "erm": "ERM",
    "advshift": "AdvShift",
    "exact": "exact adversary",
    "exact-late": "exact adversary, late",
    "agnostic": "agnostic",
    "tilted": "tilted",
    "group-dro": "group DRO",
    "class-cvar": "class CVaR",
    "balanced": "balanced",
    "class-balanced": "class-balanced",
    "ldam": "LDAM",
    "ldam-drw": "LDAM-DRW",
    "logit-adjusted": "logit adjustment",
    "balanced-softmax": "balanced softmax",
    "focal": "focal",
    "deferred": "deferred weights",
    "fixed": "FIXED",
    "continued": "as before",
    "robust": "exact adversary",
    "best": "chosen of our own",
    "erm-held-out": "ERM, a part held out",
    "advshift-uniform-start": "AdvShift, r = 0.1, uniform start",
}


def name_of(method: str) -> str:
    """A method in words; a number behind it is its radius.

    >>> name_of("advshift-0.1"), name_of("fixed-2")
    ('AdvShift, r = 0.1', 'FIXED, τ = 2')
    """
    stem, _, number = method.rpartition("-")
    if number.replace(".", "").isdigit() and stem:
        if stem == "fixed":
            return f"FIXED, τ = {number}"
        if stem in ("tilted", "agnostic", "class-cvar"):
            return f"{NAMES[stem]}, {number}"
        if stem in ("fine-tune", "clip"):
            return {"fine-tune": "fine-tune, {} epochs", "clip": "clip {}"}[stem].format(number)
        return f"{NAMES.get(stem, stem)}, r = {number}"
    return NAMES.get(method, method.replace("-", " "))


def runs_of(records: Mapping[str, Record], group: str, method: str) -> list[Record]:
    """The finished runs of a method, by seed; an error where there are none."""
    found = [
        record
        for record in records.values()
        if record.about["group"] == group and record.about["method"] == method and record.finished
    ]
    if not found:
        raise InputError(f"no finished run of {method!r} in the group {group!r} is recorded")
    return sorted(found, key=lambda record: int(record.about["seed"]))


def seeds_of(runs: Sequence[Record], measure: Callable[[Record], T]) -> dict[int, T]:
    """What each seed's run measures."""
    return {int(run.about["seed"]): measure(run) for run in runs}


def draw_band(
    axes: Axes,
    xs: Float[np.ndarray, " numbers"],
    values: Sequence[Float[np.ndarray, " numbers"]],
    look: Series,
    label: str,
) -> None:
    """Draw the mean over seeds, and a standard deviation on either side where there are several."""
    stacked = np.stack(list(values))
    mean = stacked.mean(axis=0)
    axes.plot(xs, mean, color=look.colour, linestyle=look.line, linewidth=1.8, label=label)
    if len(stacked) > 1:
        spread = stacked.std(axis=0, ddof=1)
        axes.fill_between(xs, mean - spread, mean + spread, color=look.colour, alpha=0.18, linewidth=0)


def curve_axes(axes: Axes, theme: Theme, *, split: str, relative: bool, title: str = "") -> None:
    """Label axes of worst-case curves."""
    percent_axis(axes.yaxis, signed=relative)
    where = {"test": "test images", "train_full": "training images", "validation": "tuning images"}[split]
    what = "worst case less ERM's\n(points)" if relative else "worst-case error"
    finish(axes, theme, x="radius τ of the KL ball (nats)", y=f"{what}, {where}", title=title)


def legend(axes: Axes, theme: Theme, **options: Any) -> None:
    """A legend without a frame."""
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, **options)
