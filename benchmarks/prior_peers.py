"""What QuaPy, abstention and mlquantify offer on probabilities that are there already, each with its own defaults.

A peer is a function of the labelled source that returns a function of the target. Above `MOST_SLOW` classes those are
left out that take seconds to minutes a draw and came out far behind on trial draws, or that repeat another package's
method; above `MOST_CLASSES` those that need hours, or an array of examples × classes × classes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["Estimate", "peers"]

Estimate = Callable[[np.ndarray], np.ndarray]
MOST_CLASSES = 200
MOST_SLOW = 20


def peers(source: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], Estimate]]:
    """Every peer that is installed and can cope with so many classes; calling one fits it."""
    found: dict[str, Callable[[], Estimate]] = {}
    for package in (_quapy, _abstention, _mlquantify):
        try:
            found |= package(source, labels)
        except ImportError:
            continue
    return found


def _quapy(source: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], Estimate]]:
    from quapy.method.aggregative import ACC, EMQ, PACC

    classes = source.shape[1]
    names, share = np.arange(classes), np.bincount(labels, minlength=classes) / len(labels)
    found: dict[str, Callable[[], Estimate]] = {"quapy EMQ": lambda: lambda target: EMQ.EM(share, target)[0]}
    if classes > MOST_CLASSES:
        return found

    def adjusted(kind: type, outputs: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        from quapy import functional

        rates = kind.getPteCondEstim(names, labels, outputs(source))

        def estimate(target: np.ndarray) -> np.ndarray:
            given = outputs(target)
            mean = given.mean(axis=0) if given.ndim == 2 else np.bincount(given, minlength=classes) / len(given)
            solved = ACC.solve_adjustment(rates, mean, method="inversion", solver="minimize")
            return functional.normalize_prevalence(solved, method="clip")

        return estimate

    found["quapy PACC"] = lambda: adjusted(PACC, lambda rows: rows)
    for name, calibrator in _calibrators(classes).items():
        found[f"quapy EMQ-{name}"] = lambda calibrator=calibrator: _calibrated_em(calibrator, source, labels)
    if classes <= MOST_SLOW:
        found["quapy ACC"] = lambda: adjusted(ACC, lambda rows: rows.argmax(axis=1))
        found["quapy KDEy-ML"] = lambda: _kernel_densities(source, labels)
    return found


def _calibrators(classes: int) -> dict[str, object]:
    from abstention import calibration

    found = {
        "TS": calibration.TempScaling(),
        "BCTS": calibration.TempScaling(bias_positions="all"),
        "NBVS": calibration.NoBiasVectorScaling(),
    }
    return found | ({"VS": calibration.VectorScaling()} if classes <= MOST_SLOW else {})


def _calibrated_em(calibrator: object, source: np.ndarray, labels: np.ndarray) -> Estimate:
    """As QuaPy does it with `exact_train_prev=False`: the mean calibrated probability is the source's distribution."""
    from quapy.method.aggregative import EMQ

    fitted = calibrator(source, np.eye(source.shape[1])[labels], posterior_supplied=True)
    mean = fitted(source).mean(axis=0)
    return lambda target: EMQ.EM(mean, fitted(target))[0]


def _kernel_densities(source: np.ndarray, labels: np.ndarray) -> Estimate:
    from quapy.method.aggregative import KDEyML

    model = KDEyML.__new__(KDEyML)  # its constructor wants a classifier
    model.kernel, model.shrinkage, model.random_state = "gaussian", 0.0, 0
    names = np.arange(source.shape[1])
    model.mix_densities = model.get_mixture_components(source, labels, names, 0.1, "gaussian")
    return model.aggregate


def _abstention(source: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], Estimate]]:
    from abstention import label_shift

    if source.shape[1] > MOST_SLOW:
        return {}
    known, share = np.eye(source.shape[1])[labels], np.bincount(labels, minlength=source.shape[1]) / len(labels)

    def weighted(adapter: object, rows: np.ndarray, calibrate: Callable = lambda given: given) -> Estimate:
        def estimate(target: np.ndarray) -> np.ndarray:
            fitted = adapter(
                valid_labels=known, tofit_initial_posterior_probs=calibrate(target), valid_posterior_probs=rows
            )
            prior = np.maximum(fitted.multipliers, 0.0) * share
            return prior / prior.sum()

        return estimate

    def calibrated(calibrator: object) -> Estimate:
        """Calibrated beforehand: the adapter's own `calibrator_factory` leaves the target as it is."""
        fitted = calibrator(source, known, posterior_supplied=True)
        return weighted(label_shift.EMImbalanceAdapter(), fitted(source), fitted)

    calibrators = _calibrators(source.shape[1])
    found: dict[str, Callable[[], Estimate]] = {}
    for name in ("BCTS", "VS"):
        found[f"abstention EM-{name}"] = lambda name=name: calibrated(calibrators[name])
    for kind, soft in (("soft", True), ("hard", False)):
        for method, adapter in (("BBSE", label_shift.BBSEImbalanceAdapter), ("RLLS", label_shift.RLLSImbalanceAdapter)):
            made = adapter(soft=soft)
            found[f"abstention {method} {kind}"] = lambda made=made: weighted(made, source)
    return found


def _mlquantify(source: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], Estimate]]:
    from mlquantify.likelihood import EMQ

    classes = source.shape[1]
    share = np.bincount(labels, minlength=classes) / len(labels)
    found: dict[str, Callable[[], Estimate]] = {
        "mlquantify EMQ": lambda: lambda target: np.asarray(EMQ.EM(target, share)[0])
    }
    if classes <= MOST_SLOW:
        found["mlquantify EMQ-BCTS"] = lambda: (
            lambda target: _values(EMQ(calib_function="bcts").aggregate(target, source, labels))
        )
    return found


def _values(prevalences: object) -> np.ndarray:
    return np.array(list(prevalences.values()) if isinstance(prevalences, dict) else prevalences)
