"""Every reduction of example losses, through one contract; the worst cases against CVXPY and formulas by hand."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from torch.utils.checkpoint import checkpoint

from advshift.errors import InputError
from advshift.reductions import (
    DORO,
    KL,
    REDUCTIONS,
    AverageTopK,
    ChiSquare,
    CVaR,
    DualChiSquare,
    DualCVaR,
    Hashimoto,
    Mean,
    MultiLevel,
    PenalisedChiSquare,
    StreamingTilted,
    Tilted,
    WorstCaseMean,
    without_the_worst,
)
from advshift.sets import ChiSquareBall, FrequencyCap, ReverseKLBall, TotalVariationBall

MAKE = {
    "mean": lambda **o: Mean(**o),
    "top-k": lambda **o: AverageTopK(2.5, **o),
    "cvar": lambda **o: CVaR(0.3, **o),
    "cvar-dual": lambda **o: DualCVaR(0.3, threshold=0.4, **o),
    "chi-square": lambda **o: ChiSquare(0.4, **o),
    "penalised-chi-square": lambda **o: PenalisedChiSquare(0.5, **o),
    "hashimoto": lambda **o: Hashimoto(0.2, **o),
    "chi-square-dual": lambda **o: DualChiSquare(0.4, threshold=0.1, **o),
    "kl": lambda **o: KL(0.4, **o),
    "tilted": lambda **o: Tilted(1.5, **o),
    "streaming-tilted": lambda **o: StreamingTilted(1.5, **o),
    "doro": lambda **o: DORO(0.4, epsilon=0.15, **o),
    "worst-case": lambda **o: WorstCaseMean(ReverseKLBall(0.2), **o),
    "multilevel": lambda **o: MultiLevel(CVaR(0.3, **o), smallest=4, largest=16),
}
SUPREMA = ("mean", "top-k", "cvar", "chi-square", "penalised-chi-square", "kl", "tilted", "worst-case")
WHOLE = [name for name in MAKE if name != "multilevel"]  # whose value does not depend on the examples' order
names = pytest.mark.parametrize("name", list(MAKE))
whole = pytest.mark.parametrize("name", WHOLE)
suprema = pytest.mark.parametrize("name", SUPREMA)


def _losses(n=16, seed=0, dtype=torch.float64):
    return (2 * torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).to(dtype)


def _shares(n, seed=1):
    shares = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return shares / shares.sum()


def _cvar(losses, shares, alpha):
    """Fill the worst losses up to `shares/alpha` until the mass is one."""
    left, value = 1.0, 0.0
    for loss, share in sorted(zip(losses, shares, strict=True), reverse=True):
        taken = min(left, share / alpha)
        left, value = left - taken, value + taken * loss
    return value


def _top_k(losses, shares, k):
    return sum(min(1.0, max(0.0, k - i)) * loss for i, loss in enumerate(sorted(losses, reverse=True))) / k


def _kl(losses, shares, radius):
    def tilt(t):
        weights = shares * np.exp((losses - losses.max()) / t)
        return weights / weights.sum()

    def divergence(log_t):
        weights = tilt(math.exp(log_t))
        kept = weights > 0
        return float(np.sum(weights[kept] * np.log(weights[kept] / shares[kept]))) - radius

    return float(tilt(math.exp(brentq(divergence, -8, 8, xtol=1e-13))) @ losses)


def _chi_square(losses, shares, radius):
    """The dual, minimised numerically."""

    def dual(eta):
        return eta + math.sqrt(1 + 2 * radius) * math.sqrt(shares @ np.maximum(losses - eta, 0) ** 2)

    return minimize_scalar(dual, bounds=(-50, losses.max()), method="bounded", options={"xatol": 1e-12}).fun


def _penalised(losses, shares, penalty):
    def mass(eta):
        return shares @ np.maximum(losses - eta, 0) / penalty - 1

    eta = brentq(mass, -100, losses.max(), xtol=1e-14)
    ratios = np.maximum(losses - eta, 0) / penalty
    return float(shares * ratios @ losses - penalty / 2 * shares @ (ratios - 1) ** 2)


def _reverse_kl(losses, shares, radius):
    def weights(log_offset):
        raw = shares / (math.exp(log_offset) + losses.max() - losses)
        return raw / raw.sum()

    found = brentq(lambda x: float(shares @ np.log(shares / weights(x))) - radius, -20, 20, xtol=1e-13)
    return float(weights(found) @ losses)


def _doro(losses, shares, alpha, epsilon):
    """Drop the worst examples one after the other, the last one in part."""
    left, kept = epsilon, []
    for loss, share in sorted(zip(losses, shares, strict=True), reverse=True):
        dropped = min(left, share)
        left -= dropped
        kept.append((loss, (share - dropped) / (1 - epsilon)))
    return _cvar(*zip(*kept, strict=True), alpha)


BY_HAND = {
    "mean": lambda x, p: p @ x,
    "top-k": lambda x, p: _top_k(x, p, 2.5),
    "cvar": lambda x, p: _cvar(x, p, 0.3),
    "cvar-dual": lambda x, p: 0.4 + p @ np.maximum(x - 0.4, 0) / 0.3,
    "chi-square": lambda x, p: _chi_square(x, p, 0.4),
    "penalised-chi-square": lambda x, p: _penalised(x, p, 0.5),
    "hashimoto": lambda x, p: p @ np.maximum(x - 0.2, 0) ** 2,
    "chi-square-dual": lambda x, p: 0.1 + math.sqrt(1.8) * math.sqrt(p @ np.maximum(x - 0.1, 0) ** 2),
    "kl": lambda x, p: _kl(x, p, 0.4),
    "tilted": lambda x, p: math.log(p @ np.exp(1.5 * x)) / 1.5,
    "streaming-tilted": lambda x, p: math.log(p @ np.exp(1.5 * x)) / 1.5,
    "doro": lambda x, p: _doro(x, p, 0.4, 0.15),
    "worst-case": lambda x, p: _reverse_kl(x, p, 0.2),
    "multilevel": lambda x, p: _multilevel(x, p),
}


def _multilevel(losses, shares):
    def part(begin, end):
        return _cvar(losses[begin:end], shares[begin:end] / shares[begin:end].sum(), 0.3)

    return part(0, 2) + (part(0, 16) - (part(0, 8) + part(8, 16)) / 2) / 0.25


def test_every_reduction_has_a_case() -> None:
    assert set(MAKE) == set(BY_HAND) == set(REDUCTIONS)
    assert all(kind.name == name for name, kind in REDUCTIONS.items())


@names
@settings(max_examples=10)
@given(st.integers(0, 10_000), st.booleans())
def test_equals_a_formula_by_hand(name: str, seed: int, weighted: bool) -> None:
    losses = _losses(seed=seed)
    shares = _shares(16, seed + 1) if weighted else torch.full((16,), 1 / 16, dtype=torch.float64)
    got = MAKE[name]()(losses, weights=7.0 * shares if weighted else None)
    expected = BY_HAND[name](losses.numpy(), shares.numpy())
    assert got.item() == pytest.approx(expected, rel=2e-7)


def _cvxpy(name, losses, shares):
    """The supremum over weights by a general solver."""
    weights = cp.Variable(len(losses), nonneg=True)
    objective, constraints = weights @ losses, [cp.sum(weights) == 1]
    if name == "mean":
        constraints.append(weights == shares)
    elif name == "top-k":
        constraints.append(weights <= 1 / 2.5)
    elif name == "cvar":
        constraints.append(weights <= shares / 0.3)
    elif name == "chi-square":
        constraints.append(cp.sum(cp.multiply(1 / shares, cp.square(weights - shares))) <= 0.8)
    elif name == "penalised-chi-square":
        objective -= 0.25 * cp.sum(cp.multiply(1 / shares, cp.square(weights - shares)))
    elif name == "kl":
        constraints.append(cp.sum(cp.rel_entr(weights, shares)) <= 0.4)
    elif name == "tilted":
        objective -= cp.sum(cp.rel_entr(weights, shares)) / 1.5
    else:
        constraints.append(cp.sum(cp.rel_entr(shares, weights)) <= 0.2)
    problem = cp.Problem(cp.Maximize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value, weights.value


@suprema
@pytest.mark.parametrize("seed", range(3))
def test_supremum_and_its_gradient_against_cvxpy(name: str, seed: int) -> None:
    losses, shares = _losses(seed=seed).requires_grad_(), _shares(16, seed)
    got = MAKE[name]()(losses, weights=shares)
    value, weights = _cvxpy(name, losses.detach().numpy(), shares.numpy())
    got.backward()
    assert got.item() == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(losses.grad, weights, atol=2e-4)


@names
def test_gradient(name: str) -> None:
    reduction = MAKE[name]().double().eval()
    parameters = tuple(reduction.parameters())
    losses = _losses().requires_grad_()
    if name == "streaming-tilted":  # its gradient is that of the tilted mean only on the batch that set the estimate
        assert torch.autograd.gradcheck(Tilted(1.5), losses)
        torch.testing.assert_close(*(torch.autograd.grad(r(losses), losses) for r in (reduction, Tilted(1.5))))
        return
    if name == "doro":  # the dropped examples move nothing, the others as in the CVaR of the rest
        (gradient,) = torch.autograd.grad(reduction(losses), losses)
        assert (gradient[losses.argsort(descending=True)[:2]] == 0).all()
    assert torch.autograd.gradcheck(lambda x, *_: reduction(x), (losses, *parameters))


@names
def test_grouped_gradient(name: str) -> None:
    reduction, groups = MAKE[name](num_groups=3).double().eval(), torch.arange(16) % 3
    if name == "streaming-tilted":
        return
    assert torch.autograd.gradcheck(lambda x: reduction(x, groups), _losses().requires_grad_())


@names
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtype(name: str, dtype: torch.dtype) -> None:
    losses = _losses(dtype=dtype).requires_grad_()
    exact = losses.detach().double().requires_grad_()
    got, expected = MAKE[name]()(losses), MAKE[name]()(exact)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(expected.item(), rel=2e-5)
    got.backward()
    expected.backward()
    assert losses.grad.dtype == dtype
    torch.testing.assert_close(losses.grad.double(), exact.grad, rtol=1e-2, atol=1e-4)


@whole
def test_order_does_not_matter(name: str) -> None:
    losses, weights = _losses().requires_grad_(), _shares(16)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(5))
    first, second = MAKE[name]()(losses, weights=weights), MAKE[name]()(losses[order], weights=weights[order])
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(*(torch.autograd.grad(value, losses)[0] for value in (first, second)))


@whole
@settings(max_examples=10)
@given(st.integers(0, 10_000), st.integers(0, 15), st.floats(0.0, 5.0))
def test_no_loss_that_grows_lowers_it(name: str, seed: int, which: int, more: float) -> None:
    losses = _losses(seed=seed)
    grown = losses.clone()
    grown[which] += more
    assert MAKE[name]()(grown) >= MAKE[name]()(losses) - 1e-9


@suprema
@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_between_the_mean_and_the_largest(name: str, seed: int) -> None:
    losses = _losses(seed=seed)
    assert losses.mean() - 1e-9 <= MAKE[name]()(losses) <= losses.max() + 1e-9


@pytest.mark.parametrize("name", [n for n in WHOLE if n not in ("hashimoto", "cvar-dual", "chi-square-dual")])
@pytest.mark.parametrize("level", [0.0, 3.5])
def test_equal_losses_are_their_mean(name: str, level: float) -> None:
    losses = torch.full((16,), level, dtype=torch.float64, requires_grad=True)
    value = MAKE[name]()(losses)
    assert value.item() == pytest.approx(level)
    torch.testing.assert_close(torch.autograd.grad(value, losses)[0], torch.full_like(losses, 1 / 16))


@pytest.mark.parametrize("name", [n for n in WHOLE if n not in ("hashimoto", "cvar-dual", "chi-square-dual")])
@settings(max_examples=10)
@given(st.integers(0, 10_000), st.floats(-50, 50))
def test_a_constant_passes_through(name: str, seed: int, shift: float) -> None:
    losses = _losses(seed=seed)
    assert MAKE[name]()(losses + shift).item() == pytest.approx(MAKE[name]()(losses).item() + shift, abs=1e-6)


@names
def test_weights_of_zero_leave_examples_out(name: str) -> None:
    losses, kept = _losses().requires_grad_(), torch.arange(16) % 4 != 1
    spoilt = torch.where(kept, losses, torch.inf)
    value = MAKE[name]()(spoilt, weights=kept)
    (gradient,) = torch.autograd.grad(value, losses)
    assert (gradient[~kept] == 0).all()
    if name != "multilevel":
        torch.testing.assert_close(value, MAKE[name]()(losses[kept]))


@names
@pytest.mark.parametrize("grouped", [False, True])
def test_nothing_to_count_is_zero_without_gradient(name: str, grouped: bool) -> None:
    losses = _losses().requires_grad_()
    reduction = MAKE[name](num_groups=3 if grouped else None)
    groups = (torch.arange(16) % 3,) if grouped else ()
    value = reduction(losses, *groups, weights=torch.zeros(16))
    value.backward()
    assert value.item() == 0.0
    assert (losses.grad == 0).all()
    assert all(parameter.grad == 0 for parameter in reduction.parameters())
    assert not any(buffer.any() for buffer in reduction.buffers())


@whole
def test_any_shape(name: str) -> None:
    torch.testing.assert_close(MAKE[name]()(_losses().reshape(2, 2, 4)), MAKE[name]()(_losses()))
    groups = torch.arange(16) % 3
    dense = MAKE[name](num_groups=3)(_losses().reshape(4, 4), groups.reshape(4, 4))
    torch.testing.assert_close(dense, MAKE[name](num_groups=3)(_losses(), groups))


@whole
def test_groups_stand_for_their_means(name: str) -> None:
    """Four groups with fixed sizes are four examples with their shares; a fifth that is absent changes nothing."""
    losses, weights = _losses(), _shares(16)
    groups = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3])
    means = torch.stack([weights[groups == g] @ losses[groups == g] / weights[groups == g].sum() for g in range(4)])
    shares = torch.stack([weights[groups == g].sum() for g in range(4)])
    got = MAKE[name](num_groups=5)(losses, groups, weights=weights)
    torch.testing.assert_close(got, MAKE[name]()(means, weights=shares))
    hot = torch.nn.functional.one_hot(groups, 5).to(losses)
    torch.testing.assert_close(MAKE[name](num_groups=5)(losses, hot, weights=weights), got)


@whole
def test_shares_of_groups_weigh_their_means(name: str) -> None:
    losses, shares = _losses(), torch.rand(16, 3, generator=torch.Generator().manual_seed(0)).double().softmax(1)
    means = torch.stack([shares[:, g] @ losses / shares[:, g].sum() for g in range(3)])
    got = MAKE[name](num_groups=3)(losses, shares)
    torch.testing.assert_close(got, MAKE[name]()(means, weights=shares.sum(0)))


@names
def test_a_loss_that_is_not_a_number_is_not_hidden(name: str) -> None:
    losses = _losses()
    losses[3] = math.nan
    assert MAKE[name]()(losses).isnan()


@pytest.mark.parametrize("name", [n for n in SUPREMA if n != "mean"])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_batches_of_any_size(name: str, n: int) -> None:
    value = MAKE[name]()(_losses(n, dtype=torch.float32))
    expected = MAKE[name]()(_losses(n))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


LIMITS = [
    (CVaR(1.0), "mean"),
    (CVaR(1e-9), "max"),
    (AverageTopK(16), "mean"),
    (AverageTopK(100), "mean"),
    (AverageTopK(1), "max"),
    (KL(0.0), "mean"),
    (KL(1e-14), "mean"),
    (KL(math.log(16) + 1e-6), "max"),
    (ChiSquare(0.0), "mean"),
    (ChiSquare(8.0), "max"),
    (PenalisedChiSquare(1e8), "mean"),
    (PenalisedChiSquare(1e-6), "max"),
    (Tilted(0.0), "mean"),
    (Tilted(1e-9), "mean"),
    (Tilted(-1e-9), "mean"),
    (Tilted(1e6), "max"),
    (Tilted(-1e6), "min"),
    (StreamingTilted(1e6), "max"),
    (DORO(1.0, epsilon=0.0), "mean"),
    (DORO(1e-9, epsilon=0.0), "max"),
    (WorstCaseMean(TotalVariationBall(0.0)), "mean"),
]


@pytest.mark.parametrize(("reduction", "limit"), LIMITS, ids=lambda part: str(part)[:40])
def test_limits(reduction, limit: str) -> None:
    losses = _losses()
    expected = {"mean": losses.mean(), "max": losses.max(), "min": losses.min()}[limit]
    assert reduction(losses).item() == pytest.approx(expected.item(), rel=2e-5)


def test_small_tilt_in_float32() -> None:
    losses = _losses(1000)
    for tilt in (1e-7, 1e-4, 1e-2, 0.3, -0.3):
        exact = math.log(np.mean(np.exp(tilt * losses.numpy()))) / tilt if abs(tilt) > 1e-5 else losses.mean().item()
        assert Tilted(tilt)(losses.float()).item() == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.25, 0.3, 0.77, 1.0])
def test_fitted_dual_is_the_cvar(alpha: float) -> None:
    losses, dual = _losses(), DualCVaR(alpha).double()
    dual.fit(losses)
    torch.testing.assert_close(dual(losses), CVaR(alpha)(losses))
    if alpha < 1:
        for other in (-0.01, 0.01):
            moved = DualCVaR(alpha, threshold=dual.threshold.item() + other).double()
            assert moved(losses) >= dual(losses) - 1e-12


@pytest.mark.parametrize("radius", [0.01, 0.4, 3.0, 7.6])
def test_fitted_dual_is_the_chi_square_worst_case(radius: float) -> None:
    losses, dual = _losses(), DualChiSquare(radius).double()
    dual.fit(losses)
    torch.testing.assert_close(dual(losses), ChiSquare(radius)(losses))


def test_learned_threshold_reaches_the_best() -> None:
    losses, dual = _losses(200), DualCVaR(0.25, threshold=0.0)
    optimizer = torch.optim.SGD(dual.parameters(), lr=0.01)
    for _ in range(400):
        optimizer.zero_grad()
        dual(losses).backward()
        optimizer.step()
    assert dual(losses).item() == pytest.approx(CVaR(0.25)(losses).item(), rel=2e-3)


def test_hashimoto_shares_its_minimiser_with_the_chi_square_ball() -> None:
    """Fit a mean under squared losses by the ball's worst case, then by the squares above the threshold found there."""
    points, radius = _losses(50, seed=4), 0.5

    def worst(centre: float) -> float:
        return ChiSquare(radius)((points - centre) ** 2).item()

    best = minimize_scalar(worst, bounds=(0, 2), method="bounded", options={"xatol": 1e-10}).x
    dual = DualChiSquare(radius).double()
    dual.fit((points - best) ** 2)
    squares = Hashimoto(dual.threshold.item())
    found = minimize_scalar(lambda c: squares((points - c) ** 2).item(), bounds=(0, 2), method="bounded").x
    assert found == pytest.approx(best, abs=1e-4)


def test_clip_bounds_what_one_wrong_label_can_take() -> None:
    losses = torch.tensor([0.1, 0.2, 0.3, 0.4, 2.5, 60.0], requires_grad=True)
    (free,) = torch.autograd.grad(KL(0.5)(losses), losses)
    (clipped,) = torch.autograd.grad(KL(0.5, clip=2.0)(losses), losses)
    assert free.argmax() == 5
    assert clipped[4] == pytest.approx(clipped[5].item())
    assert clipped[5] < 0.7 * free[5]
    torch.testing.assert_close(KL(0.5, clip=2.0)(losses), clipped @ losses.detach(), check_dtype=False)


class TestStreaming:
    def test_follows_the_recursion(self) -> None:
        tilt, rate, estimate = 2.0, 0.3, None
        reduction = StreamingTilted(tilt, rate=rate).double()
        for seed in range(5):
            losses = _losses(8, seed=seed).requires_grad_()
            batch = math.log(np.mean(np.exp(tilt * losses.detach().numpy()))) / tilt
            blend = (
                batch if estimate is None else (1 - rate) * math.exp(tilt * estimate) + rate * math.exp(tilt * batch)
            )
            estimate = batch if estimate is None else math.log(blend) / tilt
            value = reduction(losses)
            value.backward()
            assert value.item() == pytest.approx(estimate)
            expected = torch.exp(tilt * (losses.detach() - estimate)) / 8
            torch.testing.assert_close(losses.grad, expected, rtol=1e-6, atol=0)

    def test_moves_only_in_training(self) -> None:
        reduction = StreamingTilted(1.0)
        reduction(_losses(seed=0))
        before = reduction.estimate.clone()
        with torch.no_grad():
            reduction(_losses(seed=1))
        reduction.eval()(_losses(seed=1))
        assert torch.equal(reduction.estimate, before)

    def test_resumes(self) -> None:
        first, second = StreamingTilted(1.0), StreamingTilted(1.0)
        first(_losses(seed=0))
        second.load_state_dict(first.state_dict(), strict=True)
        torch.testing.assert_close(first(_losses(seed=1)), second(_losses(seed=1)))

    def test_checkpointing_is_refused(self) -> None:
        losses = _losses().requires_grad_()
        value = checkpoint(StreamingTilted(1.0), losses, use_reentrant=False)
        with pytest.raises(InputError, match="second time during backward"):
            value.backward()

    def test_long_stream_estimates_the_tilted_mean_of_all(self) -> None:
        data = _losses(4000, seed=9)
        reduction = StreamingTilted(1.5, rate=0.02).double()
        generator = torch.Generator().manual_seed(0)
        for _ in range(800):
            reduction(data[torch.randint(0, 4000, (32,), generator=generator)].requires_grad_())
        assert reduction.estimate.item() == pytest.approx(Tilted(1.5)(data).item(), rel=0.02)


class TestDoro:
    @given(st.integers(0, 1000), st.sampled_from([(20, 0.1, 0.5), (20, 0.2, 0.25), (40, 0.05, 0.5)]))
    @settings(max_examples=10)
    def test_ranks(self, seed: int, case: tuple[int, float, float]) -> None:
        """Where all counts are whole: the mean of ranks `εn` to `(ε + α(1-ε))n`."""
        n, epsilon, alpha = case
        losses = _losses(n, seed=seed)
        begin, end = round(epsilon * n), round((epsilon + alpha * (1 - epsilon)) * n)
        expected = losses.sort(descending=True).values[begin:end].mean()
        torch.testing.assert_close(DORO(alpha, epsilon=epsilon)(losses), expected)

    def test_other_sets(self) -> None:
        losses = _losses(20)
        rest = losses.sort(descending=True).values[4:]
        got = DORO(feared=ChiSquareBall(0.3), epsilon=0.2)(losses)
        torch.testing.assert_close(got, ChiSquare(0.3)(rest))

    def test_outlier_has_no_weight(self) -> None:
        losses = _losses(20)
        losses[7] = 1e6
        assert DORO(0.1, epsilon=0.05)(losses) < 2

    def test_rest_is_a_distribution_in_float32(self) -> None:
        for n in (3, 100, 1000):
            rest = without_the_worst(_losses(n, dtype=torch.float32), torch.full((n,), 1 / n), 0.1)
            assert rest.sum().item() == pytest.approx(1.0, abs=1e-4)
            assert (rest >= 0).all()


class TestMultiLevel:
    def test_unbiased_by_enumeration(self) -> None:
        """All batches of each size, drawn with replacement from two losses: the mean is that of the largest."""
        data = torch.tensor([0.2, 3.0], dtype=torch.float64)
        inner = CVaR(0.4)
        estimate = MultiLevel(inner, smallest=2, largest=8)

        def mean_over_batches(reduction, size):
            return np.mean([reduction(data[list(rows)]).item() for rows in itertools.product(range(2), repeat=size)])

        got = sum(estimate.probability(size) * mean_over_batches(estimate, size) for size in (2, 4, 8))
        assert got == pytest.approx(mean_over_batches(inner, 8), rel=1e-12)
        assert mean_over_batches(inner, 2) < got < inner(data.repeat(1000)).item()

    def test_sizes_follow_their_probabilities(self) -> None:
        estimate, generator = MultiLevel(CVaR(0.3), smallest=2, largest=16), torch.Generator().manual_seed(0)
        draws = [estimate.draw(generator) for _ in range(8000)]
        sizes = [2, 4, 8, 16]
        assert set(draws) == set(sizes)
        assert sum(map(estimate.probability, sizes)) == 1.0
        for size in sizes:
            assert draws.count(size) / 8000 == pytest.approx(estimate.probability(size), abs=0.02)

    def test_one_level_is_the_reduction_with_a_correction(self) -> None:
        losses = _losses(4)
        estimate = MultiLevel(CVaR(0.3), smallest=4, largest=4)
        parts = [CVaR(0.3)(part) for part in (losses[:2], losses, losses[2:])]
        torch.testing.assert_close(estimate(losses), parts[0] + parts[1] - 0.5 * (parts[0] + parts[2]))


def test_large_batches_lose_the_bias() -> None:
    """The worst case of a batch is below the population's on average, and rises with the batch."""
    generator = torch.Generator().manual_seed(0)
    data = torch.empty(100_000, dtype=torch.float64).exponential_(generator=generator)
    means = [
        np.mean([CVaR(0.25)(data[torch.randint(0, 100_000, (n,), generator=generator)]).item() for _ in range(400)])
        for n in (8, 64)
    ]
    assert means[0] < means[1] < CVaR(0.25)(data).item()


def test_any_uncertainty_set() -> None:
    losses = _losses()
    torch.testing.assert_close(WorstCaseMean(FrequencyCap(2.0))(losses), CVaR(0.5)(losses))


LOSSES = torch.rand(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CVaR(0.0), "alpha must be a share"),
        (lambda: CVaR(1.5), "alpha must be a share"),
        (lambda: DualCVaR(-1.0), "alpha must be a share"),
        (lambda: AverageTopK(0.5), "k must be a number from 1 up"),
        (lambda: KL(-0.1), "radius must be a number from 0 up"),
        (lambda: KL(0.1, clip=0.0), "clip must be a positive loss"),
        (lambda: KL(0.1, steps=0), "steps must be a positive"),
        (lambda: ChiSquare(math.nan), "radius"),
        (lambda: DualChiSquare(-1.0), "radius"),
        (lambda: DualChiSquare(0.0).fit(LOSSES), "use Mean"),
        (lambda: PenalisedChiSquare(0.0), "penalty must be a positive"),
        (lambda: Hashimoto(math.inf), "threshold must be a finite"),
        (lambda: Tilted(math.inf), "tilt must be a finite"),
        (lambda: StreamingTilted(0.0), "other than 0"),
        (lambda: StreamingTilted(1.0, rate=0.0), "rate"),
        (lambda: DORO(0.5, epsilon=1.0), "epsilon must be a share"),
        (lambda: DORO(epsilon=0.1), "one of them"),
        (lambda: DORO(0.5, epsilon=0.1, feared=FrequencyCap(2.0)), "one of them"),
        (lambda: MultiLevel(CVaR(0.5), smallest=3, largest=6), "even number"),
        (lambda: MultiLevel(CVaR(0.5), smallest=4, largest=12), "power of two"),
        (lambda: MultiLevel(CVaR(0.5), smallest=4, largest=2), "power of two"),
        (lambda: MultiLevel(StreamingTilted(1.0), smallest=2, largest=4), "keeps a state"),
        (lambda: MultiLevel(CVaR(0.5), smallest=2, largest=8)(torch.rand(6)), r"sizes \[2, 4, 8\].*got 6"),
        (lambda: Mean(num_groups=0), "num_groups"),
        (lambda: Mean()(torch.rand(0)), "at least one"),
        (lambda: Mean()(torch.ones(3, dtype=torch.int64)), "floating-point"),
        (lambda: Mean()(LOSSES, torch.tensor([0, 1, 0, 1])), "or neither"),
        (lambda: Mean(num_groups=2)(LOSSES), "or neither"),
        (lambda: Mean(num_groups=2)(LOSSES, torch.tensor([0, 1, 2, 1])), "from 0 to 1; got 2"),
        (lambda: Mean(num_groups=2)(LOSSES, torch.tensor([0, 1])), r"groups must have the shape \(4,\); got \(2,\)"),
        (
            lambda: Mean(num_groups=2)(LOSSES, torch.ones(4)),
            r"shares of groups \(floats\) must have the shape \(4, 2\)",
        ),
        (lambda: Mean()(LOSSES, weights=torch.ones(3)), "one number per loss: 4; got 3"),
        (lambda: Mean()(LOSSES, weights=-torch.ones(4)), "from 0 up; got -1"),
        (lambda: REDUCTIONS["cvr"], "did you mean 'cvar'"),
    ],
)
def test_bad_input_has_its_sentence(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CVaR("0.5"), "alpha must be a share"),
        (lambda: DualCVaR("0.5"), "alpha must be a share"),
        (lambda: KL(0.1, clip="2"), "clip must be a positive loss"),
        (lambda: DualChiSquare("1"), "radius must be a finite number"),
        (lambda: PenalisedChiSquare("1"), "penalty must be a positive"),
        (lambda: Hashimoto("1"), "threshold must be a finite"),
        (lambda: Tilted("1"), "tilt must be a finite"),
        (lambda: StreamingTilted(1.0, rate="x"), "rate"),
        (lambda: DORO(0.5, epsilon="x"), "epsilon must be a share"),
        (lambda: MultiLevel(CVaR(0.5), smallest="2", largest=8), "even number"),
        (lambda: MultiLevel(None, smallest=2, largest=8), "the reduction that is estimated; got None"),
        (lambda: WorstCaseMean("kl"), "feared must be a set of advshift.sets"),
        (lambda: Mean(num_groups=2.5), "num_groups must be a whole number"),
        (lambda: Mean()([1.0, 2.0]), "losses must be a tensor; got list. Convert with"),
        (lambda: Mean()(LOSSES, weights=[1, 1, 1, 1]), "weights must be a tensor; got list"),
        (lambda: Mean(num_groups=2)(LOSSES, [0, 1, 0, 1]), "groups must be a tensor; got list"),
    ],
)
def test_input_of_another_kind_has_its_sentence(call, message: str, no_shape_checks: None) -> None:
    with pytest.raises(InputError, match=message):
        call()
