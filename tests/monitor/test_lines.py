"""Lines: what is a prediction, what is a fault, and what is said of it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.audit.readers.columns import Wanted
from advshift.errors import InputError
from advshift.monitor.lines import BadLineError, Parser, detect, seconds_of

CLASSES = ("cat", "dog", "owl")


def parser(first: str, *, hard: bool = False, renormalise: bool = False, time: str | None = None) -> Parser:
    return Parser(detect(first, "s", Wanted(), time, CLASSES), CLASSES, hard=hard, renormalise=renormalise)


def test_columns_follow_the_source() -> None:
    found = parser("p_owl,id,p_cat,p_dog").line("0.5,7,0.2,0.3")
    assert found.probabilities == [0.2, 0.3, 0.5]
    assert parser("p_owl\tp_cat\tp_dog", hard=True).line("0.5\t0.2\t0.3").predicted == 2


def test_other_forms() -> None:
    assert parser("prediction").line(" dog ").predicted == 1
    assert parser("dog").line("owl").predicted == 2
    assert parser('{"probs": [1, 0, 0]}').line('{"probs": [0.25, 0.25, 0.5]}').probabilities == [0.25, 0.25, 0.5]
    assert parser('{"y_pred": "cat", "z": 1}').line('{"y_pred": "dog"}').predicted == 1
    assert parser('"prediction","note"').line('"dog","a, b"').predicted == 1
    timed = parser("when,prediction", time="when").line("1970-01-02T00:00:00Z,cat")
    assert (timed.time, timed.moment) == ("1970-01-02T00:00:00Z", 86400.0)


def test_whole_numbers_may_be_written_as_floats() -> None:
    form = detect("prediction", "s", Wanted(), None, (0, 1))
    assert [Parser(form, (0, 1), hard=True).line(text).predicted for text in ("1", "1.0", " 0")] == [1, 1, 0]
    assert Parser(form, (0, 1), hard=True).row({"prediction": 1.0}).predicted == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.5,0.5", "has 2 values, but the header names 3"),
        ("0.5,0.5,x", "has 'x' where a probability should stand"),
        ("0.5,0.5,", "has nothing where"),
        ("0.5,0.5,nan", "nan"),
        ("0.5,0.5,inf", "inf"),
        ("0.6,0.6,-0.2", "negative"),
        ("0.5,0.4,0", "sum to 0.9"),
        ("0,0,0", "all zero"),
        ('"0.5,0.5,0', "cannot be split"),
    ],
)
def test_faults_of_probabilities(line: str, message: str) -> None:
    with pytest.raises(BadLineError, match=message):
        parser("p_cat,p_dog,p_owl").line(line)


def test_sums_may_be_divided_by() -> None:
    assert parser("p_cat,p_dog,p_owl", renormalise=True).line("2,1,1").probabilities == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "is not JSON"), ("[1]", "not a JSON object"), ("{}", "list of 3"), ('{"probs": [1, 0]}', "list of 3")],
)
def test_faults_of_json(line: str, message: str) -> None:
    with pytest.raises(BadLineError, match=message):
        parser('{"probs": [1, 0, 0]}').line(line)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("0.2,0.8", "put a header first"),
        ("p_cat,p_cat", "more than one column named"),
        ("p_cat,p_dog", "lacks 'owl'"),
        ("p_cat,p_dog,p_owl,p_cow", "has 'cow' besides"),
        ("17", "neither one of the source's 3 classes"),
        ("a,b", "neither predictions, probabilities"),
        ("loss", "losses alone"),
        ("{x", "begins like JSON"),
    ],
)
def test_first_lines_that_say_nothing(first: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parser(first)


def test_a_missing_time_is_a_fault() -> None:
    with pytest.raises(InputError, match="no column 'wen'; did you mean 'when'"):
        parser("when,prediction", time="wen")
    with pytest.raises(BadLineError, match="nothing in the column 'when'"):
        parser("when,prediction", time="when").line(",cat")
    with pytest.raises(BadLineError, match="ISO 8601"):
        parser("when,prediction", time="when").line("yesterday,cat")


@given(st.text(max_size=60))
def test_any_text_is_a_prediction_or_a_fault(text: str) -> None:
    for first in ("p_cat,p_dog,p_owl", '{"probs": [1, 0, 0]}', "prediction"):
        with suppress(BadLineError):
            parser(first).line(text)


def test_seconds() -> None:
    assert seconds_of("12.5") == 12.5
    assert seconds_of("1970-01-01T02:00+02:00") == 0.0
