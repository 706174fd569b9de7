"""Make the picture of a watch for the docs: a model on noisy digits, a month of predictions, a change after half of it.

python benchmarks/monitor_figure.py
"""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from advshift.monitor.request import Request
from advshift.monitor.running import watch
from advshift.monitor.settings import Settings
from advshift.report.stream_picture import plot_stream, read_log
from advshift.report.style import write_svg

EXAMPLES, CHANGE, TAKES = 8000, 4000, 1500


def predictions() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities and labels of a source, and of what the stream is drawn from."""
    images, digits = load_digits(return_X_y=True)
    images = images / 16 + np.random.default_rng(0).normal(scale=0.35, size=images.shape)
    train, rest, known, unknown = train_test_split(images, digits, test_size=0.6, random_state=0, stratify=digits)
    model = LogisticRegression(max_iter=1000).fit(train, known)
    source, pool, labels, hidden = train_test_split(rest, unknown, test_size=0.5, random_state=1, stratify=unknown)
    return model.predict_proba(source), labels, model.predict_proba(pool), hidden


def write(path: Path, first: str, rows: list[tuple[object, np.ndarray]]) -> None:
    """Write a table of probabilities with a column before them."""
    header = ",".join([first, *(f"p_{digit}" for digit in range(10))])
    lines = [",".join([str(one), *(f"{value:.5f}" for value in row)]) for one, row in rows]
    path.write_text("\n".join([header, *lines]) + "\n")


def main() -> None:
    """Write the picture in both themes."""
    source, labels, pool, hidden = predictions()
    generator = np.random.default_rng(0)
    usual, later = np.full(10, 0.1), np.where(np.isin(np.arange(10), [3, 8]), 0.34, 0.04)
    stream = []
    for place in range(EXAMPLES):
        moved = min(max(place - CHANGE, 0) / TAKES, 1.0)
        digit = generator.choice(10, p=(1 - moved) * usual + moved * later)
        row = pool[generator.choice(np.flatnonzero(hidden == digit))]
        stream.append((f"{datetime(2026, 3, 1) + timedelta(minutes=5 * place):%Y-%m-%dT%H:%M}", row))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "source.csv", "label", list(zip(labels, source, strict=True)))
        write(folder / "stream.csv", "when", stream)
        settings = Settings(every=None, period=86400.0, radius=0.2)
        log = folder / "log.jsonl"
        asked = Request(str(folder / "source.csv"), str(folder / "stream.csv"), settings, time="when", log=log)
        watch(asked)
        header, reports = read_log(log)
    images = Path(__file__).parents[1] / "docs" / "images"
    for theme in ("light", "dark"):
        write_svg(plot_stream(header, reports, theme), images / f"monitor-{theme}.svg")
    print(f"{len(reports)} reports drawn")


if __name__ == "__main__":
    main()
