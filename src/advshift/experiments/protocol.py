"""What is run: the paper's protocol on CIFAR-100 in tiers, each run by name, with what it has to wait for.

Hyperparameters are chosen on the part of the training images that is kept for tuning, by rules that stand here: every
method gets six settings of five epochs with one seed that no final run uses. ERM's choice of the optimiser is
everybody's. The test part is only ever read by figures and tables.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RADII", "TIERS", "Planned", "protocol"]

TIERS = ("tune", "A", "B", "C", "D")
RADII = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TUNING_SEED, TUNING_EPOCHS = 1000, 5
LATE = {"objective.start_after": 0.6}
NO_CLIP = 1e9
LOWER_RATE = 0.1

Setting = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """One run.

    Attributes
    ----------
    key
        Its name.
    tier, group, method, seed, epochs
        What it is part of. Runs of one group and method differ in their seeds alone.
    setting
        Keys of the recipe that differ from the base.
    chosen
        Tuning groups whose best settings are merged in, in this order.
    fixed
        For FIXED: the run on whose held-out images the adversary is found, and its radius.
    start_from
        A run whose last weights it begins with.
    keep
        Whether its predictions are kept beside its record.
    """

    key: str
    tier: str
    group: str
    method: str
    seed: int
    epochs: int
    setting: Mapping[str, Any] = field(default_factory=dict)
    base: str = "cifar100-erm"
    chosen: tuple[str, ...] = ("erm",)
    fixed: tuple[str, float] | None = None
    start_from: str | None = None
    keep: bool = False


def adversary(name: str, **options: Any) -> Setting:
    """The keys that choose an adversary and its options."""
    return {"objective.adversary": name} | {f"objective.{key}": value for key, value in options.items()}


def loss(name: str, **options: Any) -> Setting:
    """The keys that choose a loss and its options, under ERM."""
    found: Setting = {"objective.adversary": "erm", "objective.loss": name}
    return found | ({"objective.loss_options": options} if options else {})


def radii_of(name: str, **options: Any) -> list[Setting]:
    """One setting for each radius that is tuned over."""
    return [adversary(name, radius=radius, **options) for radius in RADII[:5]]


# Six settings a method. The first of the optimiser's is what the recipe says.
TUNING: dict[str, list[Setting]] = {
    "erm": [
        {},
        {"optimizer.lr": 0.1},
        {"optimizer.lr": 0.2},
        {"optimizer.lr": 0.8},
        {"optimizer.weight_decay": 1e-4},
        {"optimizer.weight_decay": 1e-3},
    ],
    "advshift": [*radii_of("advshift"), adversary("advshift", radius=0.1, step_size=0.03)],
    "exact": [*radii_of("exact"), adversary("exact", radius=0.1, momentum=0.95)],
    "exact-late": [*radii_of("exact", start_after=0.6), adversary("exact", radius=0.1, start_after=0.4)],
    "agnostic": [adversary("agnostic", step_size=step) for step in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)],
    "tilted": [adversary("tilted", rate=rate) for rate in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)],
    "group-dro": [
        *(adversary("group-dro", step_size=step) for step in (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)),
        adversary("group-dro", step_size=1e-2, adjustment=1.0),
    ],
    "class-cvar": [adversary("class-cvar", level=level) for level in (0.9, 0.7, 0.5, 0.3, 0.2, 0.1)],
}

HELD_OUT: Setting = {"data.held_out": 0.1, "evaluate.splits": ["validation", "test", "held_out"]}

# How our own methods might go beyond: chosen among on the tuning part, at the full length of training.
CANDIDATES: dict[str, Setting] = {
    "late-0.1": adversary("exact", radius=0.1, start_after=0.6),
    "late-0.3": adversary("exact", radius=0.3, start_after=0.6),
    "late-1": adversary("exact", radius=1.0, start_after=0.6),
    "later-0.1": adversary("exact", radius=0.1, start_after=0.8),
    "later-0.3": adversary("exact", radius=0.3, start_after=0.8),
    "later-1": adversary("exact", radius=1.0, start_after=0.8),
    "latest-1": adversary("exact", radius=1.0, start_after=0.9),
    "slow-0.3": adversary("exact", radius=0.3, start_after=0.8, momentum=0.995),
    "clip-5": adversary("exact", radius=0.1, start_after=0.6, clip=5.0),
    "held-out": {**adversary("exact", radius=0.3, start_after=0.6, adversary_data="held-out"), "data.held_out": 0.05},
    "averaged": {**adversary("exact", radius=0.3, start_after=0.6), "training.average": 0.999},
    "smooth": {**adversary("exact", radius=0.3, start_after=0.6), "objective.label_smoothing": 0.1},
    "mixup": {**adversary("exact", radius=0.1, start_after=0.6), "augmentation.mixup": 0.2},
    "cosine-head": {**adversary("exact", radius=0.3, start_after=0.6), "model.head": "cosine"},
}
GENTLY: Setting = {"optimizer.lr": 0.05, "schedule.name": "cosine"}
FINE_TUNE: Setting = {**GENTLY, **adversary("exact", radius=0.3, momentum=0.98)}

FIXED_PRIOR: dict[str, Setting] = {
    "balanced": adversary("balanced"),
    "class-balanced": loss("class-balanced"),
    "ldam": {**loss("ldam"), "model.head": "cosine"},
    "ldam-drw": {**loss("ldam-drw"), "model.head": "cosine"},
    "logit-adjusted": loss("logit-adjusted"),
    "balanced-softmax": loss("balanced-softmax"),
    "focal": loss("focal"),
    "deferred": loss("deferred"),
}


@functools.cache
def protocol() -> tuple[Planned, ...]:
    """All runs, in the order in which they are taken: every method's first seed before any method's second."""
    by_seed = (sorted(tier, key=lambda run: run.seed) for tier in (_tier_b(), _tier_c()))
    return (*_tuning(), *_tier_a(), *(run for tier in by_seed for run in tier), *_tier_d())


def _seeds(count: int, tier: str, group: str, method: str, epochs: int, **rest: Any) -> Iterator[Planned]:
    for seed in range(count):
        yield Planned(f"{group}/{method}/seed-{seed}", tier, group, method, seed, epochs, **rest)


def _tuning() -> Iterator[Planned]:
    for method, settings in TUNING.items():
        for number, setting in enumerate(settings):
            chosen = () if method == "erm" else ("erm",)
            key = f"tune/{method}/{number}"
            yield Planned(key, "tune", "tune", method, TUNING_SEED, TUNING_EPOCHS, setting, chosen=chosen)


def _tier_a() -> Iterator[Planned]:
    """The main comparison: five paired seeds, 20 epochs."""
    for method in ("erm", "advshift", "exact", "exact-late", "agnostic"):
        chosen = ("erm",) if method == "erm" else ("erm", method)
        yield from _seeds(5, "A", "main", method, 20, chosen=chosen, keep=True)


def _tier_b() -> Iterator[Planned]:
    """All methods and radii for ten epochs, on balanced and on long-tailed CIFAR-100."""
    yield from _seeds(3, "B", "radii", "erm", 10)
    for radius in RADII:
        yield from _seeds(3, "B", "radii", f"advshift-{radius:g}", 10, setting=adversary("advshift", radius=radius))
        yield from _seeds(3, "B", "radii", f"exact-{radius:g}", 10, setting=adversary("exact", radius=radius))
    for method in ("exact-late", "agnostic", "tilted", "group-dro", "class-cvar"):
        yield from _seeds(3, "B", "radii", method, 10, chosen=("erm", method))
    yield from _held_out()
    for ratio in (100, 10):
        yield from _long_tailed(ratio)
    yield from _lower_rate()


def _held_out() -> Iterator[Planned]:
    """Methods that read losses of held-out images, beside ERM on the same images."""
    for seed in range(3):
        key = f"held-out/erm/seed-{seed}"
        yield Planned(key, "B", "held-out", "erm", seed, 10, HELD_OUT)
        for radius in (1.0, 2.0, 3.0):
            name = f"fixed-{radius:g}"
            yield Planned(
                f"held-out/{name}/seed-{seed}", "B", "held-out", name, seed, 10, HELD_OUT, fixed=(key, radius)
            )
    for name, wait in (("advshift", {}), ("exact", {}), ("exact-late", LATE)):
        kind = name.split("-")[0]
        setting = HELD_OUT | adversary(kind, radius=0.1, adversary_data="held-out") | wait
        yield from _seeds(3, "B", "held-out", name, 10, setting=setting)


def _lower_rate() -> Iterator[Planned]:
    """What breaks at the learning rate that is best for ERM, at a lower one: large or fast moving weights."""
    rate: Setting = {"optimizer.lr": LOWER_RATE}
    held = HELD_OUT | rate
    yield from _seeds(1, "B", "lower-rate", "erm", 10, setting=held)
    for radius in (1.0, 2.0, 3.0):
        source = ("lower-rate/erm/seed-0", radius)
        yield from _seeds(1, "B", "lower-rate", f"fixed-{radius:g}", 10, setting=held, fixed=source)
    for name, setting in (
        ("tilted-0.5", adversary("tilted", rate=0.5)),
        ("tilted-1", adversary("tilted", rate=1.0)),
        ("agnostic-0.001", adversary("agnostic", step_size=0.001)),
        ("class-cvar-0.7", adversary("class-cvar", level=0.7)),
        ("exact-0.5", adversary("exact", radius=0.5)),
    ):
        yield from _seeds(1, "B", "lower-rate", name, 10, setting=held | setting)
    tail: Setting = {"data.imbalance": "exponential", "data.imbalance_ratio": 100.0} | rate
    for name in ("balanced", "class-balanced"):
        setting = tail | FIXED_PRIOR[name]
        yield from _seeds(1, "B", "lower-rate-tail", name, 10, setting=setting)
    yield from _seeds(1, "B", "lower-rate-tail", "erm", 10, setting=tail)


def _long_tailed(ratio: int) -> Iterator[Planned]:
    """Long-tailed CIFAR-100; what was tuned on the balanced set stays, fixed priors are as published."""
    tail: Setting = {"data.imbalance": "exponential", "data.imbalance_ratio": float(ratio)}
    group = f"long-tail-{ratio}"
    yield from _seeds(3, "B", group, "erm", 10, setting=tail)
    for method, setting in FIXED_PRIOR.items():
        yield from _seeds(3, "B", group, method, 10, setting=tail | setting)
    for radius in RADII:
        own = adversary("advshift", radius=radius, initial="reference")
        yield from _seeds(3, "B", group, f"advshift-{radius:g}", 10, setting=tail | own)
    yield from _seeds(3, "B", group, "advshift-uniform-start", 10, setting=tail | adversary("advshift", radius=0.1))
    for name, setting in (
        ("exact-0.1", adversary("exact", radius=0.1)),
        ("exact-1", adversary("exact", radius=1.0)),
        ("exact-late-0.1", adversary("exact", radius=0.1) | LATE),
        ("exact-late-1", adversary("exact", radius=1.0) | LATE),
    ):
        yield from _seeds(3, "B", group, name, 10, setting=tail | setting)
    for method in ("agnostic", "tilted", "group-dro", "class-cvar"):
        yield from _seeds(3, "B", group, method, 10, setting=tail, chosen=("erm", method))
    held = tail | HELD_OUT
    for seed in range(3):
        key = f"{group}/erm-held-out/seed-{seed}"
        yield Planned(key, "B", group, "erm-held-out", seed, 10, held)
        for radius in (1.0, 2.0, 3.0):
            name = f"fixed-{radius:g}"
            yield Planned(f"{group}/{name}/seed-{seed}", "B", group, name, seed, 10, held, fixed=(key, radius))


def _tier_c() -> Iterator[Planned]:
    """Ablations of AdvShift, one factor at a time, two seeds; and other data and another network.

    ERM and AdvShift as it is, beside which they stand, are those of tier B.
    """
    for radius in (0.1, 0.5):
        for name, options in _factors():
            if radius == 0.5 and not name.startswith(("clip", "stabiliser", "neither")):
                continue
            setting = adversary("advshift", **{"radius": radius} | options)
            yield from _seeds(2, "C", "ablation", f"{name}@{radius:g}", 10, setting=setting)
    for name, setting in (
        ("erm", adversary("erm")),
        ("balanced", adversary("balanced")),
        ("advshift-0.1", adversary("advshift", radius=0.1, initial="reference")),
        ("advshift-0.5", adversary("advshift", radius=0.5, initial="reference")),
        ("exact-late-0.1", adversary("exact", radius=0.1) | LATE),
        ("exact-late-0.5", adversary("exact", radius=0.5) | LATE),
    ):
        yield from _seeds(2, "C", "plankton", name, 10, setting=setting, base="plankton-erm")
    wide: Setting = {"model.name": "cifar-resnet18-wide", "optimizer.lr": 0.1}
    for name, setting in (
        ("erm", adversary("erm")),
        ("advshift", adversary("advshift", radius=0.1)),
        ("exact-late", adversary("exact", radius=0.1) | LATE),
    ):
        yield from _seeds(1, "C", "wide", name, 20, setting=wide | setting, base="cifar100-wide", chosen=())


def _factors() -> Iterator[tuple[str, Setting]]:
    for clip in (0.5, 1.0, 5.0):
        yield f"clip-{clip:g}", {"clip": clip}
    yield "clip-none", {"clip": NO_CLIP}
    for stabiliser in (0.0, 1e-4, 1e-2):
        yield f"stabiliser-{stabiliser:g}", {"stabiliser": stabiliser}
    yield "neither", {"clip": NO_CLIP, "stabiliser": 0.0}
    for step in (0.001, 0.003, 0.03, 0.1):
        yield f"step-{step:g}", {"step_size": step}
    yield "estimated-reference", {"reference": "estimated"}
    yield "refresh", {"adversary_data": "refresh"}
    yield "reference-start", {"initial": "reference"}
    yield "exact-proximal", {"step": "exact-prox"}


def _tier_d() -> Iterator[Planned]:
    """Beyond the paper: candidates on the tuning part, then the best of them with five paired seeds."""
    for name, setting in CANDIDATES.items():
        yield Planned(f"candidates/{name}/0", "D", "candidates", name, TUNING_SEED, 20, setting)
    yield Planned("candidates/erm/0", "D", "candidates", "erm", TUNING_SEED, 20, {}, keep=True)
    for epochs in (2, 5):
        name = f"fine-tune-{epochs}"
        yield Planned(
            f"candidates/{name}/0",
            "D",
            "candidates",
            name,
            TUNING_SEED,
            epochs,
            FINE_TUNE,
            start_from="candidates/erm/0",
        )
    yield from _seeds(5, "D", "beyond", "best", 20, chosen=("erm", "candidates"), keep=True)
    held = HELD_OUT | {"evaluate.predictions": ["validation", "test", "held_out"]}
    yield from _seeds(5, "D", "post-hoc", "erm", 20, setting=held, keep=True)
    yield from _seeds(5, "D", "post-hoc", "best", 20, setting=held, chosen=("erm", "candidates"), keep=True)
    yield from _fine_tuned()


def _fine_tuned() -> Iterator[Planned]:
    """Five epochs more after ERM's twenty, five paired seeds: as before, and against an adversary; or after fifteen."""
    robust = {f"robust-{radius:g}": _gentle_adversary(radius) for radius in (0.1, 0.2, 0.3)}
    for seed in range(5):
        yield from _tuned_after("post-hoc/erm", seed, {"continued": adversary("erm")} | robust)
    for seed in range(3):
        yield Planned(f"post-hoc/short/seed-{seed}", "D", "post-hoc", "short", seed, 15, HELD_OUT, keep=True)
        yield from _tuned_after("post-hoc/short", seed, {"short-0.2": _gentle_adversary(0.2)})


def _gentle_adversary(radius: float) -> Setting:
    return adversary("exact", radius=radius, momentum=0.98)


def _tuned_after(source: str, seed: int, settings: Mapping[str, Setting]) -> Iterator[Planned]:
    for name, setting in settings.items():
        key, start = f"fine-tune/{name}/seed-{seed}", f"{source}/seed-{seed}"
        yield Planned(key, "D", "fine-tune", name, seed, 5, HELD_OUT | GENTLY | setting, start_from=start)
