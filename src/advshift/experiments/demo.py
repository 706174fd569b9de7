"""The demo: two real models in seconds, and how bad each can get.

scikit-learn's handwritten digits are made long-tailed for training: the digit 0 keeps all of its training images, the
digit 9 a twentieth. One logistic regression is trained as usual, one with the classes weighted to count alike. Both are
judged on the same held-out images, by the class mix of the training data and of everything around it.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from advshift.audit.request import Audited, Request, audit_files
from advshift.errors import require
from advshift.files import check_writable, write_atomically
from advshift.report import plot, write_html
from advshift.report.style import THEMES

__all__ = ["MODELS", "Digits", "long_tailed_digits", "run_demo"]

IMBALANCE = 20.0  # how many times the rarest digit's training images the most frequent one has
MODELS: dict[str, dict[str, Any]] = {"plain": {}, "balanced": {"class_weight": "balanced"}}


class Digits(NamedTuple):
    """Training images with a long tail, and held-out images without."""

    train_images: Float[np.ndarray, "train pixels"]
    train_labels: Int[np.ndarray, " train"]
    test_images: Float[np.ndarray, "test pixels"]
    test_labels: Int[np.ndarray, " test"]


def long_tailed_digits(seed: int) -> Digits:
    """Split the digits in halves, stratified, and thin the training half to an exponential profile."""
    require("sklearn", "the demo", "demo")
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(np.flatnonzero(train_y == digit))[: _share(digit, train_y)] for digit in range(10)]
    rows = np.sort(np.concatenate(kept))
    return Digits(train_x[rows], train_y[rows], test_x, test_y)


def _share(digit: int, labels: Int[np.ndarray, " train"]) -> int:
    available = int((labels == digit).sum())
    kept: float = available * IMBALANCE ** (-digit / 9.0)
    return max(1, round(kept))


def run_demo(folder: Path, seed: int) -> Audited:
    """Train both models, write what they predict, audit the files, and draw the report.

    Parameters
    ----------
    folder
        Where predictions, record, pictures and report go; created if it is not there.
    seed
        Sets the split, the thinning and the audit's folds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "audit.json"):
        check_writable(folder / name)
    digits = long_tailed_digits(seed)
    for name, options in MODELS.items():
        _write_table(folder / f"{name}.csv", _predictions(digits, options))
    _write_table(folder / "training-mix.csv", _mix(digits.train_labels))
    files = [str(folder / f"{name}.csv") for name in MODELS]
    mix = str(folder / "training-mix.csv")
    command = " ".join(["advshift audit", *files, "--reference", mix])
    found = audit_files(Request(files=files, reference=mix, seed=seed, command=command))
    found.record.write(folder / "audit.json")
    write_html(found.record, folder / "report.html")
    for theme in THEMES:
        picture = io.BytesIO()
        plot(found.record, theme).savefig(picture, format="png", dpi=120)
        write_atomically(folder / f"picture-{theme}.png", picture.getvalue())
    return found


def _predictions(digits: Digits, options: dict[str, Any]) -> list[dict[str, object]]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=2000, **options).fit(digits.train_images, digits.train_labels)
    predicted = model.predict(digits.test_images)
    pairs = zip(digits.test_labels, predicted, strict=True)
    return [{"id": row, "label": int(label), "prediction": int(guess)} for row, (label, guess) in enumerate(pairs)]


def _mix(labels: Int[np.ndarray, " train"]) -> list[dict[str, object]]:
    return [{"class": digit, "count": int((labels == digit).sum())} for digit in range(10)]


def _write_table(path: Path, rows: list[dict[str, object]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())
