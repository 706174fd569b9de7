"""From options to splits: disjoint, complete, and clear about what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from advshift.data import DataOptions, MemorySplit, Source, load_data, loading
from advshift.errors import InputError


def _use(monkeypatch: pytest.MonkeyPatch, labels: list[int], *, names: int | None = None, **parts: list[int]) -> None:
    """Make a set called "digits" of features that tell the example's number."""
    made: dict[str, Any] = {}
    first = 0
    for part, wanted in {"train": labels, **parts}.items():
        ids = torch.arange(first, first + len(wanted))
        made[part] = MemorySplit(ids.float()[:, None], torch.tensor(wanted, dtype=torch.long), ids)
        first += len(wanted)
    classes = max(labels) + 1 if names is None else names
    source = Source(made, tuple(f"kind{i}" for i in range(classes)))
    monkeypatch.setattr(loading, "SOURCES", {"digits": loading.Reader(lambda options, folder: source)})


def _load(**options: Any) -> Any:
    return load_data(DataOptions(**({"name": "digits"} | options)))


def test_all_parts_are_disjoint_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, [0] * 40 + [1] * 30 + [2] * 30)
    data = _load(test=0.2, validation=0.1, held_out=0.25)
    parts = [data.train, data.validation, data.test, data.held_out]
    ids = [identity for part in parts for identity in part.ids.tolist()]
    assert sorted(ids) == list(range(100))
    assert [len(part) for part in parts] == [54, 8, 20, 18]
    for part in parts:
        assert part.inputs[:, 0].tolist() == part.ids.tolist()


def test_thinning_leaves_the_other_parts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, [0] * 100 + [1] * 100)
    plain, thinned = _load(test=0.2), _load(test=0.2, imbalance="step", imbalance_ratio=8.0)
    assert plain.validation.ids.tolist() == thinned.validation.ids.tolist()
    assert plain.test.ids.tolist() == thinned.test.ids.tolist()
    assert torch.bincount(thinned.train.labels).tolist() == [72, 9]
    assert plain.fingerprint != thinned.fingerprint
    assert torch.bincount(_load(prior=(1.0, 3.0)).train.labels).tolist() == [30, 90]


def test_a_class_with_a_single_image_stays_in_training_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, [0] * 20 + [1] + [2] * 20)
    data = _load(validation=0.2, test=0.2)
    assert torch.bincount(data.train.labels).tolist()[1] == 1
    assert [notice for notice in data.notices if "'kind1'" in notice and "validation part has no example" in notice]
    assert [notice for notice in data.notices if "test part has no example of class 'kind1'" in notice]


@pytest.mark.parametrize(
    ("labels", "parts", "options", "match"),
    [
        ([0, 0, 2, 2], {}, {}, "class 'kind1' has no training example;"),
        ([0, 0, 3, 3], {}, {}, r"class 'kind1' has no training example \(and 1 more\)"),
        ([0, 1], {}, {"validation": 0.1}, "data.validation = 0.1 of 2 training examples is not one"),
        ([0, 1], {"test": [0, 2]}, {}, "the test part holds labels that are none of the 2 classes"),
        ([0, 1], {"test": [0, -1]}, {}, "the test part holds labels"),
        ([0, 1], {"test": []}, {}, "the test part holds no example"),
        ([0, 1], {"test": [0, 1]}, {"test": 0.5}, "has a test part of its own"),
        ([0] * 9 + [1] * 9, {}, {"prior": (1.0,)}, "one share for each of the 2 classes"),
        ([0] * 9 + [1] * 9, {}, {"mean": (0.1, 0.2)}, "data.mean must have one number for each of the 1"),
    ],
)
def test_what_cannot_be(
    labels: list[int],
    parts: dict[str, list[int]],
    options: dict[str, Any],
    match: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _use(monkeypatch, labels, **parts)
    with pytest.raises(InputError, match=match):
        _load(**options)


def test_an_unknown_set_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"unknown data set 'cifar20'; did you mean 'cifar10'\? \(known: cifar10"):
        load_data(DataOptions(name="cifar20"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"image_size": 32}, r"data\.image_size does nothing for the set 'digits'.*image-folder, shards"),
        ({"label": "y"}, r"data\.label does nothing .*shards, table, text"),
        ({"download": True}, r"data\.download does nothing .*cifar10, cifar100"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        _load(**options)


def test_moments_of_features_and_a_constant_one(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.stack((torch.arange(20.0), torch.full((20,), 3.0)), 1)
    source = Source({"train": MemorySplit(inputs, torch.arange(20) % 2, torch.arange(20))}, ("a", "b"))
    monkeypatch.setattr(loading, "SOURCES", {"digits": loading.Reader(lambda options, folder: source)})
    data = _load(validation=0.0)
    torch.testing.assert_close(data.mean, torch.tensor([9.5, 3.0]))
    torch.testing.assert_close(data.std, torch.tensor([float(inputs[:, 0].std(unbiased=False)), 1.0]))
    fixed = _load(validation=0.0, mean=(0.5,), std=(2.0, 3.0))
    assert (fixed.mean.tolist(), fixed.std.tolist()) == ([0.5, 0.5], [2.0, 3.0])


def test_a_source_may_want_its_own_normalisation(monkeypatch: pytest.MonkeyPatch) -> None:
    part = MemorySplit(torch.rand(20, 3), torch.arange(20) % 2, torch.arange(20))
    source = Source({"train": part}, ("a", "b"), mean=(0.0,), std=(1.0,))
    monkeypatch.setattr(loading, "SOURCES", {"digits": loading.Reader(lambda options, folder: source)})
    assert _load().mean.tolist() == [0.0] * 3
    assert _load(mean=(0.5,)).mean.tolist() == [0.5] * 3


def test_where_the_data_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADVSHIFT_DATA", raising=False)
    assert str(loading.data_folder(DataOptions(name="digits"))) == "data"
    monkeypatch.setenv("ADVSHIFT_DATA", "/somewhere")
    assert str(loading.data_folder(DataOptions(name="digits"))) == "/somewhere"
    assert str(loading.data_folder(DataOptions(name="digits", path="/else"))) == "/else"


def test_digits() -> None:
    data = load_data(DataOptions(name="digits", test=0.5))
    assert data.shape == (1, 8, 8)
    assert data.test is not None
    assert data.validation is not None
    assert len(data.train) + len(data.validation) + len(data.test) == 1797
    assert int(data.train.inputs.max()) == 255
