"""Estimators of the label distribution at size: EM to a point near the maximum, BBSE and RLLS in bounded memory."""

from __future__ import annotations

import resource
import time
import tracemalloc
import warnings

import numpy as np
from prior_tasks import gaussians

from advshift.priors import BBSE, RLLS, Auto
from advshift.priors.mixture import Mixture, maximise_mixture

__all__ = ["moments", "speed"]

TIMED = 12  # QuaPy's steps that are timed
MOMENTS = {
    "bbse-soft": lambda: BBSE(covariance="none"),
    "bbse-hard": lambda: BBSE(predictions="hard", covariance="none"),
    "rlls": lambda: RLLS(covariance="none"),
    "bbse-soft with covariance": BBSE,
    "rlls with covariance": RLLS,
    "auto": lambda: Auto(covariance="none"),
}


class _Clocked(Mixture):
    """The same objective, with the value and the time of every pass."""

    def __init__(self, *arguments: np.ndarray) -> None:
        super().__init__(*arguments)
        self.trace: list[tuple[float, float]] = []
        self.begin = time.perf_counter()

    def evaluate(self, prior: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate, and write down when and what."""
        found = super().evaluate(prior)
        self.trace.append((time.perf_counter() - self.begin, found[0]))
        return found


def speed(size: int, classes: int, distance: float, turns: int) -> dict[str, object]:
    """Seconds of EM to a point near the maximum, ours and QuaPy's in turns: medians, and the range over the turns."""
    generator = np.random.default_rng(0)
    uniform = np.full(classes, 1.0 / classes)
    target, _ = gaussians(generator, generator.dirichlet(np.ones(classes)), size, distance)
    best = maximise_mixture(Mixture(target, uniform), uniform, tolerance=1e-11)
    goal = best.value - 1e-8 * abs(best.value)
    steps = _steps(target, uniform, goal)
    rounds = [_ours(target, uniform, goal) | _quapy(target, uniform, steps) for _ in range(turns)]
    record: dict[str, object] = {"size": size, "classes": classes, "distance": distance, "turns": turns}
    record |= {"log_likelihood": best.value, "quapy_steps_to_goal": steps}
    for name in rounds[0]:
        seconds = [single[name] for single in rounds]
        record[name] = {"median": float(np.median(seconds)), "low": min(seconds), "high": max(seconds)}
    if "quapy_to_goal" in rounds[0]:
        ratios = [single["quapy_to_goal"] / single["ours_to_goal"] for single in rounds]
        record["ratio_to_goal"] = {"median": float(np.median(ratios)), "low": min(ratios), "high": max(ratios)}
    return record


def _ours(target: np.ndarray, uniform: np.ndarray, goal: float) -> dict[str, float]:
    clocked = _Clocked(target, uniform)
    fit = maximise_mixture(clocked, uniform)
    whole = time.perf_counter() - clocked.begin
    reached = next(when for when, value in clocked.trace if value >= goal)
    return {"ours_to_goal": reached, "ours_to_certificate": whole, "ours_passes": float(fit.iterations)}


def _steps(target: np.ndarray, uniform: np.ndarray, goal: float) -> int:
    """How many steps of plain EM from the source's distribution reach the goal."""
    mixture, prior = Mixture(target, uniform), uniform
    for step in range(5000):
        value, gradient = mixture.evaluate(prior)
        if value >= goal:
            return step
        prior = prior * gradient
    return 5000


def _quapy(target: np.ndarray, uniform: np.ndarray, steps: int) -> dict[str, float]:
    """QuaPy's iteration to its own stop, and at most `TIMED` of its steps, which all cost the same."""
    try:
        from quapy.method.aggregative import EMQ
    except ImportError:
        return {}
    begin = time.perf_counter()
    EMQ.EM(uniform, target)
    default = time.perf_counter() - begin
    timed = min(steps, TIMED)
    kept, EMQ.MAX_ITER = EMQ.MAX_ITER, timed
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        EMQ.EM(uniform, target, epsilon=-1.0)
    took = time.perf_counter() - begin
    EMQ.MAX_ITER = kept
    return {"quapy_default_stop": default, "quapy_to_goal": took * steps / timed}


def moments(size: int, classes: int) -> list[dict[str, object]]:
    """Seconds, and memory beside the two tables of probabilities, of fitting and estimating together."""
    generator = np.random.default_rng(1)
    source, labels = gaussians(generator, np.full(classes, 1.0 / classes), size)
    target, _ = gaussians(generator, generator.dirichlet(np.ones(classes)), size)
    found = []
    for name, make in MOMENTS.items():
        begin = time.perf_counter()
        estimate = make().fit(source, labels).estimate(target)
        took = time.perf_counter() - begin
        tracemalloc.start()
        make().fit(source, labels).estimate(target)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        found.append({"method": name, "seconds": took, "extra_mib": peak, "converged": estimate.converged})
    tables = (source.nbytes + target.nbytes) / 2**20
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return [*found, {"tables_mib": tables, "process_peak_mib": whole}]
