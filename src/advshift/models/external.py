"""Networks from elsewhere: torchvision's and timm's by name, and a user's own from a module."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from advshift.errors import InputError, MissingDependencyError, require
from advshift.registry import nearest

__all__ = ["LIBRARIES", "build_external"]

EXTRA = "vision"
GIVEN = ("num_classes", "shape")
PRETRAINED = ("weights", "pretrained", "weights_backbone", "checkpoint_path")
Shape = tuple[int, ...]


def build_external(spec: str, num_classes: int, shape: Shape, options: Mapping[str, Any]) -> nn.Module:
    """Make a model from `torchvision:NAME`, `timm:NAME` or `module.path:factory`, and try it on an input of zeros.

    A factory is called with the options, and with `num_classes` and `shape` as far as it takes them.
    """
    home, _, name = spec.partition(":")
    if not home or not name:
        raise InputError(f"a model from elsewhere is torchvision:NAME, timm:NAME or module.path:factory; got {spec!r}")
    if home in LIBRARIES:
        for option in PRETRAINED:
            if option in options:
                raise InputError(
                    f"model {spec!r} is made without pretrained weights, which would come over the network: leave "
                    f"{option!r} out, and name a file in training.initial_weights"
                )
        model = LIBRARIES[home](spec, name, num_classes, shape, options)
    else:
        model = _from_module(spec, home, name, {"num_classes": num_classes, "shape": shape}, options)
    _try(model, spec, num_classes, shape)
    return model


def _from_torchvision(spec: str, name: str, num_classes: int, shape: Shape, options: Mapping[str, Any]) -> nn.Module:
    models = _import_library("torchvision", spec).models
    _check_known(spec, name, models.list_models(module=models))
    return _made(spec, models.get_model, {"weights": None, "num_classes": num_classes}, options, name)


def _from_timm(spec: str, name: str, num_classes: int, shape: Shape, options: Mapping[str, Any]) -> nn.Module:
    timm = _import_library("timm", spec)
    _check_known(spec, name, timm.list_models())
    channels = {"in_chans": shape[0]} if len(shape) == 3 else {}
    return _made(spec, timm.create_model, {"pretrained": False, "num_classes": num_classes, **channels}, options, name)


LIBRARIES: Mapping[str, Callable[[str, str, int, Shape, Mapping[str, Any]], nn.Module]] = {
    "torchvision": _from_torchvision,
    "timm": _from_timm,
}


def _import_library(name: str, spec: str) -> ModuleType:
    try:
        return require(name, f"model {spec!r}", EXTRA)
    except MissingDependencyError:
        raise
    except Exception as error:
        # A torchvision that was built for another torch fails with whatever its compiled part runs into.
        raise _broken(name, spec, error) from None


def _broken(name: str, spec: str, error: Exception) -> InputError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return InputError(
        f"model {spec!r}: {name} is installed but cannot be imported ({reason}); torchvision must come from the same "
        f"source as torch ({torch.__version__}), built for it: run  pip install --force-reinstall torch torchvision "
        f"'advshift[{EXTRA}]'"
    )


def _check_known(spec: str, name: str, known: list[str]) -> None:
    if name not in known:
        raise InputError(f"unknown model {spec!r}{nearest(name, known)} ({len(known)} are known)")


def _from_module(spec: str, home: str, name: str, given: dict[str, Any], options: Mapping[str, Any]) -> nn.Module:
    with _current_folder():
        factory = _attribute(spec, home, name)
        if not callable(factory):
            raise InputError(f"model {spec!r}: {name!r} is a {type(factory).__name__}, not a class or function")
        return _made(spec, factory, _accepted(factory, given), options)


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules of the current folder be imported, as `python` itself does."""
    folder = str(Path.cwd())
    if folder in sys.path or "" in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _attribute(spec: str, home: str, name: str) -> Any:
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{home}.".startswith(f"{error.name}."):
            raise InputError(
                f"model {spec!r}: there is no module {error.name!r} in the current folder or among the installed "
                "packages; write module.path:factory, torchvision:NAME or timm:NAME"
            ) from None
        raise InputError(f"model {spec!r}: importing {home!r} failed ({error})") from error
    except Exception as error:
        raise InputError(f"model {spec!r}: importing {home!r} failed ({type(error).__name__}: {error})") from error
    found: Any = module
    for word in name.split("."):
        if not hasattr(found, word):
            public = [key for key in dir(found) if not key.startswith("_")]
            raise InputError(f"model {spec!r}: {home!r} has no {word!r}{nearest(word, public)}")
        found = getattr(found, word)
    return found


def _accepted(factory: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Those of the given arguments that a factory takes."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return given
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}
    return {name: value for name, value in given.items() if name in named}


def _made(
    spec: str, factory: Callable[..., Any], given: Mapping[str, Any], options: Mapping[str, Any], *words: str
) -> nn.Module:
    """Call a factory; what it does not like about its options is one sentence."""
    for name in options:
        if name in given or name in GIVEN:
            raise InputError(f"model {spec!r} gets its {name} from the data; leave the option out")
    try:
        model = factory(*words, **given, **options)
    except InputError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"model {spec!r} cannot be made with {_shown({**given, **options})}: {reason}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"model {spec!r} made a {type(model).__name__}; expected a torch.nn.Module")
    return model


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"


def _try(model: nn.Module, spec: str, num_classes: int, shape: Shape) -> None:
    """Look whether the model takes the data's shape and gives a logit for each class."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = model(torch.zeros(2, *shape))
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"model {spec!r} does not take inputs of the data's shape {shape} ({reason}); change data.image_size "
            "or the model's options"
        ) from error
    finally:
        model.train(training)
    came = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if came != (2, num_classes):
        raise InputError(
            f"model {spec!r} must give {num_classes} logits for each example, so (2, {num_classes}) for two; it gave "
            f"{came}"
        )
