"""What accuracy does a model have on data without labels? Estimates by the label mix beside the tools for covariates.

    python benchmarks/without_labels.py [--draws 50] [--output docs/results/benchmark-without-labels.json]

Three kinds of target, each drawn anew many times: a mix of the classes that moved while the classes stayed (label
shift; simulated with known posteriors, and real: handwritten digits with noise), and harder inputs while the chance of
each class given the input stayed (covariate shift, simulated). On the first two the estimates by the mix should be
right, on the last the others; so it is also said how often `shift_test` rejects label shift.

- `by the mix, auto`, `by the mix, BBSE` and `by the mix, EM`: `expected_performance` at the estimated mix.
- `average confidence`: the mean of the largest probability. `average confidence, calibrated`: the same after
  bias-corrected temperature scaling on the source.
- `ATC`: the share of the target above the threshold of confidence that the source's accuracy is above (Garg 2022).
- `difference of confidences`: the source's accuracy less the fall of the average confidence (Guillory 2021).
- `NannyML CBPE`: its own code, where `nannyml` is installed; run it in an environment of its own.

An interval is judged twice: how often it holds the mean accuracy of all draws, which is what ours claims, and how often
that of the draw itself, whose labels are a sample.
"""

from __future__ import annotations

import argparse
import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from timing import environment, save

from advshift.posthoc import expected_performance
from advshift.priors import BBSE, EM, Auto, BiasCorrectedTemperature, shift_test

Draw = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # source rows and labels, target rows and labels
MEANS = np.random.default_rng(1).normal(size=(5, 4)) * 1.6
OFTEN = np.array([0.05, 0.10, 0.15, 0.20, 0.50])


def gaussians(generator: np.random.Generator, prior: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors under the source's mix, exact, and labels drawn from another one."""
    labels = generator.choice(5, size, p=prior)
    logits = (generator.normal(size=(size, 4)) + MEANS[labels]) @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True)) * OFTEN
    return odds / odds.sum(axis=1, keepdims=True), labels


def simulated_label_shift(seed: int) -> Draw:
    """The rarest class becomes the most frequent one."""
    generator = np.random.default_rng(seed)
    return *gaussians(generator, OFTEN, 2000), *gaussians(generator, OFTEN[::-1], 1000)


def simulated_covariate_shift(seed: int) -> Draw:
    """Inputs on which the posterior is undecided become frequent, whatever their class."""
    generator = np.random.default_rng(seed)
    rows, labels = gaussians(generator, OFTEN, 20000)
    weights = (1.02 - rows.max(axis=1)) ** 0.7
    chosen = generator.choice(20000, 1000, replace=False, p=weights / weights.sum())
    return *gaussians(generator, OFTEN, 2000), rows[chosen], labels[chosen]


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    images, labels = load_digits(return_X_y=True)
    noisy = images / 16.0 + np.random.default_rng(0).normal(scale=0.4, size=images.shape)
    return cross_val_predict(LogisticRegression(max_iter=1000), noisy, labels, cv=3, method="predict_proba"), labels


def digits_label_shift(seed: int) -> Draw:
    """Two digits that are hard to tell, 8 and 1, make up most of the target."""
    generator = np.random.default_rng(seed)
    rows, labels = _digits()
    order = generator.permutation(len(labels))
    source, rest = order[:900], order[900:]
    wanted = generator.multinomial(200, np.where(np.isin(np.arange(10), [1, 8]), 0.35, 0.0375))
    chosen = np.concatenate([rest[labels[rest] == digit][:count] for digit, count in enumerate(wanted)])
    return rows[source], labels[source], rows[chosen], labels[chosen]


def by_the_mix(kind: Callable, source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """The accuracy of each class, mixed by its estimated share; with its interval."""
    found = expected_performance(kind().fit(source, labels).estimate(target), source.argmax(axis=1) == labels, labels)
    return found.value, found.low, found.high


def average_confidence(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """The mean of the largest probability."""
    return (float(target.max(axis=1).mean()),)


def calibrated_confidence(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """The same, calibrated on the source; the calibrated probability of the class that the model predicts."""
    rows = BiasCorrectedTemperature().fit(source, labels)(target)
    return (float(rows[np.arange(len(rows)), target.argmax(axis=1)].mean()),)


def thresholded_confidence(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """ATC with the largest probability as its score."""
    wrong = np.mean(source.argmax(axis=1) != labels)
    return (float(np.mean(target.max(axis=1) >= np.quantile(source.max(axis=1), wrong))),)


def difference_of_confidences(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """The accuracy on the source, less the fall of the average confidence."""
    right = np.mean(source.argmax(axis=1) == labels)
    return (float(right + target.max(axis=1).mean() - source.max(axis=1).mean()),)


def nannyml_cbpe(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """NannyML's confidence-based estimate with its own calibration, the target as one chunk; with its limits."""
    import pandas as pd
    from nannyml import CBPE

    names = {f"class{k}": f"p{k}" for k in range(source.shape[1])}

    def frame(rows: np.ndarray) -> pd.DataFrame:
        found = pd.DataFrame(rows / rows.sum(axis=1, keepdims=True), columns=list(names.values()))
        return found.assign(guess=[f"class{k}" for k in rows.argmax(axis=1)])

    estimator = CBPE(
        metrics=["accuracy"],
        y_pred_proba=names,
        y_pred="guess",
        y_true="truth",
        problem_type="classification_multiclass",
        chunk_number=1,
    )
    reference = frame(source).assign(truth=[f"class{k}" for k in labels])
    found = estimator.fit(reference).estimate(frame(target)).to_df()["accuracy"].iloc[-1]
    return float(found["value"]), float(found["lower_confidence_boundary"]), float(found["upper_confidence_boundary"])


METHODS: dict[str, Callable[..., tuple[float, ...]]] = {
    "by the mix, auto": functools.partial(by_the_mix, Auto),
    "by the mix, BBSE": functools.partial(by_the_mix, BBSE),
    "by the mix, EM": functools.partial(by_the_mix, lambda: EM(calibration="bcts")),
    "average confidence": average_confidence,
    "average confidence, calibrated": calibrated_confidence,
    "ATC": thresholded_confidence,
    "difference of confidences": difference_of_confidences,
}
TARGETS: dict[str, Callable[[int], Draw]] = {
    "simulated label shift": simulated_label_shift,
    "digits, label shift": digits_label_shift,
    "simulated covariate shift": simulated_covariate_shift,
}


def methods() -> dict[str, Callable[..., tuple[float, ...]]]:
    """Ours and the shortcuts, and the peer where it is installed; it is told to report nothing to its makers."""
    os.environ.setdefault("NML_DISABLE_USAGE_LOGGING", "1")
    try:
        import nannyml  # noqa: F401
    except ImportError:
        return METHODS
    return METHODS | {"NannyML CBPE": nannyml_cbpe}


def compare(target: str, draws: int) -> dict[str, object]:
    """Every method on the same draws: its mean, its mean absolute error, how often its interval holds the truth."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in methods()}
    truths, sources, p_values = [], [], []
    for seed in range(draws):
        source, labels, rows, hidden = TARGETS[target](seed)
        truths.append(float(np.mean(rows.argmax(axis=1) == hidden)))
        sources.append(float(np.mean(source.argmax(axis=1) == labels)))
        p_values.append(shift_test(source, labels, rows, method="chi-square").p_value)
        for name, method in methods().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name].append(method(source, labels, rows))
    rows_ = {name: _summary(estimates, np.array(truths)) for name, estimates in found.items()}
    return {
        "target": target,
        "draws": draws,
        "accuracy_on_source": float(np.mean(sources)),
        "accuracy_on_target": float(np.mean(truths)),
        "label_shift_rejected_at_5_percent": float(np.mean(np.array(p_values) <= 0.05)),
        "methods": rows_,
    }


def _summary(estimates: list[tuple[float, ...]], truths: np.ndarray) -> dict[str, float]:
    values = np.array([one[0] for one in estimates])
    errors = np.abs(values - truths)
    summary = {
        "estimate": float(values.mean()),
        "absolute_error": float(errors.mean()),
        "absolute_error_standard_error": float(errors.std(ddof=1) / np.sqrt(len(errors))),
    }
    if len(estimates[0]) == 3:
        low, high = (np.array([one[k] for one in estimates]) for k in (1, 2))
        summary["holds_expected"] = float(np.mean((low <= truths.mean()) & (truths.mean() <= high)))
        summary["holds_drawn"] = float(np.mean((low <= truths) & (truths <= high)))
    return summary


def show(record: dict, console: Console) -> None:
    """Print one target's table."""
    title = (
        f"{record['target']}: accuracy {record['accuracy_on_source']:.4f} on the source, "
        f"{record['accuracy_on_target']:.4f} on the target; label shift rejected in "
        f"{record['label_shift_rejected_at_5_percent']:.0%} of {record['draws']} draws"
    )
    table = Table("method", "mean estimate", "mean |error|", "holds the mean", "holds the draw's", title=title)
    for name, row in sorted(record["methods"].items(), key=lambda item: item[1]["absolute_error"]):
        holds = [f"{row[key]:.0%}" if key in row else "" for key in ("holds_expected", "holds_drawn")]
        table.add_row(name, f"{row['estimate']:.4f}", f"{row['absolute_error']:.4f}", *holds)
    console.print(table)


def main() -> None:
    """Compare on every target, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    records = [compare(target, arguments.draws) for target in TARGETS]
    console = Console()
    for record in records:
        show(record, console)
    peers = ("nannyml",) if "NannyML CBPE" in methods() else ()
    if arguments.output:
        save(arguments.output, {"targets": records, "environment": environment("numpy", "scipy", *peers)})


if __name__ == "__main__":
    main()
