"""Draw the pictures of the page on estimating, from handwritten digits whose mix is shifted.

    python docs/make_estimating_figures.py

The data are those of the page: cross-validated probabilities of a logistic regression on noisy digits, 900 of them with
labels as the source, and a target without labels in which 3 and 8 are frequent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from advshift.audit.readers.outputs import Outputs
from advshift.estimation import EstimateRecord, Question, assemble, corrected_probabilities
from advshift.posthoc import confidence_ball
from advshift.priors import Auto
from advshift.report.estimate_pictures import draw_accuracy, draw_fit, draw_mix
from advshift.report.style import THEMES, Theme, figure, finish, log_axis, percent_axis, series, write_svg

SIZES = (30, 60, 120, 290)
DRAWS = 20
DIGITS = tuple(range(10))


@functools.cache
def probabilities() -> tuple[np.ndarray, np.ndarray]:
    """What a model says of every digit when it was fitted on others, and the digits."""
    images, digits = load_digits(return_X_y=True)
    images = images / 16 + np.random.default_rng(0).normal(scale=0.4, size=images.shape)
    return cross_val_predict(LogisticRegression(max_iter=500), images, digits, cv=3, method="predict_proba"), digits


def sides(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The labelled source, and the target with the labels that nobody has."""
    rows, digits = probabilities()
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(digits))
    source, rest = order[:900], order[900:]
    wanted = np.where(np.isin(DIGITS, [3, 8]), 85, 15)
    target = generator.permutation(np.concatenate([rest[digits[rest] == k][: wanted[k]] for k in DIGITS]))
    return rows[source], digits[source], rows[target], digits[target]


def record(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> EstimateRecord:
    """The record that the command would save."""
    left, right = Outputs("source.csv", DIGITS, source, labels), Outputs("target.csv", DIGITS, target)
    return assemble(left, right, Question())


def answer(theme: Theme) -> object:
    """The mix and the accuracies."""
    source, labels, target, hidden = sides(1)
    found = record(source, labels, target)
    made, axes = figure(theme, 2)
    draw_mix(axes[0], found, theme)
    truth = np.bincount(hidden, minlength=10) / len(hidden)
    look = {"marker": "x", "markersize": 7, "markeredgewidth": 2, "color": series(theme, 1).colour}
    axes[0].plot(truth, np.arange(10)[::-1], linestyle="none", label="target, true", **look)
    axes[0].legend(frameon=False, labelcolor=theme.ink, fontsize=9)
    draw_accuracy(axes[1], found, theme)
    corrected = corrected_probabilities(found, Outputs("target.csv", DIGITS, target))
    right = [np.mean(rows.argmax(axis=1) == hidden) for rows in (target, corrected)]
    axes[1].plot(right, [2, 1], linestyle="none", label="true", **look)
    axes[1].legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="upper right")
    return made


def alarm(theme: Theme) -> object:
    """The same target, and one that holds something else."""
    source, labels, target, _ = sides(1)
    broken = target.copy()
    broken[:90] = 0.05 + 0.5 * np.eye(10)[5]
    made, axes = figure(theme, 2)
    for one, rows, title in zip(axes, (target, broken), ("only the mix has moved", "something new"), strict=True):
        found = record(source, labels, rows)
        draw_fit(one, found, theme)
        one.set_title(f"{title}: p = {found.shift_test.p_value:.2g}", color=theme.ink, loc="left", fontsize=12)
    return made


def sizes() -> dict[str, np.ndarray]:
    """The error at the estimate and the worst one in its ball, for targets of several sizes; quartiles over draws."""
    plain, worst, true = [], [], []
    for seed in range(DRAWS):
        source, labels, target, hidden = sides(seed)
        wrong = source.argmax(axis=1) != labels
        risks = np.array([wrong[labels == k].mean() for k in DIGITS])
        estimator = Auto().fit(source, labels)
        estimates = [estimator.estimate(target[:size]) for size in SIZES]
        plain.append([estimate.prior @ risks for estimate in estimates])
        worst.append([confidence_ball(estimate).worst_case(risks).value for estimate in estimates])
        true.append(float(np.bincount(hidden, minlength=10) / len(hidden) @ risks))
    bands = {"at the estimate": np.array(plain), "worst in the ball": np.array(worst)}
    return {name: np.quantile(values, [0.25, 0.5, 0.75], axis=0) for name, values in bands.items()} | {
        "at the true mix": np.full((3, len(SIZES)), np.mean(true))
    }


def ball(theme: Theme, found: dict[str, np.ndarray]) -> object:
    """How the worst case comes down to the truth as the target grows."""
    made, (axes,) = figure(theme)
    for number, (name, (low, middle, high)) in enumerate(found.items()):
        look = series(theme, number)
        axes.plot(SIZES, middle, color=look.colour, linestyle=look.line, marker=look.marker, markersize=4, label=name)
        axes.fill_between(SIZES, low, high, color=look.colour, alpha=0.2, linewidth=0)
    log_axis(axes)
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    percent_axis(axes.yaxis)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9)
    finish(axes, theme, x="unlabelled target examples", y="error")
    return made


def main() -> None:
    """Write every picture in both themes."""
    folder = Path(__file__).parent / "images"
    found = sizes()
    pictures: dict[str, Callable[[Theme], Figure]] = {
        "answer": answer,
        "alarm": alarm,
        "ball": lambda theme: ball(theme, found),
    }
    for name, draw in pictures.items():
        for theme_name, theme in THEMES.items():
            write_svg(draw(theme), folder / f"estimating-{name}-{theme_name}.svg")
    print(f"{2 * len(pictures)} pictures in {folder}")


if __name__ == "__main__":
    main()
