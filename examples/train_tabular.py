"""Train a small network on a table with micro-batches; the adversary weighs the sites, not the classes.

    python examples/train_tabular.py --epochs 20 --output sites.html

The table is scikit-learn's breast cancer data. It names no hospital, so a stand-in for the site is made: the mean
texture in four bins of unequal size. One run weighs the classes, one the sites (`groups=`), beside `erm`. Gradients are
accumulated over micro-batches, and the attached adversary moves once per step of the optimiser. Errors are audited
twice: when the mix of the classes moves, and when that of the sites does. Rare sites have few held-out rows: look at
the intervals of the differences, and at other seeds, before you prefer a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import advshift
from advshift import AuditResult, RobustObjective

RADIUS = 0.3  # of training
RADII = [0.1, RADIUS, 1.0]  # of the audits
PARTS = 4  # micro-batches per step


def train(objective: RobustObjective, columns: Sequence[torch.Tensor], epochs: int, seed: int) -> torch.nn.Module:
    """Train on features, labels and perhaps groups; each step adds up the gradients of several micro-batches."""
    torch.manual_seed(seed)
    x, y, *groups = columns
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    objective.attach(optimizer)
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            for part in batch.chunk(PARTS):
                loss = objective(model(x[part]), y[part], groups=groups[0][part] if groups else None)
                (loss * len(part) / len(batch)).backward()
            optimizer.step()  # moves the adversary too, on all parts
    return model.eval()


def show(title: str, result: AuditResult) -> None:
    """Print the worst-case errors side by side, and the differences from the first model with their intervals."""
    record = result.record
    print(f"\n{title}\n{'model':<12}{'average':>9}{'r=0.1':>9}{f'r={RADIUS}':>9}{'r=1':>9}")
    for model in record.models:
        print(f"{model.name:<12}{model.average:>9.3f}" + "".join(f"{point.plug_in:>9.3f}" for point in model.curve))
    for one in record.comparisons:
        if one.radius == RADIUS and one.first == "erm":
            interval = f"[{one.lower:+.3f}, {one.upper:+.3f}]"
            print(f"{one.second} less {one.first}, r={RADIUS}: {one.difference:+.3f} {interval}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, audit by class and by site, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="where to save the audit by site as HTML")
    options = parser.parse_args(arguments)
    table, labels = load_breast_cancer(return_X_y=True)
    sites = np.digitize(table[:, 1], np.quantile(table[:, 1], [0.5, 0.8, 0.93]))
    rows, strata = np.arange(len(labels)), labels * 4 + sites
    seen, held_out = train_test_split(rows, test_size=0.5, stratify=strata, random_state=options.seed)
    features = np.delete(table, 1, axis=1)  # the networks do not see what made the sites
    scaled = ((features - features[seen].mean(0)) / features[seen].std(0)).astype(np.float32)
    x, y, site = (torch.from_numpy(column[seen]) for column in (scaled, labels, sites))
    class_counts, site_counts = torch.bincount(y).tolist(), torch.bincount(site).tolist()
    print(f"training rows per class: {class_counts}, per site: {site_counts}")
    runs = {
        "erm": (RobustObjective("erm", class_counts=class_counts), (x, y)),
        "classes": (RobustObjective("advshift", class_counts=class_counts, radius=RADIUS, step_size=0.1), (x, y)),
        "sites": (RobustObjective("exact", num_groups=4, class_counts=site_counts, radius=RADIUS), (x, y, site)),
    }
    predictions = {}
    for name, (objective, columns) in runs.items():
        model = train(objective, columns, options.epochs, options.seed)
        predictions[name] = model(torch.from_numpy(scaled[held_out])).argmax(1).numpy()
        print(f"{name}: the adversary ended at {[round(share, 3) for share in objective.distribution.tolist()]}")
    predictions["largest"] = np.full(len(held_out), np.argmax(class_counts))  # the floor: always the largest class
    by_class = advshift.audit(labels[held_out], predictions, dict(enumerate(class_counts)), set="kl", radii=RADII)
    show("errors when the mix of classes moves", by_class)
    errors = {name: (guess != labels[held_out]).astype(float) for name, guess in predictions.items()}
    reference = dict(enumerate(site_counts))
    by_site = advshift.audit(sites[held_out], losses=errors, reference=reference, bounds=(0, 1), set="kl", radii=RADII)
    show("errors when the mix of sites moves", by_site)
    if options.output:
        by_site.to_html(options.output)


if __name__ == "__main__":
    main()
