"""The study of convergence: its yardstick is right, its runs fall with the horizon, and the page shows the record."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from advshift.sets import KLBall

ROOT = Path(__file__).parents[1]
NAMES = ("kink", "smooth")


@pytest.fixture(scope="module")
def study() -> ModuleType:
    specification = importlib.util.spec_from_file_location("convergence", ROOT / "benchmarks" / "convergence.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def record(study: ModuleType) -> dict:
    return json.loads(study.RECORD.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_the_envelope(study: ModuleType, name: str) -> None:
    toy, theta, width = study.TOYS[name], np.linspace(-3.1, 2.9, 9), 1e-3
    gradient = study.envelope_gradient(toy, theta)
    above, below = (study.proximal_point(toy, theta + shift)[1] for shift in (width, -width))
    np.testing.assert_allclose(gradient, (above - below) / (2 * width), atol=2e-5)
    for at, found in zip(theta, study.proximal_point(toy, theta)[0], strict=True):
        other = minimize_scalar(
            lambda u, at=at: float(toy.robust(np.array(u))) + (u - at) ** 2 / (2 * study.ENVELOPE),
            bounds=(at - 0.3, at + 0.3),
            options={"xatol": 1e-9},
        )
        assert found == pytest.approx(other.x, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_table_and_solution(study: ModuleType, record: dict, name: str) -> None:
    toy = study.TOYS[name]
    table = study.tabulate(toy, points=1201)
    theta = np.random.default_rng(0).uniform(-3.0, 3.0, 50)
    np.testing.assert_allclose(table.squared(theta), study.envelope_gradient(toy, theta) ** 2, atol=2e-3)
    (point,) = study.stationary_points(table)
    assert record["toys"][name]["stationary"] == [pytest.approx(point, abs=1e-3)]
    grid = np.linspace(-3.0, 3.0, 6001)
    assert point == pytest.approx(grid[toy.robust(grid).argmin()], abs=2e-3)
    with pytest.raises(RuntimeError, match="left"):
        table.squared(np.array([7.0]))


@pytest.mark.parametrize("name", NAMES)
def test_penalty_holds_the_ball(study: ModuleType, name: str) -> None:
    toy, theta = study.TOYS[name], np.linspace(-study.EDGE, study.EDGE, 801)
    worst = KLBall(toy.radius).worst_case(toy.class_losses(theta), np.array(toy.reference))
    assert worst.multiplier.max() < study.PENALTY


def test_gradients_are_unbiased(study: ModuleType) -> None:
    toy, mix = study.TOYS["smooth"], np.array([0.2, 0.3, 0.5])
    examples, shares = study.draw_batches(toy, np.random.default_rng(1), 4000, 8)
    theta = 0.4
    losses = (shares * study.loss(theta - examples)[..., None]).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(losses, toy.class_losses(np.array(theta)), atol=0.01)
    slope = ((shares * mix).sum(axis=-1) * study.slope_of_loss(theta - examples)).mean()
    risk = [float(mix @ toy.class_losses(np.array(theta + shift))) for shift in (1e-5, -1e-5)]
    assert slope == pytest.approx((risk[0] - risk[1]) / 2e-5, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_falls_with_the_horizon(study: ModuleType, record: dict, name: str) -> None:
    toy = study.TOYS[name]
    table = study.tabulate(toy, points=1201)
    short, long = (study.run(toy, table, horizon)[0].mean() for horizon in (64, 2048))
    assert long < 0.65 * short
    rows = {row["horizon"]: row["mean"] for row in record["toys"][name]["rows"]}
    assert [short, long] == [pytest.approx(rows[64], rel=0.01), pytest.approx(rows[2048], rel=0.01)]


def test_slope_of_a_power_law(study: ModuleType) -> None:
    horizons = np.array([64, 128, 256, 512])
    noise = np.exp(0.1 * np.random.default_rng(2).standard_normal((4, 200)))
    found = study.slope(horizons, horizons[:, None] ** -0.4 * noise)
    assert found["low"] < -0.4 < found["high"]
    assert found["high"] - found["low"] < 0.05


def test_page_shows_the_record(record: dict) -> None:
    page = (ROOT / "docs" / "convergence.md").read_text()
    for result in record["toys"].values():
        for fit in [*result["fits"].values(), *result["factors"]]:
            assert f"{fit['slope']:.3f} [{fit['low']:.3f}, {fit['high']:.3f}]".replace("-", "−") in page
        for row in result["rows"][::2]:
            assert f"{1e3 * row['mean']:.4g} ± {1e3 * row['half']:.2g} | {1e3 * row['second_half']:.3g}" in page


def test_descent_accounts_for_the_means(study: ModuleType, record: dict) -> None:
    for name, low, high in (("smooth", 0.975, 0.995), ("kink", 1.4, 1.65)):
        result, toy = record["toys"][name], study.TOYS[name]
        start, end = study.proximal_point(toy, np.array([toy.start, *result["stationary"]]))[1]
        for row in result["rows"][3:]:
            descent = (start - end) / (study.step_sizes(row["horizon"])[0] * row["horizon"])
            assert low < row["mean"] / descent < high
