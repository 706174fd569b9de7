"""Tell from a paragraph of documentation which package it comes from; compare two adversaries.

    python examples/train_text.py --epochs 10 --output text.html

The texts are the docstrings of packages of Python's standard library, cut into paragraphs: real text that is on every
machine and has a long tail by itself. TF-IDF and a linear model are trained with `advshift` and with `group-dro`, which
knows no ball, beside `erm`. Held-out paragraphs have the mix of training, so that small classes have few examples
there: read the intervals of the differences, not the order of the worst cases. Even those know the held-out examples
only, not the luck of training: try other seeds.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

import advshift
from advshift import RobustObjective

PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "importlib", "json", "logging", "urllib", "xml")
RADIUS = 0.3


def paragraphs(package: str) -> set[str]:
    """All paragraphs of at least six words in the docstrings of a package, without loading it."""
    found: set[str] = set()
    spec = importlib.util.find_spec(package)
    for file in Path(str(spec and spec.origin)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.update(re.split(r"\n\s*\n", ast.get_docstring(node) or ""))
    return {text for text in found if len(text.split()) >= 6}


def train(objective: RobustObjective, x: torch.Tensor, y: torch.Tensor, epochs: int, seed: int) -> torch.nn.Module:
    """Train a linear model; the call of the objective moves the adversary."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(x.shape[1], objective.members)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            objective(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, train, audit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="where to save the audit as HTML")
    options = parser.parse_args(arguments)
    pairs = [(text, label) for label, name in enumerate(PACKAGES) for text in sorted(paragraphs(name))]
    texts, labels = [text for text, _ in pairs], np.array([label for _, label in pairs])
    seen, held_out = train_test_split(np.arange(len(texts)), test_size=0.4, stratify=labels, random_state=options.seed)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=3, max_features=2000, dtype=np.float32)
    x = torch.from_numpy(vectorizer.fit_transform([texts[row] for row in seen]).toarray())
    unseen = torch.from_numpy(vectorizer.transform([texts[row] for row in held_out]).toarray())
    counts = np.bincount(labels[seen])
    print("training paragraphs:", ", ".join(f"{name} {count}" for name, count in zip(PACKAGES, counts, strict=True)))
    objectives = {
        "erm": RobustObjective("erm", class_counts=counts),
        "advshift": RobustObjective("advshift", class_counts=counts, radius=RADIUS, step_size=0.1),  # few steps
        "group-dro": RobustObjective("group-dro", class_counts=counts),
    }
    guesses = {}
    for name, objective in objectives.items():
        model = train(objective, x, torch.from_numpy(labels[seen]), options.epochs, options.seed)
        guesses[name] = model(unseen).argmax(1).numpy()
    guesses["largest"] = np.full(len(held_out), counts.argmax())  # the floor: always the largest class
    named = {name: np.array(PACKAGES)[guess] for name, guess in guesses.items()}
    reference = dict(zip(PACKAGES, counts.tolist(), strict=True))
    result = advshift.audit(np.array(PACKAGES)[labels[held_out]], named, reference, set="kl", radii=[0.1, RADIUS, 1])
    print(f"{'model':<12}{'average':>9}{'r=0.1':>9}{f'r={RADIUS}':>9}{'r=1':>9}  worst class")
    for audited in result.record.models:
        curve = "".join(f"{point.plug_in:>9.3f}" for point in audited.curve)
        worst = audited.worst_class.label if audited.worst_class else ""
        print(f"{audited.name:<12}{audited.average:>9.3f}{curve}  {worst}")
    for one in result.record.comparisons:
        if one.radius == RADIUS and one.first == "erm":
            interval = f"[{one.lower:+.3f}, {one.upper:+.3f}]"
            print(f"{one.second} less {one.first}, r={RADIUS}: {one.difference:+.3f} {interval}")
    if options.output:
        result.to_html(options.output)


if __name__ == "__main__":
    main()
