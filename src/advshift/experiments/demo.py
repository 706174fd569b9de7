"""The demo: two real models trained by the engine in seconds, and how bad each can get.

scikit-learn's handwritten digits are made long-tailed for training: the digit 0 keeps all of its training images, the
digit 9 a twentieth. One linear model is trained as usual (`digits-erm`), one against the paper's adversary
(`digits-advshift`). Both are judged on the same held-out images, by the class mix of the training data and of
everything around it.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from advshift.audit.request import Audited, Request, audit_files
from advshift.errors import require
from advshift.files import check_writable, write_atomically
from advshift.report import plot, write_html
from advshift.report.style import THEMES

__all__ = ["MODELS", "run_demo"]

MODELS: Mapping[str, str] = {"erm": "digits-erm", "advshift": "digits-advshift"}  # and the recipes


def run_demo(folder: Path, seed: int, say: Callable[[str], None] = lambda sentence: None) -> Audited:
    """Train both models, write what they predict, audit the files, and draw the report.

    Parameters
    ----------
    folder
        Where runs, predictions, record, pictures and report go; created if it is not there.
    seed
        Sets the split, the training and the audit's folds.
    say
        Is told what goes on.
    """
    require("sklearn", "the demo", "demo")
    require("torch", "the demo", "demo")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "audit.json"):
        check_writable(folder / name)
    for name, recipe in MODELS.items():
        say(f"training a linear model on handwritten digits with a long tail, by the recipe {recipe}")
        _train(recipe, folder / "runs" / name, seed)
        _write_table(folder / f"{name}.csv", folder / "runs" / name / "predictions" / "test.npz")
    mix = folder / "training-mix.csv"
    write_atomically(mix, (folder / "runs" / "erm" / "training-mix.csv").read_bytes())
    say("auditing both on the held-out images")
    return _audit(folder, mix, seed)


def _train(recipe: str, run: Path, seed: int) -> None:
    from advshift.training import load_recipe, train

    if (run / "run.json").exists():  # of an earlier demo
        shutil.rmtree(run)
    train(load_recipe(recipe, [f"seed={seed}", f"data.split_seed={seed}", "evaluate.every=10"]), run)


def _write_table(path: Path, predictions: Path) -> None:
    """Write predictions as a table that a person can read, too."""
    with np.load(predictions) as found:
        rows = zip(found["ids"].tolist(), found["labels"].tolist(), found["predictions"].tolist(), strict=True)
        lines: list[tuple[Any, ...]] = [("id", "label", "prediction"), *rows]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_atomically(path, text.getvalue())


def _audit(folder: Path, mix: Path, seed: int) -> Audited:
    files = [str(folder / f"{name}.csv") for name in MODELS]
    command = " ".join(["advshift audit", *files, "--reference", str(mix)])
    found = audit_files(Request(files=files, reference=str(mix), seed=seed, command=command))
    found.record.write(folder / "audit.json")
    write_html(found.record, folder / "report.html")
    for theme in THEMES:
        picture = io.BytesIO()
        plot(found.record, theme).savefig(picture, format="png", dpi=120)
        write_atomically(folder / f"picture-{theme}.png", picture.getvalue())
    return found
