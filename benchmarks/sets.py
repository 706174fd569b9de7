"""How quick the exact worst case is, beside a general convex solver that solves the same problem.

    python benchmarks/sets.py [--turns 11] [--output docs/results/benchmark-sets.json]

writes the record and, beside it, the table of the docs.

The peer is CVXPY with Clarabel at a tolerance of 1e-10, at its best: its problem is built once and only parameters are
set again. Ours includes the checks of the input. Where the peer fails, ours is shown with its own residual.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from timing import Timing, environment, interleave, ratio, save

from advshift.sets import (
    ChiSquareBall,
    FrequencyCap,
    KLBall,
    ReverseKLBall,
    TotalVariationBall,
    UncertaintySet,
)
from advshift.testing.oracle import OracleProblem

Row = dict[str, object]
COLUMNS = ("case", "peer", "peer's time", "ours", "ratio (range)", "aim", "note")


def _problem(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.beta(1.5, 4.0, classes), rng.dirichlet(np.full(classes, 5.0))


def _row(name: str, peer: str, slow: Timing | None, quick: Timing, target: str, note: str = "") -> Row:
    times = None if slow is None else ratio(slow, quick)
    return {
        "case": name,
        "peer": peer,
        "peer_time": slow,
        "ours": quick,
        "ratio": times,
        "target": target,
        "note": note,
    }


def against_solver(
    name: str, ball: UncertaintySet, classes: int, target: str, turns: int, library: str = "numpy"
) -> Row:
    """One radius, one problem."""
    risks, reference = _problem(classes)
    oracle = OracleProblem(ball, reference)
    value, _ = oracle.solve(risks)
    mine = ball.worst_case(risks, reference)
    inputs = (torch.from_numpy(risks), torch.from_numpy(reference)) if library == "torch" else (risks, reference)
    times = interleave(
        {"peer": lambda: oracle.solve(risks), "ours": lambda: ball.worst_case(*inputs)},
        turns=turns if classes < 5000 else 3,
    )
    note = f"value differs by {abs(value - float(mine.value)):.1e}"
    if not np.isfinite(value):
        note = f"the peer did not reach its tolerance; our duality gap {_duality_gap(ball, risks, reference):.1e}"
    return _row(f"{name}, {classes:,} classes, {library}", "Clarabel", times["peer"], times["ours"], target, note)


def _duality_gap(ball: UncertaintySet, risks: np.ndarray, reference: np.ndarray) -> float:
    """How far the worst case is below its dual bound, at the multiplier that came with it."""
    worst = ball.worst_case(risks, reference)
    if isinstance(ball, KLBall):
        t = float(worst.multiplier)
        bound = t * ball.radius + risks.max() + t * np.log(reference @ np.exp((risks - risks.max()) / t))
    else:
        size = 1.0 + 2.0 * float(ball.parameters["radius"])
        kept = worst.distribution > 0
        slope = worst.distribution[kept] / reference[kept]  # of the line p·(e - η) on the classes that are kept
        eta = float(np.median(risks[kept] - slope / np.polyfit(risks[kept], slope, 1)[0]))
        bound = np.sqrt(size * (reference @ np.maximum(risks - eta, 0.0) ** 2)) + eta
    return float(bound - worst.value)


def radii_at_once(turns: int) -> Row:
    """A curve of 57 radii at 100 classes: the peer solves 57 times."""
    risks, reference = _problem(100)
    radii = np.geomspace(1e-3, 4.0, 57)
    oracle = OracleProblem(KLBall(1.0), reference)
    times = interleave(
        {
            "peer": lambda: [oracle.solve(risks, radius) for radius in radii],
            "ours": lambda: KLBall(radii).worst_case(risks, reference),
        },
        turns=min(turns, 7),
    )
    return _row("KL ball, 57 radii, 100 classes, numpy", "Clarabel", times["peer"], times["ours"], "≥ 100×")


def a_million_classes(turns: int) -> Row:
    """The time of ten passes of `exp` over the array is the yardstick."""
    risks, reference = _problem(10**6)

    def ten_passes() -> None:
        for _ in range(10):
            np.exp(risks)

    times = interleave({"peer": ten_passes, "ours": lambda: KLBall(1.0).worst_case(risks, reference)}, turns=turns)
    return _row("KL ball, 1,000,000 classes, numpy", "ten passes of exp", times["peer"], times["ours"], "≥ 0.33×")


def batch_against_single(turns: int) -> Row:
    """A thousand problems of a thousand classes, in one call and one by one."""
    rng = np.random.default_rng(0)
    risks, reference = rng.beta(1.5, 4.0, (1000, 1000)), rng.dirichlet(np.full(1000, 5.0))
    ball = KLBall(1.0)
    times = interleave(
        {
            "peer": lambda: [ball.worst_case(row, reference) for row in risks[:100]],
            "ours": lambda: ball.worst_case(risks, reference),
        },
        turns=turns,
    )
    single = times["peer"]
    scaled = Timing(10 * single.median, 10 * single.low, 10 * single.high, single.turns)
    return _row("KL ball, batch of 1,000 × 1,000 classes", "single calls", scaled, times["ours"], "≥ 1×")


def replicates() -> Row:
    """A bootstrap: 1,000 replicates × 40 radii at 1,000 classes, values alone."""
    rng = np.random.default_rng(0)
    risks, reference = rng.beta(1.5, 4.0, (1000, 1000)), rng.dirichlet(np.full(1000, 5.0))
    ball = KLBall(np.geomspace(1e-3, 4.0, 40))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = interleave({"ours": lambda: ball.value(risks[:, None, :], reference)}, turns=3)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    note = f"peak memory grew by {grown:.0f} MiB; the distributions alone would take 305 MiB"
    return _row("KL ball, 1,000 replicates × 40 radii, 1,000 classes", "–", None, times["ours"], "report", note)


def projection(turns: int) -> Row:
    """The Euclidean projection on the KL ball."""
    import cvxpy as cp

    from advshift.numerics import project_kl_ball

    rng = np.random.default_rng(0)
    point, reference = rng.dirichlet(np.ones(1000)), rng.dirichlet(np.full(1000, 5.0))
    variable, centre = cp.Variable(1000, nonneg=True), cp.Parameter(1000)
    constraints = [cp.sum(variable) == 1, cp.sum(cp.kl_div(variable, reference)) <= 0.05]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(variable - centre)), constraints)

    def solve() -> np.ndarray:
        centre.value = point
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return np.asarray(variable.value)

    mine = project_kl_ball(point, reference, 0.05).distribution
    note = f"distance of the answers {np.abs(solve() - mine).max():.1e}"
    times = interleave({"peer": solve, "ours": lambda: project_kl_ball(point, reference, 0.05)}, turns=turns)
    return _row("projection on the KL ball, 1,000 classes", "Clarabel", times["peer"], times["ours"], "≥ 30×", note)


def cases(turns: int) -> list[Callable[[], Row]]:
    """All rows, each measured when it is called."""
    return [
        lambda: against_solver("KL ball", KLBall(0.1), 1000, "≥ 100×, aim 200×", turns),
        lambda: against_solver("KL ball", KLBall(0.1), 1000, "≥ 50×", turns, "torch"),
        lambda: against_solver("KL ball", KLBall(0.1), 10_000, "≥ 200×", turns),
        lambda: against_solver("reverse-KL ball", ReverseKLBall(0.1), 1000, "report", turns),
        lambda: against_solver("chi-square ball", ChiSquareBall(0.1), 1000, "report", turns),
        lambda: against_solver("total-variation ball", TotalVariationBall(0.1), 1000, "report", turns),
        lambda: against_solver("frequency cap", FrequencyCap(2.0), 1000, "report", turns),
        lambda: radii_at_once(turns),
        lambda: projection(turns),
        lambda: batch_against_single(turns),
        lambda: a_million_classes(turns),
        replicates,
    ]


def _show(rows: list[Row]) -> Table:
    table = Table(title="The exact worst case: medians and quartiles, interleaved in one process")
    for column in COLUMNS:
        table.add_column(column)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    times = row["ratio"]
    shown = "–" if times is None else "{:.3g}× ({:.3g}–{:.3g})".format(*times)  # type: ignore[misc]
    peer_time = "–" if row["peer_time"] is None else str(row["peer_time"])
    return [
        str(row["case"]),
        str(row["peer"]),
        peer_time,
        str(row["ours"]),
        shown,
        str(row["target"]),
        str(row["note"]),
    ]


def _markdown(rows: list[Row], command: str, cores: object) -> str:
    """The table of the docs."""
    lines = [f"Medians and quartiles, in turns in one process on {cores} cores: `{command}`.", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "| --- " * len(COLUMNS) + "|"]
    return "\n".join([*lines, *["| " + " | ".join(_cells(row)) + " |" for row in rows]]) + "\n"


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--output", type=Path, default=Path("docs/results/benchmark-sets.json"))
    options = parser.parse_args()
    rows = []
    for case in cases(options.turns):
        rows.append(case())
        print(f"{len(rows):>3}  {rows[-1]['case']}", file=sys.stderr)
    packages = ("advshift", "numpy", "scipy", "torch", "cvxpy", "clarabel", "array-api-compat")
    command, machine = " ".join(["python", *sys.argv]), environment(*packages)
    save(options.output, {"command": command, "environment": machine, "rows": rows})
    options.output.with_suffix(".md").write_text(_markdown(rows, command, machine["cores"]))
    Console(width=180).print(_show(rows))


if __name__ == "__main__":
    main()
