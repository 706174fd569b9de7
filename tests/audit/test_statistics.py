"""ClassStatistics: against a plain loop, and the laws of a merge."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.audit.folds import folds_of_ids, folds_of_rows, sql_fold_of_id, sql_fold_of_row
from advshift.audit.labels import as_labels, sorted_labels
from advshift.audit.statistics import ClassStatistics
from advshift.errors import InputError

EXAMPLES = st.lists(st.tuples(st.integers(-2, 4), st.integers(-8, 8), st.integers(0, 1)), max_size=40)


def _statistics(examples: list[tuple[int, int, int]], start: int = 0, **options: int) -> ClassStatistics:
    statistics = ClassStatistics(["loss", "error"], **options)
    labels, losses, errors = ([row[k] for row in examples] for k in range(3))
    if examples:
        statistics.update(labels, {"loss": losses, "error": errors}, source="file", start=start)
    return statistics


def _same(first: ClassStatistics, second: ClassStatistics) -> bool:
    return first.classes == second.classes and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("counts", "sums", "products")
    )


@given(EXAMPLES)
def test_update_is_the_plain_loop(examples: list[tuple[int, int, int]]) -> None:
    statistics = _statistics(examples, folds=3, seed=5)
    folds = folds_of_rows(range(len(examples)), "file", 3, 5)
    for row, label in enumerate(statistics.classes):
        for fold in range(3):
            mine = [np.array(e[1:]) for e, f in zip(examples, folds, strict=True) if e[0] == label and f == fold]
            assert statistics.counts[row, fold] == len(mine)
            assert statistics.sums[row, fold].tolist() == np.sum([np.zeros(2), *mine], axis=0).tolist()
            expected = np.sum([np.zeros((2, 2)), *[np.outer(v, v) for v in mine]], axis=0)
            assert statistics.products[row, fold].tolist() == expected.tolist()


@given(EXAMPLES, st.integers(0, 40), st.integers(0, 40))
def test_merge_is_associative_and_equals_one_update(examples: list[tuple[int, int, int]], i: int, j: int) -> None:
    i, j = sorted((min(i, len(examples)), min(j, len(examples))))
    whole = _statistics(examples)
    a, b, c = _statistics(examples[:i]), _statistics(examples[i:j], i), _statistics(examples[j:], j)
    assert _same(a.merge(b).merge(c), whole)
    assert _same(a.merge(b.merge(c)), whole)
    assert _same(c.merge(a).merge(b), whole)


@given(EXAMPLES)
def test_json_keeps_every_digit(examples: list[tuple[int, int, int]]) -> None:
    statistics = _statistics(examples)
    statistics.sums /= 3.0
    assert _same(ClassStatistics.from_json(statistics.to_json()), statistics)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "other/1"}',
        ClassStatistics(["e"], classes=[1]).to_json().replace("[[0.0]", "[[NaN]"),
    ],
)
def test_json_that_is_not_statistics_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="class statistics"):
        ClassStatistics.from_json(text)


def test_newer_schema_says_upgrade() -> None:
    text = ClassStatistics(["e"]).to_json().replace("statistics/1", "statistics/2")
    with pytest.raises(InputError, match="upgrade"):
        ClassStatistics.from_json(text)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50), st.integers(0, 2**31), st.integers(2, 20))
def test_folds_of_rows_are_the_same_in_sql(rows: list[int], seed: int, folds: int) -> None:
    expression = sql_fold_of_row("row", "réf's.csv", folds, seed)
    found = duckdb.sql(f"SELECT {expression} FROM (SELECT unnest({rows})::UBIGINT AS row)").fetchall()
    assert [fold for (fold,) in found] == folds_of_rows(rows, "réf's.csv", folds, seed).tolist()


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9), min_size=1), st.integers(0))
def test_folds_of_ids_are_the_same_in_sql(ids: list[str], seed: int) -> None:
    connection = duckdb.connect()
    expression = sql_fold_of_id("id", 7, seed)
    found = connection.execute(f"SELECT {expression} FROM (SELECT unnest($1::VARCHAR[]) AS id)", [ids]).fetchall()
    assert [fold for (fold,) in found] == folds_of_ids(ids, 7, seed).tolist()
    assert folds_of_ids([17], 7, seed).tolist() == folds_of_ids(["17"], 7, seed).tolist()


def test_folds_are_even_and_move_with_seed_and_source() -> None:
    rows = np.arange(100_000)
    folds = folds_of_rows(rows, "a", 10, 0)
    counts = np.bincount(folds, minlength=10)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(9_000)
    for other in (folds_of_rows(rows, "b", 10, 0), folds_of_rows(rows, "a", 10, 1)):
        assert abs(np.mean(other == folds) - 0.1) < 0.01


def test_split_deals_every_example_and_is_unbiased() -> None:
    counts, errors = np.array([[11], [3], [0], [40]]), np.array([[4.0], [3.0], [0.0], [1.0]])
    statistics = ClassStatistics(["error"], classes=[0, 1, 2, 3], folds=1)
    statistics.add_groups([0, 1, 2, 3], np.zeros(4, int), counts[:, 0], errors, errors[..., None])
    generator = np.random.default_rng(0)
    deals = [statistics.split(2, generator) for _ in range(2000)]
    for dealt in deals[:20]:
        assert dealt.count.tolist() == [11, 3, 0, 40]
        assert dealt.sums.sum(axis=1).tolist() == errors.tolist()
        assert np.ptp(dealt.counts, axis=1).max() <= 1
    first = np.array([dealt.sums[:, 0, 0] for dealt in deals])
    expected = errors[:, 0] * deals[0].counts[:, 0] / np.maximum(counts[:, 0], 1)
    assert np.allclose(first.mean(axis=0), expected, atol=0.06)
    # Hypergeometric: sampling without replacement, so the variance has its finite-population factor.
    assert first[:, 0].var() == pytest.approx(4 * (6 / 11) * (5 / 11) * (7 / 10), rel=0.15)


def test_split_of_other_values_is_refused_with_the_reason() -> None:
    statistics = ClassStatistics(["loss"], folds=1)
    statistics.update([0, 1], {"loss": [0.5, 2.0]})
    with pytest.raises(InputError, match="cross-fitting needs single examples"):
        statistics.split(2, np.random.default_rng(0))


def test_labels_of_every_kind() -> None:
    pandas = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    assert as_labels(pandas.Series(["b", "a"])).tolist() == ["b", "a"]
    assert as_labels(pandas.Categorical(["b", "a"])).tolist() == ["b", "a"]
    assert as_labels(torch.tensor([2, 0])).tolist() == [2, 0]
    assert as_labels(np.array(["x", 3], dtype=object)).tolist() == ["x", "3"]
    assert sorted_labels([10, 9, 10]) == (9, 10)


@pytest.mark.parametrize("labels", [[0.5], [float("nan")], [[1]], ["a", None], [1j]])
def test_what_is_no_label_is_refused(labels: list[object]) -> None:
    with pytest.raises(InputError, match="label"):
        as_labels(labels)


def test_text_and_numbers_do_not_mix() -> None:
    statistics = ClassStatistics(["error"], classes=[1])
    with pytest.raises(InputError, match=r"1 and 'a'"):
        statistics.update(["a"], {"error": [1]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"error": [1, 2]}, "shape"),
        ({"errors": [1]}, "expected the values"),
        ({"error": [float("inf")]}, "finite"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClassStatistics(["error"]).update([0], values)


def test_ids_that_are_missing_are_refused() -> None:
    with pytest.raises(InputError, match="ids must be"):
        ClassStatistics(["error"]).update([0], {"error": [0]}, ids=[None])
