"""What single estimators promise: closed forms, independent solvers, real predictions."""

from __future__ import annotations

import numpy as np
import pytest

from advshift.errors import InputError
from advshift.priors import BBSE, EM, MAPLS, RLLS, Auto, GLSWeights, KernelMeanMatching, KLMatching
from advshift.priors.mapls import adaptive_share
from advshift.priors.rlls import confidence_width, solve_shift


def _confused(generator, size, classes=4):
    odds = np.exp(generator.normal(size=(size, classes)))
    rows = odds / odds.sum(axis=1, keepdims=True)
    labels = (generator.random((size, 1)) > rows.cumsum(axis=1)).sum(axis=1)
    labels[:classes] = np.arange(classes)
    return rows, labels


def test_bbse_inverts_the_confusion_matrix():
    """Hard: classes confused 10 and 20 per cent; 31 of 100 predicted first: q = (.31 - .2)/(.9 - .2)."""

    def rows(first, second):
        return np.repeat([[0.7, 0.3], [0.4, 0.6]], [first, second], axis=0)

    source, labels = np.concatenate([rows(9, 1), rows(2, 8)]), np.repeat([0, 1], 10)
    found = BBSE(predictions="hard").fit(source, labels).estimate(rows(31, 69))
    assert found.prior[0] == pytest.approx(0.11 / 0.7)
    assert found.diagnostics["rank"] == 2
    assert found.diagnostics["condition"] == pytest.approx(np.linalg.cond([[0.9, 0.2], [0.1, 0.8]]))
    noise = 0.31 * 0.69 / 100 + found.prior @ (found.prior * np.array([0.009, 0.016]))
    assert found.covariance[0, 0] == pytest.approx(noise / 0.7**2)
    weights = found.weights
    assert found.diagnostics["effective_sample_size"] == pytest.approx(10 * weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize("predictions", ["hard", "soft"])
@pytest.mark.parametrize("seed", range(3))
def test_constrained_bbse_is_least_squares_on_the_simplex(predictions, seed):
    cvxpy = pytest.importorskip("cvxpy")
    generator = np.random.default_rng(seed)
    source, labels = _confused(generator, 80)
    target = source[np.argsort(-source[:, seed])[:12]]  # purer than any class is on the average
    estimator = BBSE(predictions=predictions, covariance="none").fit(source, labels)
    kind = np.eye(4)[source.argmax(axis=1)] if predictions == "hard" else source
    means = np.stack([kind[labels == name].mean(axis=0) for name in range(4)], axis=1)
    mean = (np.eye(4)[target.argmax(axis=1)] if predictions == "hard" else target).mean(axis=0)
    assert np.linalg.solve(means, mean).min() < 0
    variable = cvxpy.Variable(4, nonneg=True)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(means @ variable - mean)), [cvxpy.sum(variable) == 1]).solve(
        solver="CLARABEL"
    )
    assert estimator.estimate(target).prior == pytest.approx(variable.value, abs=1e-5)
    gls = GLSWeights(predictions=predictions, covariance="none").fit(source, labels)
    assert gls.estimate(target).prior == pytest.approx(variable.value, abs=1e-5)


def test_unidentified_distributions_are_refused_or_left_at_the_source():
    rows = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.2, 0.1, 0.7]] * 4)
    labels = np.array([0, 1, 2] * 4)
    with pytest.raises(InputError, match=r"rank 2 for 3 classes.*class 1 never predicted"):
        BBSE(predictions="hard").fit(rows, labels)
    with pytest.raises(
        InputError, match=r"rank 2 for 3 classes, so the label distribution is not identified\. Use the"
    ):
        BBSE().fit(rows, labels)
    target = np.repeat(rows[:3], [2, 2, 6], axis=0)
    found = BBSE(predictions="hard", unidentified="source").fit(rows, labels).estimate(target)
    assert found.prior == pytest.approx([0.2, 0.2, 0.6], abs=1e-6)


@pytest.mark.parametrize("width", [1e-4, 0.01, 0.05, 0.2, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_rlls_against_a_cone_solver(width, seed):
    cvxpy = pytest.importorskip("cvxpy")
    generator = np.random.default_rng(seed)
    joint = np.diag(np.full(6, 0.1)) + generator.random((6, 6)) * 0.02
    change = joint @ (generator.dirichlet(np.full(6, 0.3)) * 6 - 1) + generator.normal(size=6) * 0.01
    variable = cvxpy.Variable(6)
    goal = cvxpy.norm(joint @ variable - change) + width * cvxpy.norm(variable)
    problem = cvxpy.Problem(cvxpy.Minimize(goal), [variable >= -1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    theta = solve_shift(joint, change, width).theta
    value = np.linalg.norm(joint @ theta - change) + width * np.linalg.norm(theta)
    assert theta.min() >= -1 - 1e-12
    assert value <= problem.value + 1e-8
    assert theta == pytest.approx(variable.value, abs=2e-3)


def test_rlls_compares_predictions_with_predictions():
    """A classifier that is biased on the source must not be taken for a shifted target."""
    source = np.array([[0.9, 0.1]] * 6 + [[0.2, 0.8]] * 2)
    labels = np.array([0, 1] * 4)
    source[0], labels[-1] = [0.8, 0.2], 1
    found = RLLS(covariance="none").fit(source, labels).estimate(source)
    assert found.prior == pytest.approx(np.bincount(labels) / 8, abs=1e-9)


def test_rlls_trust_and_width():
    source, labels = _confused(np.random.default_rng(0), 400)
    target = source[labels == 1]
    full = RLLS(covariance="none").fit(source, labels).estimate(target)
    half = RLLS(trust=0.5, covariance="none").fit(source, labels).estimate(target)
    careful = RLLS(scale=1.0, covariance="none").fit(source, labels).estimate(target)
    share = np.bincount(labels) / 400
    assert half.prior == pytest.approx(0.5 * (full.prior + share), abs=0.02)
    assert careful.prior == pytest.approx(share)
    little = RLLS(trust="sample").fit(source, labels).estimate(target[:25])
    same = RLLS(trust=0.8).fit(source, labels).estimate(target[:25])
    assert little.prior == pytest.approx(same.prior, abs=1e-12)
    assert little.covariance == pytest.approx(same.covariance, abs=1e-12)
    logarithm = np.log(2 * 7 / 0.1)
    wanted = 3 * (2 * logarithm / (3 * 50) + np.sqrt(2 * logarithm / 50))
    assert confidence_width(7, 50, 0.1) == pytest.approx(wanted)


def test_em_is_the_fixed_point_of_the_published_iteration():
    source, labels = _confused(np.random.default_rng(1), 300)
    target, _ = _confused(np.random.default_rng(2), 200)
    found = EM(tolerance=1e-12, covariance="none").fit(source, labels).estimate(target)
    reference, prior = source.mean(axis=0), np.full(4, 0.25)
    for _ in range(20000):
        posterior = target * (prior / reference)
        prior = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    assert found.prior == pytest.approx(prior, abs=1e-4)
    assert found.diagnostics["gap"] <= 1e-12


def test_mapls_is_the_fixed_point_of_the_published_iteration():
    source, labels = _confused(np.random.default_rng(3), 300)
    target, _ = _confused(np.random.default_rng(4), 60)
    reference = source.mean(axis=0)

    def iterate(share, towards):
        prior = reference.copy()
        for _ in range(5000):
            posterior = target * (prior / reference)
            step = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
            prior = share * step + (1 - share) * towards
        return prior

    towards = np.array([0.4, 0.3, 0.2, 0.1])
    given = MAPLS(share=0.8, towards=towards, tolerance=1e-12, covariance="none").fit(source, labels).estimate(target)
    assert given.prior == pytest.approx(iterate(0.8, towards), abs=1e-6)
    strength = MAPLS(concentration=3.0, tolerance=1e-12, covariance="none").fit(source, labels).estimate(target)
    assert strength.prior == pytest.approx(iterate(60 / 68, np.full(4, 0.25)), abs=1e-6)
    plain = EM(tolerance=1e-9, covariance="none").fit(source, labels).estimate(target)
    share = adaptive_share(plain.prior, reference, np.full(4, 0.25))
    adaptive = MAPLS(tolerance=1e-12, covariance="none").fit(source, labels).estimate(target)
    assert 0 < share < 1
    assert adaptive.prior == pytest.approx(iterate(share, np.full(4, 0.25)), abs=1e-3)


def test_adaptive_share_by_hand():
    def divergence(first, second):
        return (first * np.log(first / (second + 1e-8))).sum()

    source, plain, uniform = np.array([0.6, 0.4]), np.array([0.8, 0.2]), np.array([0.5, 0.5])
    confident = 1 - 0.5 * divergence(source, uniform) / (1 + 0.5 * divergence(source, uniform))
    rate = (1 / (1 - confident) - 1) / 0.5
    far, moved = rate * divergence(plain, uniform), rate * divergence(plain, source)
    wanted = 0.9 * far / (1 + far) + 0.1 * (1 - moved / (1 + moved))
    assert adaptive_share(plain, source, uniform) == pytest.approx(wanted)


def test_kernel_means_by_hand():
    """Exact inner products from the full kernel matrix, minimised by a general solver."""
    cvxpy = pytest.importorskip("cvxpy")
    source, labels = _confused(np.random.default_rng(5), 60)
    target, _ = _confused(np.random.default_rng(6), 40)

    def kernel(first, second):
        return np.exp(-((first[:, None] - second[None]) ** 2).sum(axis=2) / (2 * 0.3**2))

    member = np.stack([(labels == name) / (labels == name).sum() for name in range(4)])
    gram = member @ kernel(source, source) @ member.T
    mean = (member @ kernel(source, target)).mean(axis=1)
    variable = cvxpy.Variable(4, nonneg=True)
    goal = cvxpy.quad_form(variable, cvxpy.psd_wrap(gram)) - 2 * mean @ variable
    cvxpy.Problem(cvxpy.Minimize(goal), [cvxpy.sum(variable) == 1]).solve(solver="CLARABEL")
    exact = KernelMeanMatching(bandwidth=0.3, covariance="none").fit(source, labels).estimate(target)
    assert exact.prior == pytest.approx(variable.value, abs=1e-4)
    random = KernelMeanMatching(bandwidth=0.3, features=20000, covariance="none").fit(source, labels).estimate(target)
    assert random.prior == pytest.approx(exact.prior, abs=0.03)


def test_kernel_means_take_any_features():
    generator = np.random.default_rng(7)
    centres = generator.normal(size=(3, 6)) * 2
    labels = np.repeat([0, 1, 2], 200)
    truth = np.repeat([0, 1, 2], [300, 60, 40])
    source, target = (centres[names] + generator.normal(size=(len(names), 6)) for names in (labels, truth))
    found = KernelMeanMatching(inputs="features").fit(source, labels).estimate(target)
    assert found.prior == pytest.approx([0.75, 0.15, 0.1], abs=0.06)
    with pytest.raises(InputError, match="calibration is for probabilities"):
        KernelMeanMatching(inputs="features", calibration="bcts")


def test_kl_matching_minimises_the_divergence_of_histograms():
    """With one bin the criterion is Σ μ log(A q) on the confusion matrix."""
    from scipy.optimize import minimize

    source, labels = _confused(np.random.default_rng(8), 500)
    target = source[np.random.default_rng(9).choice(np.flatnonzero(labels != 2), 300)]
    found = KLMatching(bins=1, smoothing=0.0, covariance="none").fit(source, labels).estimate(target)
    hard = np.eye(4)[source.argmax(axis=1)]
    means = np.stack([hard[labels == name].mean(axis=0) for name in range(4)], axis=1)
    mean = np.eye(4)[target.argmax(axis=1)].mean(axis=0)

    def loss(logits):
        prior = np.exp(logits) / np.exp(logits).sum()
        return -mean @ np.log(means @ prior)

    best = min(
        minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-12}).fun
        for start in np.random.default_rng(0).normal(size=(3, 4))
    )
    assert -mean @ np.log(means @ found.prior) <= best + 1e-7


SHIFTS = {
    "dirichlet": np.random.default_rng(0).dirichlet(np.ones(10)),
    "tweak-one": np.where(np.arange(10) == 3, 0.55, 0.05),
    "minority": np.where(np.isin(np.arange(10), [1, 8]), 0.01, 0.98 / 8),
}


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(
    "make",
    [
        Auto,
        EM,
        lambda: EM(calibration="bcts"),
        lambda: MAPLS(calibration="bcts"),
        BBSE,
        lambda: BBSE(predictions="hard"),
        RLLS,
        KLMatching,
        KernelMeanMatching,
        GLSWeights,
    ],
)
def test_recovers_shifts_of_real_predictions(digits, shift, make):
    rows, labels = digits
    generator = np.random.default_rng(1)
    order = generator.permutation(len(labels))
    source, rest = order[:900], order[900:]
    wanted = generator.choice(10, 1500, p=SHIFTS[shift])
    chosen = np.concatenate(
        [generator.choice(rest[labels[rest] == name], (wanted == name).sum()) for name in range(10)]
    )
    found = make().fit(rows[source], labels[source]).estimate(rows[chosen])
    share = np.bincount(labels[chosen], minlength=10) / len(chosen)
    before = np.abs(np.bincount(labels[source], minlength=10) / 900 - share).sum()
    assert np.abs(found.prior - share).sum() < 0.6 * before
    assert np.abs(found.prior - share).max() < 6 * found.standard_errors.max()


def test_asymptotic_intervals_cover(world):
    """120 draws: the standard error is the spread of the estimates, for one of each family."""
    prior = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    for make in (EM, BBSE, KLMatching):
        errors, spreads = [], []
        for seed in range(120):
            generator = np.random.default_rng(seed)
            source, labels = world.draw(generator, world.uniform, 600, every_class=True)
            target, _ = world.draw(generator, prior, 400)
            found = make().fit(source, labels).estimate(target)
            errors.append(found.prior - prior)
            spreads.append(found.standard_errors)
        covered = (np.abs(errors) < 1.96 * np.array(spreads)).mean()
        assert 0.92 <= covered <= 0.98
        assert np.mean(spreads, axis=0) == pytest.approx(np.std(errors, axis=0), rel=0.25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EM(tolerance=0.0), "tolerance"),
        (lambda: EM(replicates=1), "replicates"),
        (lambda: RLLS(scale=-1.0), "scale"),
        (lambda: RLLS(trust=1.5), "trust"),
        (lambda: RLLS(trust="half"), "trust"),
        (lambda: RLLS(probability=0.0), "probability"),
        (lambda: MAPLS(share=0.0), "share"),
        (lambda: MAPLS(concentration=0.5), "concentration"),
        (lambda: MAPLS(concentration=2.0, share=0.5), "concentration sets"),
        (lambda: MAPLS(towards=[0.5, 0.6]), "towards must be a distribution"),
        (lambda: GLSWeights(momentum=1.0), "momentum"),
        (lambda: GLSWeights(previous=[0.5, 0.6]), "previous label distribution must be"),
        (lambda: KLMatching(bins=0), "bins"),
        (lambda: KLMatching(smoothing=-1.0), "smoothing"),
        (lambda: KernelMeanMatching(bandwidth=0.0), "bandwidth"),
        (lambda: KernelMeanMatching(features=-1), "features"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
