"""An estimate's numbers in plain words: the same sentences stand in the terminal and on the page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from advshift.estimation.notices import FAILS
from advshift.estimation.record import EstimatedClass, EstimateRecord, ExpectedRecord
from advshift.report.selection import readable
from advshift.report.words import SPACE, brief, percent, plain, ratio_number, times

__all__ = ["EstimateWords", "moved_most", "next_steps"]

METHODS = {
    "auto": "likelihood, drawn towards the source where it is open (auto)",
    "em": "expectation maximisation",
    "bbse": "black-box shift estimation",
    "rlls": "regularised least squares (RLLS)",
    "mapls": "maximum a posteriori (MAPLS)",
    "kmm": "kernel mean matching",
    "kl-matching": "Kullback–Leibler matching",
    "gls": "generalised label-shift weights",
}
DEVIATING = 3  # classes that the verdict names


class EstimateWords:
    """How the numbers of one estimate are said."""

    def __init__(self, record: EstimateRecord) -> None:
        self.record = record

    @property
    def confidence(self) -> str:
        """The confidence of intervals and of the ball."""
        return f"{100 * self.record.confidence:g}{SPACE}%"

    @property
    def method(self) -> str:
        """The estimator, its calibration, and where its intervals come from."""
        method = self.record.method
        name = METHODS.get(method.name, readable(method.name))
        calibrated = "" if method.calibration is None else f", probabilities calibrated ({method.calibration.name})"
        outputs = " on predicted classes" if method.outputs == "predictions" else ""
        return f"{name}{outputs}{calibrated}, {method.covariance} intervals"

    def share(self, number: float | None) -> str:
        """A share: `0.6 %`."""
        return "–" if number is None else f"{percent(number)}{SPACE}%"

    def span(self, lower: float, upper: float) -> str:
        """An interval: `19.0–24.0 %`."""
        return f"{percent(lower)}–{percent(upper)}{SPACE}%"

    def number(self, value: float | None) -> str:
        """A number without a unit."""
        return "∞" if value is None else plain(value)

    def p_value(self, value: float) -> str:
        """A p-value: `p = 0.012`."""
        return f"p{SPACE}={SPACE}{value:.2f}" if value >= 0.1 else f"p{SPACE}={SPACE}{value:.2g}"

    def times(self, entry: EstimatedClass) -> str:
        """How many times as frequent a class has become: `×2.5`."""
        return f"×{ratio_number(entry.ratio)}"

    @property
    def answer(self) -> str:
        """The first thing to know: whether the mix has moved, and where to."""
        found = self.record.divergence
        if self.fails:
            return (
                f"If label shift held, class “{brief(readable(found.favoured))}” would be {times(found.max_ratio)} as "
                "frequent in the target as in the source."
            )
        if found.chance:
            return (
                f"The mix may not have moved: the source’s own mix is among those that the {self.record.target.rows:,} "
                f"target rows leave possible with {self.confidence} confidence."
            )
        if self.few:
            return (
                f"The target has too few rows to say whether the mix has moved: the estimate has class "
                f"“{brief(readable(found.favoured))}” {times(found.max_ratio)} as frequent as in the source."
            )
        return (
            f"The mix has moved: class “{brief(readable(found.favoured))}” is {times(found.max_ratio)} as frequent in "
            "the target as in the source."
        )

    @property
    def distance(self) -> str:
        """How far the estimate is from the source's mix, in the audit's words."""
        found = self.record.divergence
        favoured = f", where the most favoured class is {times(found.max_ratio)} as frequent" if found.chance else ""
        return (
            f"The estimate is at radius {plain(found.kl)} (Kullback–Leibler) from the source’s mix{favoured}; "
            f"{self.share(found.tv)} of the examples change their class."
        )

    @property
    def verdict(self) -> str:
        """Whether the assumption of label shift holds."""
        test = self.record.shift_test
        if test is None:
            return "Label shift itself could not be tested: predicted classes alone fit nearly any mix."
        p_value = self.p_value(test.p_value)
        if test.p_value > test.level:
            return f"Label shift: nothing in the predictions speaks against it ({p_value})."
        start = "Label shift does not hold" if test.p_value <= FAILS else "Label shift is doubtful"
        return f"{start} ({p_value}): {self._deviation()}."

    def _deviation(self) -> str:
        deviating = self.deviating()
        if not deviating:
            return "no single predicted class stands out, all together do not fit a mix of the source’s classes"
        entry = deviating[0]
        first = (
            f"“{brief(readable(entry.label))}” is predicted for {self.share(entry.predicted)} of the target, where the "
            f"nearest mix explains {self.share(entry.expected)}"
        )
        if entry.expected is not None and abs(entry.predicted - entry.expected) < 0.1 * entry.expected:
            first = f"the probabilities of “{brief(readable(entry.label))}” are not those that the source shows"
        rest = [brief(readable(other.label)) for other in deviating[1 : 1 + DEVIATING]]
        more = len(deviating) - 1 - len(rest)
        others = ", ".join(f"“{name}”" for name in rest) + (f" and {more} more" if more > 0 else "")
        return f"{first}{f'; also deviating: {others}' if rest else ''}"

    def deviating(self) -> list[EstimatedClass]:
        """The classes whose predictions deviate, the clearest first."""
        test = self.record.shift_test
        by_label = {entry.label: entry for entry in self.record.classes}
        return [] if test is None else [by_label[label] for label in test.deviating if label in by_label]

    @property
    def accuracy(self) -> list[str]:
        """What accuracy to expect, as it is and corrected, and what confidence would have promised."""
        found = self.record.performance
        if self.fails:
            return [
                f"If label shift held, the accuracy would be {self._expected(found.target)}; as it does not, only "
                f"labels can tell. On the source it is {self.share(found.source)}."
            ]
        said = [
            f"Expect an accuracy of {self._expected(found.target)} on the target; on the source it is "
            f"{self.share(found.source)}."
        ]
        if found.corrected is not None:
            said.append(f"With predictions corrected for the new mix, expect {self._expected(found.corrected)}.")
        if found.confidence is not None and not found.target.lower <= found.confidence <= found.target.upper:
            said.append(
                f"The model’s average confidence, {self.share(found.confidence)}, is no guide: it lies outside that "
                "interval."
            )
        return said

    def _expected(self, found: ExpectedRecord) -> str:
        interval = f"{self.confidence} interval {self.span(found.lower, found.upper)}"
        return f"{self.share(found.value)} ({interval})"

    @property
    def diagnostics(self) -> str:
        """The confusion matrix, the weights, the solver."""
        found, classes = self.record.diagnostics, len(self.record.classes)
        condition = "infinite" if found.condition is None else plain(found.condition)
        converged = "converged" if found.converged else "did not converge"
        return (
            f"Confusion matrix: condition {condition}, rank {found.rank:,} of {classes:,}. The weights leave "
            f"{found.effective_sample_size:,.0f} of {self.record.source.rows:,} source examples (effective sample "
            f"size); the largest is {plain(found.largest_weight)}. The solver {converged} "
            f"({found.iterations:,} {'step' if found.iterations == 1 else 'steps'})."
        )

    @property
    def ball(self) -> str:
        """How uncertain the estimate is, as a radius."""
        radius = plain(self.record.ball.radii["kl"])
        if self.few:
            return f"The ball around the estimate has the radius {radius}, too small to be relied on with so few rows."
        return f"With {self.confidence} confidence the true mix is within radius {radius} of the estimate."

    @property
    def few(self) -> bool:
        """Whether the target has too few rows for intervals and ball."""
        return any(warning.code == "few-rows" for warning in self.record.warnings)

    @property
    def fails(self) -> bool:
        """Whether the assumption was rejected clearly."""
        return self.record.shift_test is not None and self.record.shift_test.p_value <= FAILS


def moved_most(record: EstimateRecord, most: int) -> list[EstimatedClass]:
    """All classes in their order, or those whose share moved most, the largest move first."""
    if len(record.classes) <= most:
        return list(record.classes)
    return sorted(record.classes, key=lambda entry: -abs(entry.estimate - entry.source))[:most]


def next_steps(record: EstimateRecord, saved: str | None = None, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What to do next, as pairs of a reason and a command.

    Parameters
    ----------
    record
        What was found.
    saved
        Where it was saved as JSON; None where it was not.
    columns
        The options that named columns, which the next commands need too.
    """
    source, target = (shlex.quote(readable(one.path)) for one in (record.source, record.target))
    file, more = shlex.quote(saved or "estimate.json"), "".join(f" {shlex.quote(option)}" for option in columns)
    if EstimateWords(record).fails:
        return [
            (
                "Label some of the target, and see what changed; until then, fear every mix",
                f"advshift audit {source}{more}",
            )
        ]
    steps = []
    if saved is None:
        steps.append(("Save the estimate", f"advshift estimate {source} {target}{more} --json estimate.json"))
    if record.method.outputs == "probabilities":
        steps.append(("Correct the predictions", f"advshift correct {file} {target}{more} -o corrected.csv"))
    steps.append(
        ("Ask how bad it can be, given what the target sample says", f"advshift audit {source}{more} --around {file}")
    )
    return steps
