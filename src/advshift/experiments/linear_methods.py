"""What the linear models are trained with: two data sets, and six settings for every method.

All models start from the optimiser that ERM's six settings found; a method's own settings change what it is known for,
and the learning rate where the size of its weights calls for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from advshift.experiments.protocol import adversary, loss

__all__ = ["BASES", "FIXED_RADII", "METHODS", "SEEDS", "TUNING_SEED", "Candidate", "candidates", "tree_of"]

SEEDS, TUNING_SEED = 10, 1000
FIXED_RADII = (1.0, 2.0, 3.0)  # of the balls in which FIXED's distributions are the worst for ERM
SLOWER = 0.25  # of ERM's learning rate, for methods whose weights are large

_EVERYWHERE: dict[str, Any] = {
    "model": {"name": "linear"},
    "objective": {"adversary": "erm"},
    "schedule": {"name": "cosine"},
}

# The recipes: what no setting changes.
BASES: dict[str, dict[str, Any]] = {
    "digits": _EVERYWHERE
    | {
        "data": {
            "name": "digits",
            "test": 0.4,
            "validation": 0.1,
            "imbalance": "exponential",
            "imbalance_ratio": 20.0,
        },
        "optimizer": {"name": "SGD", "lr": 0.5, "momentum": 0.9, "weight_decay": 1e-4},
        "training": {"epochs": 20, "batch_size": 32},
    },
    "reuters52": _EVERYWHERE
    | {
        "data": {"name": "text", "validation": 0.1, "max_features": 1000},
        "optimizer": {"name": "SGD", "lr": 16.0, "momentum": 0.9, "weight_decay": 1e-5},
        "training": {"epochs": 16, "batch_size": 256},
    },
}

# ERM's six: learning rates and weight decays.
OPTIMISERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "digits": ((0.5, 0.1), (1e-4, 1e-3, 1e-2)),
    "reuters52": ((16.0, 64.0), (0.0, 1e-5, 1e-4)),
}


class Candidate(NamedTuple):
    """Keys of the recipe that differ from ERM's choice, and a factor on its learning rate.

    `fixed_radius` stands for the distribution that is the worst for ERM in the ball of that radius.
    """

    setting: Mapping[str, Any]
    rate: float = 1.0
    fixed_radius: float | None = None


def _both(settings: list[dict[str, Any]]) -> list[Candidate]:
    """Three settings at ERM's learning rate, and at a quarter of it."""
    return [Candidate(setting, rate) for rate in (1.0, SLOWER) for setting in settings]


def _all(settings: list[dict[str, Any]]) -> list[Candidate]:
    return [Candidate(setting) for setting in settings]


def _advshift() -> list[Candidate]:
    return _all(
        [
            adversary("advshift", radius=radius, step_size=step, initial="reference")
            for radius in (0.1, 0.5, 1.0)
            for step in (0.01, 0.1)
        ]
    )


def _exact() -> list[Candidate]:
    return _all(
        [adversary("exact", radius=radius, momentum=momentum) for radius in (0.1, 0.5, 1.0) for momentum in (0.9, 0.98)]
    )


def _exact_late() -> list[Candidate]:
    return _all(
        [
            adversary("exact", radius=radius, momentum=0.9, start_after=start)
            for radius in (0.1, 0.5, 1.0)
            for start in (0.6, 0.8)
        ]
    )


def _group_dro() -> list[Candidate]:
    plain = [adversary("group-dro", step_size=step) for step in (1e-3, 1e-2, 1e-1)]
    adjusted = [adversary("group-dro", step_size=step, adjustment=1.0) for step in (1e-3, 1e-2, 1e-1)]
    return _all(plain + adjusted)


def _fixed() -> list[Candidate]:
    return [Candidate({}, rate, radius) for rate in (1.0, SLOWER) for radius in FIXED_RADII]


def _margins(name: str) -> list[Candidate]:
    """Cosine logits need a learning rate of their own, whatever the features."""
    return [
        Candidate({**loss(name, largest_margin=margin), "model.head": "cosine", "optimizer.lr": lr})
        for margin in (0.1, 0.3, 0.5)
        for lr in (0.03, 0.3)
    ]


# Without a parameter of their own, balanced ERM and balanced softmax choose the optimiser anew, as ERM does.
METHODS: dict[str, list[Candidate]] = {
    "erm": [],
    "balanced": [],
    "advshift": _advshift(),
    "exact": _exact(),
    "exact-late": _exact_late(),
    "agnostic": _all([adversary("agnostic", step_size=step) for step in (1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 1e-1)]),
    "group-dro": _group_dro(),
    "tilted": _all([adversary("tilted", rate=rate) for rate in (0.02, 0.1, 0.25, 0.5, 1.0, 2.0)]),
    "class-cvar": _all(
        [adversary("class-cvar", level=level, momentum=0.9) for level in (0.9, 0.7, 0.5, 0.3, 0.2, 0.1)]
    ),
    "fixed": _fixed(),
    "class-balanced": _both([loss("class-balanced", beta=beta) for beta in (0.9, 0.99, 0.999)]),
    "ldam": _margins("ldam"),
    "ldam-drw": _margins("ldam-drw"),
    "logit-adjusted": _all([loss("logit-adjusted", temperature=value) for value in (0.25, 0.5, 0.75, 1.25, 1.5, 2.0)]),
    "balanced-softmax": [],
    "focal": _all([loss("focal", gamma=gamma) for gamma in (0.25, 0.5, 1.0, 2.0, 3.0, 5.0)]),
    "deferred": _all([loss("deferred", beta=beta, start_after=s) for beta in (0.9, 0.99, 0.999) for s in (0.6, 0.8)]),
}
_OF_THE_OPTIMISER: dict[str, dict[str, Any]] = {
    "erm": {},
    "balanced": adversary("balanced"),
    "balanced-softmax": loss("balanced-softmax"),
}


def candidates(name: str, method: str) -> list[Candidate]:
    """The six settings of a method on a data set.

    >>> {len(candidates(name, method)) for name in BASES for method in METHODS}
    {6}
    """
    own = _OF_THE_OPTIMISER.get(method)
    if own is None:
        return METHODS[method]
    rates, decays = OPTIMISERS[name]
    return [
        Candidate({**own, "optimizer.lr": rate, "optimizer.weight_decay": decay}) for rate in rates for decay in decays
    ]


def tree_of(name: str, settings: list[Mapping[str, Any]], rate: float = 1.0) -> dict[str, Any]:
    """The recipe as plain values: the base of a data set, settings merged in one after another, the rate multiplied.

    >>> tree_of("digits", [{"optimizer.lr": 0.4}, {"objective.adversary": "balanced"}], 0.25)["optimizer"]["lr"]
    0.1
    """
    tree = {section: dict(values) for section, values in BASES[name].items()}
    for key, value in _pairs(settings):
        section, option = key.split(".")
        tree[section][option] = value
    tree["optimizer"]["lr"] *= rate
    return tree


def _pairs(settings: list[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    return (pair for setting in settings for pair in setting.items())
