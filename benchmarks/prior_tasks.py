"""Labelled predictions to estimate label distributions on, and the draws that a benchmark makes from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["TASKS", "Draw", "Task", "draws_of", "gaussians"]

FIRST_SEED = 200_000  # the recommended estimator was developed on draws of other seeds


class Task(NamedTuple):
    """Probabilities and labels, how many of them are the labelled source, and the sizes of the targets.

    `apart` rows at the start may only serve as source and the others only as target; 0 where all may be either.
    """

    rows: np.ndarray
    labels: np.ndarray
    held: int
    sizes: tuple[int, ...]
    apart: int = 0


class Draw(NamedTuple):
    """A labelled source, and per size an unlabelled target with the label frequencies that it has."""

    source: np.ndarray
    labels: np.ndarray
    targets: dict[int, tuple[np.ndarray, np.ndarray]]


def digits(_: Path | None) -> Task:
    """Cross-validated probabilities of a logistic regression on noisy digits."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    images, labels = load_digits(return_X_y=True)
    noisy = images / 16.0 + np.random.default_rng(0).normal(scale=0.4, size=images.shape)
    rows = cross_val_predict(LogisticRegression(max_iter=1000), noisy, labels, cv=3, method="predict_proba")
    return Task(rows, labels, 900, (50, 100, 200, 400, 900))


def reuters(data: Path | None) -> Task:
    """TF-IDF and logistic regression, cross-fitted on halves of Reuters-52; the rarest topics have three stories."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    stories = [json.loads(line) for line in (_given(data) / "reuters52.jsonl").read_text().splitlines()]
    labels = np.unique([story["y"] for story in stories], return_inverse=True)[1]
    features = TfidfVectorizer(min_df=3, sublinear_tf=True).fit_transform([story["text"] for story in stories])
    model = LogisticRegression(C=20.0, max_iter=300)
    rows = cross_val_predict(model, features, labels, cv=2, method="predict_proba")
    return Task(rows, labels, 1500, (100, 200, 500, 2000))


def logits(data: Path | None) -> Task:
    """A network's logits: `validation.npz` serves as source, `test.npz` as target; each has `logits` and `labels`."""
    rows, labels, counts = [], [], []
    for name in ("validation", "test"):
        with np.load(_given(data) / f"{name}.npz", allow_pickle=False) as stored:
            scores = stored["logits"].astype(np.float64)
            labels.append(stored["labels"].astype(np.int64))
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        rows.append(odds / odds.sum(axis=1, keepdims=True))
        counts.append(len(scores))
    held = 4 * counts[0] // 5
    return Task(np.concatenate(rows), np.concatenate(labels), held, (200, 500, 2000, 5000), apart=counts[0])


def simulated(_: Path | None, classes: int = 1000, size: int = 30000) -> Task:
    """The exact posterior of a thousand classes with orthogonal means, 90 % right."""
    rows, labels = gaussians(np.random.default_rng(0), np.full(classes, 1.0 / classes), size)
    return Task(rows, labels, 10000, (2000,))


TASKS: dict[str, Callable[[Path | None], Task]] = {
    "digits": digits,
    "reuters": reuters,
    "logits": logits,
    "simulated": simulated,
}


def _given(data: Path | None) -> Path:
    if data is None:
        raise SystemExit("this task needs --data DIR, the folder of its files")
    return data


def gaussians(generator: np.random.Generator, prior: np.ndarray, size: int, distance: float = 4.5) -> tuple:
    """Probabilities under equal shares of classes `distance·√2` apart, and the labels."""
    labels = generator.choice(len(prior), size, p=prior)
    labels[: len(prior)] = np.arange(len(prior))
    scores = generator.standard_normal((size, len(prior)))
    scores[np.arange(size), labels] += distance
    scores *= distance
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores, labels


def draws_of(task: Task, number: int) -> Draw:
    """A source with every class in it, and targets from the rest with one new label distribution."""
    generator = np.random.default_rng(FIRST_SEED + number)
    order = generator.permutation(task.apart or len(task.labels))
    first = np.unique(task.labels[order], return_index=True)[1]
    order = order[np.concatenate([first, np.setdiff1d(np.arange(len(order)), first)])]
    source = order[: task.held]
    rest = np.arange(task.apart, len(task.labels)) if task.apart else order[task.held :]
    rest = rest[np.argsort(task.labels[rest], kind="stable")]
    counts = np.bincount(task.labels[rest], minlength=task.rows.shape[1])
    groups = np.split(rest, np.cumsum(counts)[:-1])
    prior = _shifted(generator, counts / len(rest), number)
    targets = {}
    for size in task.sizes:
        wanted = generator.multinomial(size, prior)
        chosen = [generator.choice(group, count) for group, count in zip(groups, wanted, strict=True) if count]
        targets[size] = (task.rows[np.concatenate(chosen)], wanted / size)
    return Draw(task.rows[source], task.labels[source], targets)


def _shifted(generator: np.random.Generator, share: np.ndarray, number: int) -> np.ndarray:
    """In turn: Dirichlet(1), four tenths more of one class, and half of the classes ten times rarer."""
    classes = len(share)
    if number % 3 == 0:
        prior = generator.dirichlet(np.ones(classes))
    elif number % 3 == 1:
        prior = 0.6 * share + 0.4 * np.eye(classes)[int(generator.choice(np.flatnonzero(share)))]
    else:
        prior = share * np.where(generator.random(classes) < 0.5, 0.1, 1.0)
    prior = prior * (share > 0)
    return prior / prior.sum()
