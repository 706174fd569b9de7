"""A recipe: everything that a training run is made of, read from TOML, checked, and saved beside the run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from advshift.data.options import Augmentation, DataOptions
from advshift.errors import InputError
from advshift.registry import nearest
from advshift.training.toml import to_toml

__all__ = ["Recipe", "differences", "find_recipe", "load_recipe", "make_recipe", "recipe_names"]

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A table of a recipe: a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OpenSection(Section):
    """A table whose other keys are options of the thing that it names; that thing checks them."""

    model_config = ConfigDict(extra="allow", frozen=True)
    own: ClassVar[tuple[str, ...]] = ()  # what the engine knows better than a recipe

    @model_validator(mode="after")
    def _leave_to_the_engine(self) -> OpenSection:
        for name in self.own:
            if name in self.options:
                raise ValueError(f"{name} is set by the engine; leave it out")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The keys that are not the section's own."""
        return dict(self.model_extra or {})


class ModelSection(OpenSection):
    """The network: a name of `advshift.models`, `torchvision:NAME`, `timm:NAME` or `module.path:factory`."""

    own = ("num_classes", "shape", "seed", "spec")
    name: str = "cifar-resnet"


class ObjectiveSection(OpenSection):
    """The loss and the adversary; other keys are options of the adversary or of `RobustObjective`.

    `adversary_data` says whose losses the adversary sees: those of the step (`"batch"`), of the same batch after the
    step (`"refresh"`, the paper's second pass), or of a part of the data that the learner never trains on
    (`"held-out"`).
    """

    own = ("num_classes", "class_counts", "update", "total_steps", "even_shards", "process_group", "num_groups")
    adversary: str = "erm"
    loss: str = "cross-entropy"
    loss_options: dict[str, Any] = {}
    reference: Literal["known", "estimated"] = "known"
    label_smoothing: Share = 0.0
    adversary_data: Literal["batch", "refresh", "held-out"] = "batch"


class OptimizerSection(OpenSection):
    """An optimiser of torch by its name; other keys are its options."""

    own = ("model",)
    name: str = "SGD"
    lr: Annotated[float, Field(gt=0.0)] = 0.1


class ScheduleSection(OpenSection):
    """How the learning rate moves: constant, cosine, step, one-cycle, linear, or a scheduler of torch by its name."""

    own = ("total_steps", "steps_per_epoch", "lr")
    name: str = "cosine"


class TrainingSection(Section):
    """The loop.

    `batch_size` is the number of examples of one optimiser step, whatever the number of processes and of micro-batches
    (`accumulate`). `average` is the decay of an average of the weights, 0 for none. `checkpoint_every` keeps a
    checkpoint of every n-th epoch beside the last and the best; `checkpoint_seconds` saves within long epochs.
    `cuda_graph` replays the network's passes on a CUDA device, in place of compiling it; elsewhere it changes nothing.
    `threads` are those of torch on the CPU; `"auto"` is one for models without convolutions, else what torch has.
    """

    epochs: Positive = 10
    batch_size: Positive = 128
    accumulate: Positive = 1
    clip_norm: Annotated[float, Field(ge=0.0)] = 0.0
    average: Share = 0.0
    precision: Literal["auto", "float32", "bf16"] = "auto"
    channels_last: bool | Literal["auto"] = "auto"
    compile: bool | Literal["reduce-overhead"] = False
    cuda_graph: bool = False
    threads: Positive | Literal["auto"] = "auto"
    max_steps: Positive | None = None
    checkpoint_every: Count = 0
    checkpoint_seconds: Annotated[float, Field(gt=0.0)] = 600.0
    initial_weights: str | None = None


class EvaluateSection(Section):
    """What is measured, on what, and how often (in epochs; the last epoch always is).

    `train="running"` takes the training split's numbers from the training batches as they come, `"full"` evaluates the
    whole split again. `best` is the number on the validation split by which the best checkpoint is chosen; the test
    split judges, and never chooses.
    """

    splits: tuple[Literal["validation", "test", "held_out"], ...] = ("validation", "test")
    every: Positive = 1
    train: Literal["running", "full"] = "running"
    train_final: bool = True
    predictions: tuple[Literal["train", "validation", "test", "held_out"], ...] = ("validation", "test")
    radii: tuple[Annotated[float, Field(ge=0.0)], ...] = (0.5, 1.0, 2.0, 3.0)
    best: Literal["error", "loss", "worst_class_error", "worst_case"] = "worst_case"
    batch_size: Positive = 500


class Recipe(Section):
    """A training run, whole."""

    name: str = "run"
    seed: Count = 0
    data: DataOptions
    augmentation: Augmentation = Augmentation()
    model: ModelSection = ModelSection()
    objective: ObjectiveSection = ObjectiveSection()
    optimizer: OptimizerSection = OptimizerSection()
    schedule: ScheduleSection = ScheduleSection()
    training: TrainingSection = TrainingSection()
    evaluate: EvaluateSection = EvaluateSection()

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain values."""
        return self.model_dump(mode="json")

    def to_toml(self) -> str:
        """The recipe with every default written out."""
        return to_toml(self.to_dict())


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("advshift.training") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find_recipe(source: str) -> tuple[str, str]:
    """Return the text of a recipe and where it stands: a file, or the name of one that comes with the package."""
    path = Path(source)
    if path.suffix == ".toml" or path.exists():
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"cannot read the recipe {source!r}: {reason}") from None
    known = recipe_names()
    if source not in known:
        raise InputError(
            f"there is no recipe {source!r}{nearest(source, known)} (known: {', '.join(known)}); "
            "or name a file that ends in .toml"
        )
    return (resources.files("advshift.training") / "recipes" / f"{source}.toml").read_text(encoding="utf-8"), source


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a file or by its name, and change what `key=value` words say.

    Parameters
    ----------
    source
        A TOML file, or the name of a recipe of the package.
    overrides
        Words such as `training.epochs=5`; values are read as TOML, else as text. `model.depth=` takes the key away.
    """
    text, place = find_recipe(source)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipe {place} is not valid TOML: {error}") from None
    for word in overrides:
        _override(tree, word)
    return make_recipe(tree, place)


def make_recipe(tree: Mapping[str, Any], place: str = "the recipe") -> Recipe:
    """Check a tree of plain values; the first fault is one sentence."""
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{place}: {_fault(error, tree)}") from None


def differences(old: Recipe, new: Recipe) -> list[str]:
    """What two recipes differ in, as `key: old → new`."""
    before, after = _flat(old.to_dict()), _flat(new.to_dict())
    keys = [key for key in before | after if before.get(key) != after.get(key)]
    return [f"{key}: {before.get(key, 'nothing')} → {after.get(key, 'nothing')}" for key in keys]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _override(tree: dict[str, Any], word: str) -> None:
    path, equals, text = word.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        raise InputError(f"an override must read key=value, such as training.epochs=5; got {word!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise InputError(f"{word!r} looks into {key!r}, which is a value and no table")
    if text:
        tree[keys[-1]] = value
    else:
        tree.pop(keys[-1], None)


def _fault(error: ValidationError, tree: Mapping[str, Any]) -> str:
    fault = error.errors()[0]
    place = [str(part) for part in fault["loc"]]
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        known = _known_keys(place[:-1])
        homes = [f"{table}.{place[-1]}" for table in Recipe.model_fields if place[-1] in _known_keys([table])]
        close = f"; did you mean {homes[0]!r}?" if homes and len(place) == 1 else nearest(place[-1], known)
        return f"unknown key {name!r}{close} (known here: {', '.join(known)})"
    if fault["type"] == "missing":
        return (
            f'{name!r} is missing; add it, for example [data] name = "digits"'
            if place == ["data"]
            else (f"{name!r} is missing; add it")
        )
    if fault["type"] == "model_type":
        return f"{name!r} is a table; write {name}.key=value, or [{name}] in the file; got {fault['input']!r}"
    reason = fault["msg"].removeprefix("Value error, ")
    came = "" if isinstance(fault["input"], Mapping) else f"; got {fault['input']!r}"
    return f"{name!r}: {reason[:1].lower()}{reason[1:]}{came}"


def _known_keys(place: Sequence[str]) -> list[str]:
    kind: type[BaseModel] = Recipe
    for key in place:
        annotation = kind.model_fields[key].annotation
        if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
            return []
        kind = annotation
    return list(kind.model_fields)
