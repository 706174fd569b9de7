"""A record's numbers in plain words: the same sentences stand in the terminal and on the page."""

from __future__ import annotations

import math

from advshift.audit.record import AuditRecord, BreakingPoint, ComparisonRecord, CurvePoint, ModelRecord
from advshift.report.selection import comparison_at, estimate, headline, is_share, readable, titles, unmoved

__all__ = ["Words"]

SPACE = "\u00a0"  # keeps a number and its unit on one line
UNKNOWN = "–"
SET_NAMES = {
    "kl": "Kullback–Leibler ball",
    "reverse-kl": "reverse Kullback–Leibler ball",
    "chi2": "chi-square ball",
    "tv": "total-variation ball",
    "frequency-cap": "cap on how much more frequent a class may become",
    "top-k": "the worst k classes",
    "simplex": "every mix",
    "box": "ranges given for each class",
}
RADIUS_NAMES = {"frequency-cap": "cap", "top-k": "k"}
AXES = {"frequency-cap": "cap: no class more than so many times as frequent", "top-k": "k: the worst k classes alone"}
SOURCES = {"empirical": "the class mix of these data", "uniform": "a mix with equal shares of every class"}


class Words:
    """How the numbers of one record are said."""

    def __init__(self, record: AuditRecord) -> None:
        self.record = record
        self.share = is_share(record)
        self.kind = record.uncertainty_set.name
        self.metric = readable(record.metric.name)

    @property
    def set_name(self) -> str:
        """The uncertainty set, in words."""
        return SET_NAMES.get(self.kind, readable(self.kind))

    @property
    def radius_name(self) -> str:
        """What the number along the curve is."""
        return RADIUS_NAMES.get(self.kind, "radius")

    @property
    def reference(self) -> str:
        """The mix around which the mix moves."""
        source, around = self.record.reference.source, self.record.around
        if around is not None:
            return f"the mix estimated from {around.rows:,} unlabelled examples"
        return SOURCES.get(source, f"the reference mix ({readable(source)})")

    @property
    def confidence(self) -> str:
        """The confidence of intervals and bounds."""
        return f"{100 * self.record.confidence:g}{SPACE}%"

    def value(self, number: float | None) -> str:
        """A risk, with its unit: `12.3 %`."""
        if number is None:
            return UNKNOWN
        return f"{percent(number)}{SPACE}%" if self.share and math.isfinite(number) else plain(number)

    def span(self, lower: float | None, upper: float | None) -> str:
        """An interval: `19.0–24.0 %`."""
        if lower is None and upper is None:
            return UNKNOWN
        if lower is None or upper is None:
            return f"at most {self.value(upper)}" if lower is None else f"at least {self.value(lower)}"
        join = "–" if min(lower, upper) >= 0 else " to "
        if self.share and math.isfinite(upper):
            return f"{percent(lower)}{join}{percent(upper)}{SPACE}%"
        return f"{plain(lower)}{join}{plain(upper)}"

    def amount(self, number: float) -> str:
        """A part of a risk: `2.1 points`."""
        return f"{percent(number)}{SPACE}points" if self.share else plain(number)

    def bare(self, number: float) -> str:
        """The same without its unit, for a column that names it."""
        return percent(number) if self.share else plain(number)

    @property
    def adds(self) -> str:
        """The head of a column of parts of the worst case."""
        return "adds (points)" if self.share else "adds"

    @property
    def saves(self) -> str:
        """The head of a column of what the worst case can lose."""
        return "can save (points)" if self.share else "can save"

    def share_of(self, number: float | None) -> str:
        """A share of a mix: `0.6 %`."""
        return UNKNOWN if number is None else f"{percent(number)}{SPACE}%"

    def plain_radius(self, point: CurvePoint) -> str:
        """A radius as a number with its name: `radius 0.1`."""
        if self.kind == "frequency-cap":
            return f"at most ×{ratio_number(point.radius)}"
        return f"{self.radius_name} {plain(point.radius)}"

    @property
    def axis(self) -> str:
        """The name of the axis along a curve."""
        return AXES.get(self.kind, f"{self.radius_name} of the {self.set_name}")

    def interval(self, point: CurvePoint) -> str:
        """The interval that is shown at a radius, and of which kind it is."""
        if point.interval is None:
            return "no interval"
        return f"{self.span(point.lower, point.upper)}, {self.kind_of(point)}"

    def number(self, number: float) -> str:
        """A radius or another number without a unit."""
        return plain(number)

    def kind_of(self, point: CurvePoint) -> str:
        """Of which kind the interval is that is shown."""
        return {"debiased": "de-biased", "guaranteed": "guaranteed", None: UNKNOWN}[point.interval]

    def notes(self, point: CurvePoint) -> str:
        """What else is to be known of a point of the curve."""
        notes = {"slack": point.slack, "not converged": not point.converged}
        return ", ".join(note for note, holds in notes.items() if holds)

    def difference_span(self, lower: float | None, upper: float | None) -> str:
        """The interval of a difference."""
        if lower is None or upper is None:
            return UNKNOWN
        return f"{self.difference(lower).removesuffix(f'{SPACE}points')} to {self.difference(upper)}"

    def difference(self, number: float) -> str:
        """A difference of two risks, with its sign: `−2.1 points`."""
        sign = "+" if number > 0 else "−" if number < 0 else ""
        return f"{sign}{self.amount(abs(number))}"

    def radius(self, point: CurvePoint) -> str:
        """A radius in words: `the most favoured class is 1.9 times as frequent`."""
        if unmoved(self.record, point):
            return "the reference mix itself"
        if self.kind == "frequency-cap":
            return f"no class is more than {times(point.radius)} as frequent"
        if self.kind == "top-k":
            return f"everything comes from the worst {plain(point.radius)} classes"
        if self.kind == "simplex" or point.radius == math.inf:
            return "everything comes from the worst class"
        if self.kind == "tv":
            return f"{percent(point.radius)}{SPACE}% of the examples change their class{self._favoured(point, ', ')}"
        return self._favoured(point, "") or f"{self.radius_name} {plain(point.radius)}"

    def _favoured(self, point: CurvePoint, join: str) -> str:
        if point.max_ratio is None:
            return ""
        return f"{join}the most favoured class is {times(point.max_ratio)} as frequent"

    def answer(self, model: ModelRecord) -> str:
        """The first thing to know: the risk as it is, and how bad it can get."""
        average = "not known" if model.average is None else self.value(model.average)
        first = f"On {self.reference} the {self.metric} is {average}."
        point = headline(self.record, model)
        return first if point is None else f"{first} {self._reach(point)}"

    def _reach(self, point: CurvePoint) -> str:
        verb = "rise to" if self.record.metric.higher_is_worse else "fall to"
        start = f"{self._within(point) or f'If {self._condition(point)}, it'} can {verb}"
        if point.interval == "guaranteed":
            limit = point.upper if self.record.metric.higher_is_worse else point.lower
            bound = "not above" if self.record.metric.higher_is_worse else "not below"
            return (
                f"{start} about {self.value(point.plug_in)}, and with {self.confidence} confidence {bound} "
                f"{self.value(point.guaranteed_upper if limit is None else limit)}."
            )
        known = point.lower is not None or point.upper is not None
        interval = (
            f" ({self.confidence} interval {self.span(point.lower, point.upper)})" if known else " in this sample"
        )
        return f"{start} {self.value(estimate(point))}{interval}."

    def _within(self, point: CurvePoint) -> str:
        """The start of a sentence on the ball that holds the true mix."""
        around = self.record.around
        if around is None or around.radius != point.radius:
            return ""
        confidence = f"{100 * around.confidence:g}{SPACE}%"
        return (
            f"With {confidence} confidence the true mix is within {self.plain_radius(point)} of that"
            f"{self._favoured(point, ', where ')}, and there the {self.metric}"
        )

    @property
    def together(self) -> str | None:
        """With what confidence the mix is in its ball and the risk in its interval."""
        around = self.record.around
        if around is None or around.radius is None:
            return None
        joint = around.confidence + self.record.confidence - 1.0
        return f"Both statements hold at once with about {100 * joint:.3g}{SPACE}% confidence."

    def _condition(self, point: CurvePoint) -> str:
        if self.kind == "frequency-cap":
            return f"no class becomes more than {times(point.radius)} as frequent"
        if self.kind in ("top-k", "simplex", "tv") or point.radius == math.inf:
            return self.radius(point)
        return f"the mix moves as far as {self.plain_radius(point)}{self._favoured(point, ', where ')}"

    def worst_class(self, model: ModelRecord) -> str | None:
        """The worst class, in a sentence."""
        if model.worst_class is None:
            return None
        label = brief(readable(model.worst_class.label))
        return f"The worst class is “{label}”, with {self.value(model.worst_class.value)}."

    def breaking_point(self, model: ModelRecord, broken: BreakingPoint) -> str:
        """A breaking point, in a sentence."""
        target = f"{self.metric[:1].upper()}{self.metric[1:]} {self.value(broken.target)}"
        if broken.radius is None:
            return f"{target}: not known when it is reached."
        if broken.radius == math.inf or (self.kind == "top-k" and broken.radius == 0):
            return f"{target} is never reached, however the mix moves."
        if broken.radius == (1 if self.kind == "frequency-cap" else 0):
            return f"{target} is reached without any move of the mix."
        return f"{target} is reached {self._once(model, broken.radius)}."

    def _once(self, model: ModelRecord, radius: float) -> str:
        """From which radius on, in words."""
        if self.kind == "frequency-cap":
            return f"once a class may become {times(radius)} as frequent"
        if self.kind == "top-k":
            return f"once everything comes from the worst {plain(radius)} classes"
        if self.kind == "tv":
            return f"once {percent(radius)}{SPACE}% of the examples change their class"
        return f"at {self.radius_name} {plain(radius)}{self._between(model, radius)}"

    def _between(self, model: ModelRecord, radius: float) -> str:
        """What a radius between two points of the curve means for the most favoured class."""
        ratios = [(point.radius, point.max_ratio) for point in model.curve if point.max_ratio is not None]
        below = max((pair for pair in ratios if pair[0] <= radius), default=None)
        above = min((pair for pair in ratios if pair[0] >= radius), default=None)
        if below is None or above is None:
            return ""
        low, high = ratio_number(below[1]), ratio_number(above[1])
        between = f"{low} times" if low == high else f"{low} to {high} times"
        return f", where the most favoured class is {between} as frequent"

    def comparison(self, first: ModelRecord, second: ModelRecord) -> str | None:
        """How two models compare at the first model's headline radius, in a sentence."""
        point = headline(self.record, first)
        found = None if point is None else comparison_at(self.record, first, second, point.radius)
        if point is None or found is None or found.difference is None:
            return None
        ours, theirs = (_brief_title(self.record, model) for model in (first, second))
        side = "above" if found.difference > 0 else "below" if found.difference < 0 else "from"
        gap = f"{self.amount(abs(found.difference))} {side} that of {ours}"
        where = f"Where {self.radius(point)}" if self.kind in RADIUS_NAMES else f"At {self.plain_radius(point)}"
        return f"{where}, the worst case of {theirs} is {gap}{self._chance(found)}."

    def _chance(self, found: ComparisonRecord) -> str:
        if found.lower is None or found.upper is None:
            return ""
        verdict = "chance may explain it" if found.lower <= 0 <= found.upper else "more than chance explains"
        return f" ({self.confidence} interval {self.difference_span(found.lower, found.upper)}): {verdict}"


def _brief_title(record: AuditRecord, model: ModelRecord) -> str:
    return brief(next(title for one, title in zip(record.models, titles(record), strict=True) if one is model))


def brief(text: str, longest: int = 60) -> str:
    """A name that fits in a sentence."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def percent(number: float) -> str:
    """A fraction in per cent, without the sign: one decimal, more where a small number needs them."""
    size = abs(100.0 * number)
    digits = 1 if size == 0 or size >= 0.9995 else min(6, 1 - math.floor(math.log10(size)))
    return f"{100.0 * number:.{digits}f}".replace("-", "−")


def plain(number: float) -> str:
    """A number with three digits or so."""
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e7 else f"{number:.3g}".replace("-", "−")


def ratio_number(ratio: float) -> str:
    """How many times as frequent, as a number."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:,.0f}" if ratio >= 9.95 else f"{ratio:.2f}" if ratio < 1.095 else f"{ratio:.1f}"


def times(ratio: float) -> str:
    """How many times as frequent, in words."""
    return "any number of times" if math.isinf(ratio) else f"{ratio_number(ratio)} times"
