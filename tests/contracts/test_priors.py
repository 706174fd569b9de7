"""What every estimator must keep, whatever its method."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advshift.errors import InputError
from advshift.priors import CALIBRATIONS, ESTIMATORS, PriorEstimate

FORMS = [(name, {}) for name in ESTIMATORS] + [
    ("bbse", {"predictions": "hard"}),
    ("bbse", {"solver": "clip"}),
    ("rlls", {"predictions": "hard"}),
    ("em", {"source_prior": "counted"}),
    ("mapls", {"concentration": 1.5}),
    ("kmm", {"features": 50}),
    ("kl-matching", {"bins": 1}),
    ("gls", {"momentum": 0.5}),
]
NAMES = [name + "".join(f"-{value}" for value in options.values()) for name, options in FORMS]


def _sample(seed, size, prior, sharpness=2.0):
    """The exact posterior of classes around orthogonal means, under equal shares; every class appears twice."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(prior), size, p=prior)
    labels[: 2 * len(prior)] = np.tile(np.arange(len(prior)), 2)
    logits = generator.normal(size=(size, len(prior)))
    logits[np.arange(size), labels] += sharpness
    rows = np.exp(sharpness * logits)
    rows[: len(prior)] = 0.1 + 5 * np.eye(len(prior))
    return rows / rows.sum(axis=1, keepdims=True), labels


def _make(form, **options):
    name, own = form
    return ESTIMATORS[name](**own, **options)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(30, 120))
def test_answer_is_a_distribution(form, seed, classes, size):
    source, labels = _sample(seed, size, np.full(classes, 1 / classes))
    target, _ = _sample(seed + 1, size, np.random.default_rng(seed).dirichlet(np.ones(classes)))
    found = _make(form).fit(source, labels).estimate(target)
    assert found.converged
    assert found.prior.min() >= 0
    assert found.prior.sum() == pytest.approx(1, abs=1e-9)
    assert found.source.sum() == pytest.approx(1, abs=1e-9)
    assert found.weights == pytest.approx(found.prior / found.source)
    assert found.covariance == pytest.approx(found.covariance.T)
    assert np.abs(found.covariance.sum(axis=0)).max() <= 1e-6 * max(np.abs(found.covariance).max(), 1e-12)
    assert np.linalg.eigvalsh(found.covariance).min() >= -1e-9 * max(np.abs(found.covariance).max(), 1e-12)
    assert all(np.isfinite(value) or name == "condition" for name, value in found.diagnostics.items())
    assert 1 <= found.diagnostics["rank"] <= classes
    assert found.diagnostics["condition"] >= 1
    assert 0 < found.diagnostics["effective_sample_size"] <= size * (1 + 1e-9)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_order_of_classes_and_rows_does_not_matter(form):
    source, labels = _sample(0, 300, np.full(4, 0.25))
    target, _ = _sample(1, 200, np.array([0.5, 0.3, 0.15, 0.05]))
    order = np.array([2, 0, 3, 1])
    shuffled = np.random.default_rng(0).permutation(200)
    found = _make(form).fit(source, labels).estimate(target)
    moved = _make(form).fit(source[:, order], np.argsort(order)[labels]).estimate(target[shuffled][:, order])
    loose = 0.02 if form[1].get("features") else 1e-5  # random features are drawn per column
    assert moved.prior == pytest.approx(found.prior[order], abs=loose)
    assert moved.standard_errors == pytest.approx(found.standard_errors[order], rel=0.05, abs=loose)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_recovers_a_simulated_shift(form):
    truth = np.array([0.55, 0.25, 0.15, 0.05])
    source, labels = _sample(2, 6000, np.full(4, 0.25))
    generator = np.random.default_rng(3)
    wanted = generator.choice(4, 4000, p=truth)
    rows = np.concatenate(
        [generator.choice(np.flatnonzero(labels == name), (wanted == name).sum()) for name in range(4)]
    )
    own = {"previous": truth} if form[0] == "gls" else {}
    found = _make(form, **own).fit(source, labels).estimate(source[rows])
    share = np.bincount(wanted, minlength=4) / 4000
    assert np.abs(found.prior - share).sum() < (0.12 if form == ("mapls", {}) else 0.05)  # pulled to uniform


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_target_like_the_source_gives_the_source(form):
    source, labels = _sample(4, 500, np.array([0.5, 0.3, 0.2]))
    found = _make(form, covariance="none").fit(source, labels).estimate(source)
    loose = 0.15 if form[0] == "mapls" or form[1].get("source_prior") == "counted" else 0.05
    assert found.prior == pytest.approx(found.source, abs=loose)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_bootstrap_agrees_with_the_asymptotic_covariance(form):
    source, labels = _sample(5, 400, np.full(3, 1 / 3))
    target, _ = _sample(6, 300, np.array([0.5, 0.3, 0.2]))
    limit = _make(form).fit(source, labels).estimate(target)
    replicated = _make(form, covariance="bootstrap", replicates=80).fit(source, labels).estimate(target)
    again = _make(form, covariance="bootstrap", replicates=80).fit(source, labels).estimate(target)
    assert replicated.replicates.shape == (80, 3)
    assert np.array_equal(replicated.replicates, again.replicates)
    assert replicated.covariance == pytest.approx(np.cov(replicated.replicates, rowvar=False))
    assert replicated.standard_errors == pytest.approx(limit.standard_errors, rel=0.35)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_calibration_reaches_every_estimator(form, calibration):
    source, labels = _sample(7, 300, np.full(3, 1 / 3))
    target, _ = _sample(8, 100, np.array([0.5, 0.3, 0.2]))
    found = _make(form, calibration=calibration, covariance="none").fit(source, labels).estimate(target)
    assert found.prior.sum() == pytest.approx(1)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_record_survives_json(form):
    source, labels = _sample(9, 100, np.full(3, 1 / 3))
    found = _make(form, covariance="bootstrap", replicates=3).fit(source, labels).estimate(source)
    back = PriorEstimate.from_dict(json.loads(json.dumps(found.to_dict())))
    assert back.prior == pytest.approx(found.prior)
    assert back.replicates == pytest.approx(found.replicates)
    assert back.diagnostics == found.diagnostics
    assert back.method == form[0]


ROWS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 3)
LABELS = [0, 1, 2] * 3


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (ROWS * 1.25, LABELS, "row 0 sums to 1.25"),
        (np.where(np.eye(9, 3) > 0, np.nan, ROWS), LABELS, "3 of 9 rows hold nan"),
        (ROWS - 0.2, LABELS, "must be probabilities"),
        (ROWS[:, 0], LABELS, "must be a matrix"),
        (ROWS, [0, 1] * 4 + [0], "class 2 has none"),
        (ROWS, LABELS[:-1], "one class number per row"),
        (ROWS, [0.5] * 9, "must be integers"),
        (ROWS, [0, 1, 3] * 3, "from 0 to 2"),
    ],
)
def test_bad_sources_are_refused(form, rows, labels, message):
    with pytest.raises(InputError, match=message):
        _make(form).fit(rows, labels)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:, :2] / ROWS[:, :2].sum(axis=1, keepdims=True), "the source's 3 columns"),
        (ROWS[:1], "more than one target row"),
        (ROWS * 0.5, "row 0 sums to 0.5"),
        (np.where(ROWS > 0.5, np.inf, ROWS), "must be finite"),
    ],
)
def test_bad_targets_are_refused(form, rows, message):
    with pytest.raises(InputError, match=message):
        _make(form).fit(ROWS, LABELS).estimate(rows)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_estimate_needs_a_fit_and_renormalise_helps(form):
    with pytest.raises(InputError, match="must be fitted"):
        _make(form).estimate(ROWS)
    plain = _make(form, covariance="none").fit(ROWS, LABELS).estimate(ROWS)
    scaled = _make(form, covariance="none", renormalise=True).fit(ROWS * 3, LABELS).estimate(ROWS * 2)
    assert scaled.prior == pytest.approx(plain.prior, abs=1e-6)
