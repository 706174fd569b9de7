"""How fast the training algorithm becomes stationary, on two toys whose solution is known.

    python benchmarks/convergence.py             # runs, writes docs/results/convergence.json and both pictures
    python benchmarks/convergence.py --draw      # the pictures alone, from the record

One parameter, classes of a few numbers each, and the loss `u²/(1+u²)` of the distance: nonconvex, with curvature
between -1/2 and 2. The robust objective `Φ(θ) = max_π Σ π_y·ℓ̄_y(θ)` over the KL ball is then known to any accuracy, and
so is its Moreau envelope, whose gradient measures how far a point is from stationary where `Φ` has kinks.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from advshift.numerics import mirror_step
from advshift.report.style import THEMES, Theme, figure, finish, series, write_svg
from advshift.sets import KLBall

DOCS = Path(__file__).parents[1] / "docs"
RECORD = DOCS / "results" / "convergence.json"
SMOOTHNESS = 2.0  # the largest curvature of the loss
ENVELOPE = 1.0 / (2.0 * SMOOTHNESS)  # the envelope's parameter
EXPONENT_LEARNER, EXPONENT_ADVERSARY = -3 / 4, -1 / 4  # of T in the step sizes
FACTORS = (4.0, 0.5)  # of the learner's and of the adversary's step
OTHER_FACTORS = ((2.0, 0.5), (8.0, 0.5), (4.0, 0.25), (4.0, 1.0))
PENALTY, BATCH, SEEDS, CHUNK = 2.0, 8, 32, 1024
EXPONENTS = range(6, 18)
LATE = 12  # the second fit begins at the horizon of this exponent
EDGE = 6.0  # parameters lie within ± this
OFFSETS = np.array([-0.3, -0.1, 0.1, 0.3])


class Toy(NamedTuple):
    """Classes of four points around their centres, and the robust problem on them."""

    centres: tuple[float, ...]
    reference: tuple[float, ...]
    radius: float
    start: float

    def points(self) -> np.ndarray:
        """The examples, one row a class."""
        return np.add.outer(np.array(self.centres), OFFSETS)

    def class_losses(self, theta: np.ndarray) -> np.ndarray:
        """The mean loss of each class."""
        return loss(theta[..., None, None] - self.points()).mean(axis=-1)

    def robust(self, theta: np.ndarray) -> np.ndarray:
        """The worst case over the ball."""
        return np.asarray(KLBall(self.radius).worst_case(self.class_losses(theta), np.array(self.reference)).value)


TOYS = {
    "kink": Toy((-0.6, 0.6), (0.7, 0.3), 0.2, -2.0),
    "smooth": Toy((-1.0, 0.2, 1.2), (0.6, 0.3, 0.1), 0.1, -2.5),
}
NAMES = {"kink": "two classes, kink", "smooth": "three classes, smooth"}


def loss(distance: np.ndarray) -> np.ndarray:
    """A square that saturates at one."""
    return distance**2 / (1.0 + distance**2)


def slope_of_loss(distance: np.ndarray) -> np.ndarray:
    """The derivative of the loss."""
    return 2.0 * distance / (1.0 + distance**2) ** 2


def proximal_point(toy: Toy, theta: np.ndarray, rounds: int = 12, points: int = 21) -> tuple[np.ndarray, np.ndarray]:
    """The minimiser and minimum of `Φ(u) + (u-θ)²/(2λ)`, by grids that close in: the function is strictly convex."""
    low, high = theta - 1.0, theta + 1.0  # |Φ'| is at most 0.65, and so the minimiser within 0.65·λ
    for _ in range(rounds):
        grid = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, points)
        value = toy.robust(grid) + (grid - theta[..., None]) ** 2 / (2.0 * ENVELOPE)
        best = value.argmin(axis=-1)[..., None]
        low = np.take_along_axis(grid, np.maximum(best - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(grid, np.minimum(best + 1, points - 1), axis=-1)[..., 0]
    return np.take_along_axis(grid, best, axis=-1)[..., 0], np.take_along_axis(value, best, axis=-1)[..., 0]


def envelope_gradient(toy: Toy, theta: np.ndarray) -> np.ndarray:
    """The gradient of the Moreau envelope, `(θ - prox)/λ`."""
    return (theta - proximal_point(toy, theta)[0]) / ENVELOPE


class Table(NamedTuple):
    """The envelope's gradient on a fine grid, to be interpolated."""

    theta: np.ndarray
    gradient: np.ndarray

    def squared(self, theta: np.ndarray) -> np.ndarray:
        """The squared gradient anywhere within the edges."""
        if np.abs(theta).max() > EDGE:
            raise RuntimeError(f"a parameter left [-{EDGE:g}, {EDGE:g}]: lower the learner's step")
        return np.interp(theta, self.theta, self.gradient) ** 2


def tabulate(toy: Toy, points: int = 6001) -> Table:
    """Tabulate the envelope's gradient between the edges."""
    theta = np.linspace(-EDGE, EDGE, points)
    return Table(theta, np.concatenate([envelope_gradient(toy, part) for part in np.array_split(theta, 6)]))


def step_sizes(horizon: int, factors: tuple[float, float] = FACTORS) -> tuple[float, float]:
    """The learner's and the adversary's step for a horizon."""
    return factors[0] * horizon**EXPONENT_LEARNER, factors[1] * horizon**EXPONENT_ADVERSARY


def draw_batches(toy: Toy, rng: np.random.Generator, steps: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples drawn from the reference, and their one-hot labels divided by it."""
    reference = np.array(toy.reference)
    labels = rng.choice(len(reference), size=(steps, seeds, BATCH), p=reference)
    examples = toy.points()[labels, rng.integers(len(OFFSETS), size=labels.shape)]
    return examples, (np.eye(len(reference)) / reference)[labels]


def run(toy: Toy, table: Table, horizon: int, factors: tuple[float, float] = FACTORS) -> np.ndarray:
    """Train over the horizon; return each seed's mean squared gradient of the envelope.

    The first row is over all iterates, which is what the theorem bounds, the second over the last half of them.
    """
    rng = np.random.default_rng((0, horizon))
    learner, adversary = step_sizes(horizon, factors)
    log_reference = np.log(toy.reference)
    theta = np.full(SEEDS, toy.start)
    log_weights = np.full((SEEDS, len(toy.reference)), -np.log(len(toy.reference)))
    summed = np.zeros((2, SEEDS))
    for begin in range(0, horizon, CHUNK):
        steps = min(CHUNK, horizon - begin)
        visited = np.empty((steps, SEEDS))
        for step, (examples, shares) in enumerate(zip(*draw_batches(toy, rng, steps, SEEDS), strict=True)):
            visited[step] = theta
            weights, distance = np.exp(log_weights), theta[:, None] - examples
            gradient = (shares * loss(distance)[..., None]).mean(axis=1)
            importance = (shares * weights[:, None, :]).sum(axis=-1)
            theta = theta - learner * (importance * slope_of_loss(distance)).mean(axis=-1)
            outside = (weights * (log_weights - log_reference)).sum(axis=-1, keepdims=True) >= toy.radius
            pull = np.where(outside, 2.0 * PENALTY * adversary, 0.0)
            log_weights = mirror_step(log_weights, log_reference, gradient, 2.0 * adversary / (1.0 + pull), pull)
        squared = table.squared(visited)
        second = np.arange(begin, begin + steps)[:, None] >= horizon // 2
        summed += np.stack([squared.sum(axis=0), 2.0 * (squared * second).sum(axis=0)])
    return summed / horizon


def slope(horizons: np.ndarray, values: np.ndarray, replicates: int = 2000) -> dict[str, float]:
    """The slope of the log of the seeds' mean, with a 95 % bootstrap interval over the seeds of each horizon."""
    rng = np.random.default_rng(0)
    picked = rng.integers(values.shape[1], size=(replicates, *values.shape))
    means = np.take_along_axis(values[None], picked, axis=-1).mean(axis=-1)
    fitted = np.polyfit(np.log(horizons), np.log(means).T, 1)[0]
    low, high = np.quantile(fitted, [0.025, 0.975])
    centre = np.polyfit(np.log(horizons), np.log(values.mean(axis=1)), 1)[0]
    return {"slope": round(float(centre), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def stationary_points(table: Table) -> list[float]:
    """Where the envelope's gradient changes sign, or vanishes on the grid."""
    here, following = table.gradient[:-1], table.gradient[1:]
    change = np.flatnonzero((here < 0) != (following < 0))
    share = here[change] / (here[change] - following[change])
    crossing = table.theta[change] + share * (table.theta[1] - table.theta[0])
    return [round(float(point), 4) + 0.0 for point in crossing]


def study(toy: Toy) -> dict[str, Any]:
    """Every horizon of one toy."""
    table = tabulate(toy)
    horizons = np.array([2**exponent for exponent in EXPONENTS])
    values, ends = np.stack([run(toy, table, int(horizon)) for horizon in horizons], axis=1)
    half = stats.t.ppf(0.975, SEEDS - 1) * values.std(axis=1, ddof=1) / np.sqrt(SEEDS)
    late = horizons >= 2**LATE
    rows = [
        {"horizon": int(horizon)} | {name: float(f"{value:.4g}") for name, value in measured.items()}
        for horizon, *measures in zip(horizons, values.mean(axis=1), half, ends.mean(axis=1), strict=True)
        for measured in [dict(zip(("mean", "half", "second_half"), measures, strict=True))]
    ]
    fits = {"all": slope(horizons, values), "late": slope(horizons[late], values[late])}
    fits["second_half"] = slope(horizons[late], ends[late])
    solution = {"toy": toy._asdict(), "stationary": stationary_points(table)}
    return solution | {"fits": fits, "rows": rows, "factors": other_factors(toy, table)}


def other_factors(toy: Toy, table: Table) -> list[dict[str, Any]]:
    """The slopes with other factors of the steps, over a middle range of horizons."""
    horizons = np.array([2**exponent for exponent in (8, 10, 12, 14)])
    found = []
    for factors in (FACTORS, *OTHER_FACTORS):
        values = np.stack([run(toy, table, int(horizon), factors)[0] for horizon in horizons])
        found.append({"learner": factors[0], "adversary": factors[1]} | slope(horizons, values))
    return found


def draw_landscape(axes: Any, theme: Theme) -> None:
    """The robust objectives, with where the runs begin and the solutions."""
    theta = np.linspace(-3.0, 3.0, 601)
    for number, (name, toy) in enumerate(TOYS.items()):
        look, value = series(theme, number), toy.robust(theta)
        axes.plot(theta, value, color=look.colour, linestyle=look.line, label=NAMES[name])
        marks = np.array([toy.start, theta[value.argmin()]])
        axes.plot(marks, toy.robust(marks), look.marker, color=look.colour)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="lower right")
    finish(axes, theme, x="parameter θ", y="robust objective Φ", title="The toys: start and solution")


def draw_decay(axes: Any, theme: Theme, record: dict[str, Any]) -> None:
    """The mean squared gradient against the horizon, beside the bound's slope."""
    for number, (name, result) in enumerate(record["toys"].items()):
        look, rows = series(theme, number), result["rows"]
        columns = [[row[key] for row in rows] for key in ("horizon", "mean", "half")]
        label = f"{NAMES[name]}: slope {result['fits']['all']['slope']:.2f}".replace("-", "−")
        style = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "markersize": 5}
        axes.errorbar(*columns[:2], yerr=columns[2], capsize=2, label=label, **style)
    horizons = np.array(columns[0], dtype=float)
    first = 1.6 * max(result["rows"][0]["mean"] for result in record["toys"].values())
    bound = first * (horizons / horizons[0]) ** -0.25
    axes.plot(horizons, bound, color=theme.faint, linewidth=1.2, label="slope of the bound: −0.25")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([2**exponent for exponent in EXPONENTS if exponent % 2 == 0])
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="lower left")
    finish(axes, theme, x="horizon T", y="mean squared gradient", title="Moreau envelope, mean over iterates")


def picture(record: dict[str, Any], theme: Theme) -> Figure:
    """Both panels."""
    made, (left, right) = figure(theme, panels=2)
    draw_landscape(left, theme)
    draw_decay(right, theme, record)
    return made


def main() -> None:
    """Run the study if asked to, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw from the record without running")
    if not parser.parse_args().draw:
        exponents = (EXPONENT_LEARNER, EXPONENT_ADVERSARY)
        settings = {"factors": FACTORS, "exponents": exponents, "penalty": PENALTY, "batch": BATCH, "seeds": SEEDS}
        record = {"settings": settings | {"envelope": ENVELOPE}, "toys": {n: study(toy) for n, toy in TOYS.items()}}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    record = json.loads(RECORD.read_text())
    for name, theme in THEMES.items():
        write_svg(picture(record, theme), DOCS / "images" / f"convergence-{name}.svg")
    for name, result in record["toys"].items():
        print(name, result["stationary"], result["fits"], *result["rows"], *result["factors"], sep="\n  ")


if __name__ == "__main__":
    main()
