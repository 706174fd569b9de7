"""A change alarm with a guaranteed false-alarm rate, although the distribution without a change is only a sample's.

The predictions of the source fall into `K` groups with counts `c`, `n` in all; those of the stream since some start
have counts `m`, `t` in all. Without a change both follow one unknown distribution `p` of the groups. For `0 < λ ≤ 1`

    M = price(λ) · Q(stream) · Π (c_k/n)^(λ c_k) / max_p Π p_k^(m_k + λ c_k)

is at most `W(c, p) · L`, with `L = Q(stream)/p(stream)` a martingale of mean one for every sequential forecast `Q` that
knows the source, and `W = price(λ) · exp(λ n KL(c/n ‖ p))`. The price makes the mean of `W` at most one: it is the
larger one of `(1 - λ)^(K-1)` (Agrawal 2020) and `C^-λ`, where `C = E exp(n KL(c/n ‖ p)) = Σ_c n!/Π c_k! Π (c_k/n)^c_k`
is the same for every `p` (Shtarkov's sum), by Jensen's inequality. The maximum is at `p = (m + λc)/(t + λn)`: nothing
has to be searched.

*Test*: `M` from the first example on. Over source and stream together, it ever reaches `1/α` with probability at most
`α` (Ville's inequality). *Detector*: `R = Σ_s w_s M_s` over many starts `s`, the weights of which sum to at most the
number of examples. If an alarm is raised at `R ≥ N`, then `N ≤ E[R | source] ≤ W·E[run length | source]`, and as the
mean of `1/W` is at least one, so the mean run length without a change is at least `N`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from advshift.errors import InputError
from advshift.types import Array

__all__ = ["Alarm", "AlarmState", "Raised", "make_alarm"]

MOST_GROUPS = 32  # the price of an unknown source grows with their number
BLOCK = 50  # examples between two starts of the detector
LIVES = 8  # blocks that a start lives, times the largest power of two that divides its number
SHARES = (
    0.02,
    0.1,
    0.3,
    0.6,
    1.0,
)  # λ: how much of the source is believed; evidence is limited by λn, its price grows too
STRENGTHS = (10.0, 50.0, 250.0, 1250.0)  # examples that the source is worth to the forecast: small ones learn quickly


@dataclass(frozen=True, eq=False)
class Alarm:
    """What is fixed: the source's counts, and the two thresholds.

    Attributes
    ----------
    counts
        The source's examples in each group.
    group_of
        The group of each class.
    alpha
        The probability of ever raising the test's alarm without a change.
    run_length
        The mean number of examples without a change from one alarm of the detector to the next, at least.
    """

    counts: Float[Array, " groups"]
    group_of: Int[Array, " classes"]
    alpha: float
    run_length: float | int

    def start(self) -> AlarmState:
        """The state before the first example."""
        return AlarmState(np.zeros(len(self.counts), dtype=np.int64), _no_starts(len(self.counts)), 0, 0, 0)

    def update(self, state: AlarmState, predicted: Int[Array, " examples"]) -> tuple[AlarmState, list[Raised]]:
        """Take in predicted classes, in their order; also return the alarms that they raised."""
        groups, raised = self.group_of[predicted], []
        while len(groups):
            state, taken, one = _block(self, state, groups[:BLOCK])
            raised += one
            groups = groups[taken:]
        return state, raised

    def log_test(self, state: AlarmState) -> float:
        """The logarithm of the test's present value, which is evidence against `no change ever`."""
        return float(_log_values(self, state.counts[None])[0])

    def log_detector(self, state: AlarmState) -> float:
        """The logarithm of the detector's present value; minus infinity just after an alarm."""
        starts = state.starts
        if not len(starts.places):
            return -np.inf
        return float(_log_sum(np.log(starts.weights) + _log_values(self, state.counts - starts.before)))


class Starts(NamedTuple):
    """The detector's starts that are alive.

    Attributes
    ----------
    numbers
        Counted from 1 since the last alarm.
    places
        How many examples had been seen.
    weights
        The examples since the start before, so that all weights together never exceed the number of examples.
    before
        The counts that had been seen.
    """

    numbers: Int[Array, " starts"]
    places: Int[Array, " starts"]
    weights: Int[Array, " starts"]
    before: Int[Array, "starts groups"]


@dataclass(frozen=True, eq=False)
class AlarmState:
    """What has been seen: whole numbers only, so that nothing is lost to rounding.

    Attributes
    ----------
    counts
        The stream's examples in each group.
    starts
        Of the detector.
    last_alarm, alarms
        The example at which the detector last rang, and how often it did.
    test_alarm
        The example at which the test rang; 0 before.
    """

    counts: Int[Array, " groups"]
    starts: Starts
    last_alarm: int
    alarms: int
    test_alarm: int


class Raised(NamedTuple):
    """An alarm: which form, at which example of the stream (from 1), and after which one the change seems to lie."""

    form: str
    example: int
    since: int


def make_alarm(
    predicted: Int[Array, " examples"], classes: int, *, alpha: float = 0.01, run_length: float | int = 1e5
) -> Alarm:
    """Make an alarm from the source's predicted classes.

    Parameters
    ----------
    predicted
        The number of the predicted class of each source example, drawn as the stream is when nothing has changed.
    classes
        The number of classes; above 32 they are dealt to 32 groups by their numbers.
    alpha, run_length
        The rates of false alarms of the two forms.

    >>> alarm = make_alarm(np.arange(1000) % 2, 2)
    >>> state, raised = alarm.update(alarm.start(), np.arange(1000) % 2)
    >>> state, raised = alarm.update(state, np.zeros(100, dtype=int))
    >>> raised[0].form, raised[0].since
    ('detector', 1000)
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1; got {alpha}")
    if not 1 < run_length < np.inf:
        raise InputError(f"the run length must be a number of examples above 1; got {run_length}")
    groups = np.arange(classes) % MOST_GROUPS
    counts = np.bincount(groups[predicted], minlength=min(classes, MOST_GROUPS)).astype(np.float64)
    return Alarm(counts, groups, alpha, run_length)


def _block(alarm: Alarm, state: AlarmState, groups: Array) -> tuple[AlarmState, int, list[Raised]]:
    """Begin a start, then take in examples up to the detector's next alarm, or all of them."""
    starts, seen = _begin(state), int(state.counts.sum())
    since = np.concatenate([state.counts[None], state.counts - starts.before])
    values = _log_path(alarm, since, groups)
    weighted = np.log(starts.weights)[:, None] + values[1:]
    rings = np.flatnonzero(_log_sum(weighted.T) >= np.log(alarm.run_length))
    taken = int(rings[0]) + 1 if len(rings) else len(groups)
    counts = state.counts + np.bincount(groups[:taken], minlength=len(state.counts))
    state, raised = _with_test(replace(state, counts=counts, starts=starts), values[0, :taken] + np.log(alarm.alpha))
    if len(rings):
        raised.append(Raised("detector", seen + taken, int(starts.places[np.argmax(weighted[:, taken - 1])])))
        none = _no_starts(len(counts))
        state = replace(state, starts=none, last_alarm=seen + taken, alarms=state.alarms + 1)
    return state, taken, raised


def _with_test(state: AlarmState, excess: Array) -> tuple[AlarmState, list[Raised]]:
    """The test rings once, at the first of these examples whose value is high enough."""
    above = np.flatnonzero(excess >= 0)
    if state.test_alarm or not len(above):
        return state, []
    example = int(state.counts.sum()) - len(excess) + int(above[0]) + 1
    return replace(state, test_alarm=example), [Raised("test", example, 0)]


def _no_starts(groups: int) -> Starts:
    none = np.zeros(0, dtype=np.int64)
    return Starts(none, none, none, np.zeros((0, groups), dtype=np.int64))


def _begin(state: AlarmState) -> Starts:
    """Begin a start here; drop those whose life is over, so that there are as many as the logarithm of their number."""
    old, place = state.starts, int(state.counts.sum())
    number = 1 + int(old.numbers[-1]) if len(old.numbers) else 1
    weight = place - int(old.places[-1]) if len(old.places) else 1
    alive = number - old.numbers < LIVES * (old.numbers & -old.numbers)
    return Starts(
        np.append(old.numbers[alive], number),
        np.append(old.places[alive], place),
        np.append(old.weights[alive], weight),
        np.concatenate([old.before[alive], state.counts[None]]),
    )


def _forecast(alarm: Alarm) -> tuple[Array, Array]:
    """The Dirichlet distributions whose mixture `Q` is: their parameters per group, and their sums."""
    mean = (alarm.counts + 0.5) / (alarm.counts.sum() + 0.5 * len(alarm.counts))
    strengths = np.array(STRENGTHS)
    return strengths[:, None] * mean, strengths


def _log_values(alarm: Alarm, since: Int[Array, "starts groups"]) -> Float[Array, " starts"]:
    """`log M` for the counts since each start."""
    return _log_sum(_log_forecasts(alarm, since)) + _log_sum(_log_prices(alarm, since))


def _log_forecasts(alarm: Alarm, since: Array) -> Float[Array, "starts strengths"]:
    """`log Q` of each part of the mixture, its share counted in."""
    from scipy.special import gammaln

    parameters, strengths = _forecast(alarm)
    grown = gammaln(since[:, None, :] + parameters) - gammaln(parameters)
    total = since.sum(axis=1, keepdims=True)
    return grown.sum(axis=-1) - gammaln(total + strengths) + gammaln(strengths) - np.log(len(strengths))


def _log_prices(alarm: Alarm, since: Array) -> Float[Array, "starts shares"]:
    """`log` of what stands beside `Q`, for each `λ`."""
    shares, counts, size = np.array(SHARES), alarm.counts, alarm.counts.sum()
    known = shares * (_entropy(counts).sum() - _entropy(size)) + log_price(int(size), len(counts))
    joint = _entropy(since[:, None, :] + shares[:, None] * counts).sum(axis=-1)
    total = since.sum(axis=1, keepdims=True)
    return known - joint + _entropy(total + shares * size) - np.log(len(shares))


@lru_cache(maxsize=64)
def log_price(size: int, groups: int) -> Float[Array, " shares"]:
    """`log price(λ)` for each `λ`, from the source's size and the number of groups alone."""
    shares = np.array(SHARES)
    with np.errstate(divide="ignore"):
        gamma = (groups - 1) * np.log1p(-shares)
    return np.maximum(gamma, -shares * log_shtarkov(size, groups))


def log_shtarkov(size: int, groups: int) -> float:
    """`log Σ_c n!/Π c_k! Π (c_k/n)^c_k`, by `C_{K+2} = C_{K+1} + (n/K) C_K` (Kontkanen and Myllymäki 2007).

    >>> round(float(np.exp(log_shtarkov(2, 2))), 6)  # 1 + 2·¼ + 1
    2.5
    """
    from scipy.special import gammaln

    if size == 0 or groups < 2:
        return 0.0
    first = np.arange(size + 1.0)
    ways = gammaln(size + 1.0) - gammaln(first + 1.0) - gammaln(size - first + 1.0)
    terms = ways + _entropy(first) + _entropy(size - first) - _entropy(np.float64(size))
    before, found = 0.0, float(_log_sum(terms))
    for number in range(1, groups - 1):
        before, found = found, float(np.logaddexp(found, np.log(size / number) + before))
    return found


def _log_path(alarm: Alarm, since: Array, groups: Array) -> Float[Array, "starts examples"]:
    """`log M` of each start after each example, of which every one changes one count: no sum runs over groups."""
    order = np.arange(len(groups) + 1)
    earlier = np.tril(groups[:, None] == groups, -1).sum(axis=1)
    own = (since[:, groups] + earlier)[:, None, :]
    total = (since.sum(axis=1, keepdims=True) + order)[:, None, :]
    parameters, strengths = _forecast(alarm)
    forecasts = np.log((own + parameters[:, groups]) / (total[:, :, :-1] + strengths[:, None]))
    shares = np.array(SHARES)[:, None]
    counts = shares * alarm.counts[groups] + own
    prices = np.diff(_entropy(total + shares * alarm.counts.sum()), axis=2) - _entropy(counts + 1.0) + _entropy(counts)
    paths = [
        first[:, :, None] + steps.cumsum(axis=2)
        for first, steps in ((_log_forecasts(alarm, since), forecasts), (_log_prices(alarm, since), prices))
    ]
    return _log_sum(paths[0].swapaxes(1, 2)) + _log_sum(paths[1].swapaxes(1, 2))


def _entropy(counts: Array) -> Any:
    """`x log x`, 0 at 0."""
    return counts * np.log(np.maximum(counts, 1e-300))


def _log_sum(logarithms: Array) -> Any:
    """The logarithm of the sum of exponentials over the last axis."""
    largest = logarithms.max(axis=-1, keepdims=True)
    return np.log(np.exp(logarithms - largest).sum(axis=-1)) + largest[..., 0]
