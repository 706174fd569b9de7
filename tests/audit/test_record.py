"""The audit's record: strict JSON, lossless, and clear about what it cannot read."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.audit import record as records
from advshift.audit.record import AuditRecord, ClassRecord, CurvePoint, InputRecord
from advshift.errors import InputError

KEYS = {
    "": "schema version created command seed confidence metric set reference around inputs models comparisons warnings",
    "metric": "name higher_is_worse",
    "set": "name parameters",
    "reference": "source classes distribution",
    "inputs": "model split path rows sha256",
    "models": "name split average worst_class classes curve breaking_points",
    "models.worst_class": "class value",
    "models.classes": "class count risk lower upper reference_share marginal",
    "models.curve": "radius plug_in debiased lower upper interval cross_fitted guaranteed_upper slack converged "
    "max_ratio distribution common",
    "models.breaking_points": "target radius",
    "comparisons": "first second radius difference lower upper",
    "warnings": "code message",
}


def _tree(classes: int = 2, **changes: Any) -> dict[str, Any]:
    names = [f"class {number}" for number in range(classes)]
    share = [1 / classes] * classes
    model = {
        "name": "a",
        "split": "test",
        "average": 0.1,
        "worst_class": {"class": names[0], "value": 0.3},
        "classes": [
            {
                "class": name,
                "count": 5,
                "risk": None,
                "lower": 0.0,
                "upper": 1.0,
                "reference_share": part,
                "marginal": 0,
            }
            for name, part in zip(names, share, strict=True)
        ],
        "curve": [{"radius": "inf", "plug_in": 0.3, "interval": "guaranteed", "distribution": share}],
        "breaking_points": [{"target": 0.9, "radius": "inf"}],
    }
    tree = {
        "schema": records.SCHEMA,
        "version": "0.1.0",
        "created": "2026-01-01T00:00:00Z",
        "confidence": 0.95,
        "metric": {"name": "error", "higher_is_worse": True},
        "set": {"name": "kl", "parameters": {}},
        "reference": {"source": "uniform", "classes": names, "distribution": share},
        "inputs": [{"model": "a", "split": "test", "path": "a.csv", "rows": 10, "sha256": None}],
        "models": [model],
        "comparisons": [{"first": "a", "second": "b", "radius": 1, "difference": -0.1, "lower": -0.2, "upper": 0}],
        "warnings": [{"code": "x", "message": "Something."}],
    }
    return tree | changes


def _at(tree: Any, path: str) -> Any:
    for step in filter(None, path.split(".")):
        tree = tree[step]
        tree = tree[0] if isinstance(tree, list) else tree
    return tree


@pytest.mark.parametrize("path", KEYS)
def test_the_keys_are_those_of_the_schema(path: str) -> None:
    written = json.loads(AuditRecord.model_validate(_tree()).to_json())
    assert list(_at(written, path)) == KEYS[path].split()


def test_unknown_is_null_and_infinity_is_a_word() -> None:
    point = CurvePoint(radius=math.inf, plug_in=math.nan, upper=np.float32("nan"), max_ratio=np.inf)
    written = point.model_dump(mode="json")
    assert (written["radius"], written["plug_in"], written["upper"], written["max_ratio"]) == ("inf", None, None, "inf")


@pytest.mark.parametrize("number", ["nan", -math.inf, math.nan, None])
def test_a_radius_is_a_number(number: Any) -> None:
    with pytest.raises(ValueError, match="radius"):
        CurvePoint(radius=number)


def test_numpy_numbers_and_arrays_are_taken() -> None:
    point = CurvePoint(radius=np.float32(0.5), slack=np.bool_(True), distribution=np.array([0.25, 0.75]))
    assert point == CurvePoint(radius=0.5, slack=True, distribution=[0.25, 0.75])
    counted = ClassRecord.model_validate({"class": np.int64(3), "count": np.int32(7), "reference_share": 1})
    assert (counted.label, counted.count) == (3, 7)


def test_a_share_may_miss_the_unit_interval_by_rounding_alone() -> None:
    shares = [1.0000000000000002, -1e-17]
    assert CurvePoint(radius=1, distribution=shares).distribution == shares
    with pytest.raises(ValueError, match="distribution"):
        CurvePoint(radius=1, distribution=[1.1, -0.1])


def test_a_label_keeps_its_type() -> None:
    tree = _tree(reference={"source": "x", "classes": [3, "3"], "distribution": [0.5, 0.5]})
    assert AuditRecord.from_json(json.dumps(tree)).reference.classes == [3, "3"]


def test_parameters_may_be_infinite_inside_lists() -> None:
    tree = _tree(set={"name": "frequency-cap", "parameters": {"ratio": np.array([2.0, np.inf]), "x": [math.nan]}})
    record = AuditRecord.model_validate(tree)
    assert json.loads(record.to_json())["set"]["parameters"] == {"ratio": [2.0, "inf"], "x": [None]}
    assert AuditRecord.from_json(record.to_json()) == record


def test_file_names_that_are_no_text_are_saved() -> None:
    path = b"\xff.csv".decode(errors="surrogateescape")
    assert InputRecord(model="a", path=path, rows=1).path == "?.csv"


@pytest.mark.parametrize(("classes", "full", "kept"), [(1000, False, True), (1001, False, False), (1001, True, True)])
def test_distributions_are_saved_up_to_a_thousand_classes(classes: int, full: bool, kept: bool) -> None:
    record = AuditRecord.model_validate(_tree(classes))
    written = json.loads(record.to_json(full=full))
    assert (written["models"][0]["curve"][0]["distribution"] is not None) == kept
    assert len(written["reference"]["distribution"]) == classes


def test_lengths_must_agree() -> None:
    tree = _tree()
    tree["models"][0]["curve"][0]["distribution"] = [1.0]
    with pytest.raises(InputError, match="2 classes but a distribution of 1"):
        AuditRecord.from_json(json.dumps(tree))
    with pytest.raises(InputError, match="2 classes but 1 shares"):
        AuditRecord.from_json(json.dumps(_tree(reference={"source": "x", "classes": [1, 2], "distribution": [1]})))


def test_newer_keys_are_skipped() -> None:
    tree = _tree(schema="advshift.audit/1.4", invention=1)
    assert AuditRecord.from_json(json.dumps(tree)).schema_name == "advshift.audit/1.4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ('{"schema": "advshift.audit/1", "models": [{"na', "only a part of it"),
        (b"PK\x03\x04\xff\xfe\x00", "not an audit record in strict JSON"),
        ("[" * 100_000, "not an audit record in strict JSON"),
        ('{"schema": NaN}', "NaN is not JSON"),
        ("[]", "expected the schema"),
        ('{"schema": 1}', "got 1"),
        ('{"schema": "advshift.run/1"}', "got 'advshift.run/1'"),
        ('{"schema": "advshift.audit/2"}', "read it with the version that wrote it"),
        ('{"schema": "advshift.audit/1"}', "not a whole audit record: version: field required"),
        (json.dumps(_tree(created="yesterday")), "created: "),
    ],
)
def test_what_cannot_be_read_is_said(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AuditRecord.from_json(text, source="'a.json'")


def test_files(tmp_path: Path) -> None:
    record = AuditRecord.model_validate(_tree())
    record.write(tmp_path / "a.json")
    assert AuditRecord.read(tmp_path / "a.json") == record
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        AuditRecord.read(tmp_path / "b.json")
    (tmp_path / "a.json").write_text((tmp_path / "a.json").read_text()[:-40])
    with pytest.raises(InputError, match=r"a\.json.* is not JSON, or only a part of it"):
        AuditRecord.read(tmp_path / "a.json")


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.just(math.inf)
unknown = st.none() | numbers
fractions = st.floats(0, 1)
labels = st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
texts = st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 3))
    names = draw(st.lists(labels, min_size=size, max_size=size))
    share = st.lists(fractions, min_size=size, max_size=size)
    point = dict.fromkeys(KEYS["models.curve"].split(), unknown) | {
        "radius": numbers,
        "interval": st.sampled_from(["debiased", "guaranteed", None]),
        "slack": st.booleans(),
        "converged": st.booleans(),
        "distribution": st.none() | share,
    }
    entry = dict.fromkeys(KEYS["models.classes"].split(), unknown) | {
        "class": labels,
        "count": st.integers(0, 2**63),
        "reference_share": fractions,
    }
    broken = {"target": numbers, "radius": unknown}
    model = {
        "name": texts,
        "split": st.none() | texts,
        "average": unknown,
        "worst_class": st.none() | st.fixed_dictionaries({"class": labels, "value": unknown}),
        "classes": st.lists(st.fixed_dictionaries(entry), max_size=3),
        "curve": st.lists(st.fixed_dictionaries(point), max_size=3),
        "breaking_points": st.lists(st.fixed_dictionaries(broken), max_size=2),
    }
    return _tree(
        created=draw(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))),
        seed=draw(st.none() | st.integers()),
        command=draw(st.none() | texts),
        confidence=draw(fractions),
        set={"name": "kl", "parameters": {"a": draw(unknown), "b": draw(st.lists(numbers, max_size=2))}},
        reference={"source": draw(texts), "classes": names, "distribution": draw(share)},
        models=draw(st.lists(st.fixed_dictionaries(model), max_size=2)),
    )


@given(trees())
def test_round_trip_is_lossless_and_strict(tree: dict[str, Any]) -> None:
    record = AuditRecord.model_validate(tree)
    text = record.to_json(full=True)
    json.loads(text, parse_constant=pytest.fail)
    assert text.count("\n") == 1
    again = AuditRecord.from_json(text.encode())
    assert again == record
    assert again.to_json(full=True) == text


@given(st.text() | st.binary())
def test_no_text_raises_anything_else(text: str | bytes) -> None:
    with pytest.raises(InputError):
        AuditRecord.from_json(text)
