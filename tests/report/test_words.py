"""Numbers in plain words: right for every set, and honest about what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.audit.record import AuditRecord, BreakingPoint, CurvePoint
from advshift.report.selection import headline, is_share, readable, three_mixes, titles
from advshift.report.words import Words, percent, plain, ratio_number

S = "\u00a0"


def _words(make: Callable[..., AuditRecord], kind: str = "kl", **changes: object) -> Words:
    return Words(make(5, ["a"], kind="kl", set={"name": kind}, **changes))


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.123, "12.3"),
        (0.0, "0.0"),
        (0.00123, "0.12"),
        (1.0, "100.0"),
        (-0.05, "−5.0"),
        (0.0099999, "1.0"),
        (1e-9, "0.000000"),
    ],
)
def test_percent(number: float, written: str) -> None:
    assert percent(number) == written


@pytest.mark.parametrize(
    ("number", "written"), [(1.004, "1.00"), (1.94, "1.9"), (9.96, "10"), (12345.0, "12,345"), (math.inf, "∞")]
)
def test_ratio(number: float, written: str) -> None:
    assert ratio_number(number) == written


@given(st.floats(allow_nan=False))
def test_every_number_can_be_written(number: float) -> None:
    assert plain(number)
    if math.isfinite(number):
        assert percent(number)


@pytest.mark.parametrize(
    ("kind", "point", "said"),
    [
        ("kl", CurvePoint(radius=0, max_ratio=1), "the reference mix itself"),
        ("kl", CurvePoint(radius=0.1, max_ratio=1.9), "the most favoured class is 1.9 times as frequent"),
        ("kl", CurvePoint(radius=math.inf, max_ratio=40), "everything comes from the worst class"),
        ("chi2", CurvePoint(radius=0.1), "radius 0.1"),
        ("frequency-cap", CurvePoint(radius=2, max_ratio=2), "no class is more than 2.0 times as frequent"),
        ("top-k", CurvePoint(radius=5, max_ratio=3), "everything comes from the worst 5 classes"),
        ("simplex", CurvePoint(radius=math.inf), "everything comes from the worst class"),
        (
            "tv",
            CurvePoint(radius=0.1, max_ratio=4),
            f"10.0{S}% of the examples change their class, the most favoured class is 4.0 times as frequent",
        ),
    ],
)
def test_a_radius_in_words(make: Callable[..., AuditRecord], kind: str, point: CurvePoint, said: str) -> None:
    assert _words(make, kind).radius(point) == said


def test_the_answer_comes_first(make: Callable[..., AuditRecord]) -> None:
    point = {"radius": 0.1, "debiased": 0.21, "plug_in": 0.22, "lower": 0.19, "upper": 0.24, "max_ratio": 1.9}
    record = make(3, ["a"])
    tree = record.model_dump()
    tree["models"][0] |= {"average": 0.12, "curve": [point | {"interval": "debiased"}]}
    assert _answer(tree) == (
        f"On the class mix of these data the error is 12.0{S}%. If the mix moves as far as radius 0.1, where the most "
        f"favoured class is 1.9 times as frequent, it can rise to 21.0{S}% (95{S}% interval 19.0–24.0{S}%)."
    )
    tree["set"]["name"] = "frequency-cap"
    tree["models"][0]["curve"] = [point | {"interval": "guaranteed", "radius": 1.9, "upper": 0.4}]
    assert _answer(tree).endswith(
        f"If no class becomes more than 1.9 times as frequent, it can rise to about 22.0{S}%, and with 95{S}% "
        f"confidence not above 40.0{S}%."
    )
    tree["metric"] = {"name": "log-loss", "higher_is_worse": False}
    tree["models"][0]["curve"] = [point | {"interval": None, "lower": None, "upper": None, "radius": 1.9}]
    assert _answer(tree).endswith("it can fall to 0.22 in this sample.")


def _answer(tree: dict[str, object]) -> str:
    record = AuditRecord.model_validate(tree)
    return Words(record).answer(record.models[0])


@pytest.mark.parametrize(
    ("kind", "radius", "said"),
    [
        ("kl", math.inf, "is never reached, however the mix moves."),
        ("kl", 0, "is reached without any move of the mix."),
        ("kl", None, ": not known when it is reached."),
        ("top-k", 0, "is never reached, however the mix moves."),
        ("frequency-cap", 1, "is reached without any move of the mix."),
        ("frequency-cap", 2.5, "once a class may become 2.5 times as frequent."),
        ("tv", 0.25, f"once 25.0{S}% of the examples change their class."),
    ],
)
def test_breaking_points(make: Callable[..., AuditRecord], kind: str, radius: float | None, said: str) -> None:
    words = _words(make, kind)
    sentence = words.breaking_point(words.record.models[0], BreakingPoint(target=0.5, radius=radius))
    assert sentence.startswith(f"Error 50.0{S}%")
    assert sentence.endswith(said)


def test_a_breaking_point_lies_between_two_points_of_the_curve(small: AuditRecord) -> None:
    curve = small.models[0].curve
    below, above = curve[5], curve[6]
    broken = BreakingPoint(target=0.5, radius=(below.radius + above.radius) / 2)
    said = Words(small).breaking_point(small.models[0], broken)
    assert f"{ratio_number(below.max_ratio)} to {ratio_number(above.max_ratio)} times as frequent" in said


def test_models_are_compared_at_one_radius(small: AuditRecord) -> None:
    radii = {headline(small, model).radius for model in small.models}
    assert len(radii) == 1
    first, second = (three_mixes(small, model) for model in small.models)
    assert [point.radius for point in first] == [point.radius for point in second]
    assert len(first) == 3
    said = Words(small).comparison(*small.models)
    assert said.startswith(f"At radius {radii.pop():g}, the worst case of advshift is")
    assert "below that of erm" in said
    assert said.endswith("more than chance explains.")


def test_a_difference_that_chance_may_explain(small: AuditRecord) -> None:
    tree = small.model_dump()
    for entry in tree["comparisons"]:
        entry |= {"lower": -0.1, "upper": 0.1}
    record = AuditRecord.model_validate(tree)
    assert Words(record).comparison(*record.models).endswith("chance may explain it.")


def test_a_share_is_told_by_name_and_range(make: Callable[..., AuditRecord]) -> None:
    assert is_share(make(5, metric={"name": "top-5 error", "higher_is_worse": True}))
    assert not is_share(make(5, metric={"name": "log-loss", "higher_is_worse": True}))
    assert Words(make(5, metric={"name": "log-loss", "higher_is_worse": True})).value(1234.5) == "1,234"


def test_splits_stand_in_the_titles_where_they_differ(small: AuditRecord) -> None:
    assert titles(small) == ["erm", "advshift"]
    tree = small.model_dump()
    tree["models"][0]["split"] = "train"
    assert titles(AuditRecord.model_validate(tree)) == ["erm (train)", "advshift (test)"]


@given(st.text())
def test_readable_text_has_no_control_characters(text: str) -> None:
    assert readable(text)
    assert all(character.isprintable() or character.isspace() or ord(character) > 127 for character in readable(text))
    assert not set(readable(text)) & {chr(code) for code in range(32)}
