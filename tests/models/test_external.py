"""Networks from elsewhere: found, tried on the data's shape, and refused in one sentence."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from advshift.errors import InputError, MissingDependencyError
from advshift.models import build_model

SHAPE = (3, 8, 8)
CODE = """
import torch
from torch import nn

number = 3

class Net(nn.Sequential):
    def __init__(self, num_classes, shape, width=4):
        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width), nn.Linear(width, num_classes))

def without_shape(num_classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, num_classes))

def any_options(**options):
    return Net(**options)

def wrong_width(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, num_classes + 1))

def pair(num_classes):
    class Pair(nn.Module):
        def forward(self, x):
            return x, x
    return Pair()

def another_shape(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(100, num_classes))

def no_model(num_classes):
    return 3

def failing(num_classes):
    raise RuntimeError("no luck\\nmore")

class Holder:
    net = Net
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with modules in it."""
    (tmp_path / "own_models_a").mkdir()
    (tmp_path / "own_models_a" / "nets.py").write_text(CODE)
    (tmp_path / "own_broken.py").write_text("import a_module_that_is_not_there")
    (tmp_path / "own_failing.py").write_text("raise RuntimeError('no luck')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["Net", "without_shape", "any_options", "Holder.net"])
def test_a_model_of_the_current_folder(name: str, folder: Path) -> None:
    before = list(sys.path)
    model = build_model(f"own_models_a.nets:{name}", 5, SHAPE, seed=1)
    assert model(torch.zeros(2, *SHAPE)).shape == (2, 5)
    assert model.training
    assert sys.path == before
    again = build_model(f"own_models_a.nets:{name}", 5, SHAPE, seed=1)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_options_go_to_the_factory(folder: Path) -> None:
    model = build_model("own_models_a.nets:Net", 5, SHAPE, width=9)
    assert model[1].out_features == 9


def test_an_installed_module() -> None:
    model = build_model("torch.nn:Linear", 5, (4,), in_features=4, out_features=5)
    assert isinstance(model, nn.Linear)


@pytest.mark.parametrize(
    ("spec", "options", "match"),
    [
        ("own_missing.nets:Net", {}, "there is no module 'own_missing' in the current folder"),
        ("own_models_a.missing:Net", {}, "there is no module 'own_models_a.missing'"),
        ("own_broken:Net", {}, "importing 'own_broken' failed .*a_module_that_is_not_there"),
        ("own_failing:Net", {}, r"importing 'own_failing' failed \(RuntimeError: no luck\)"),
        ("own_models_a.nets:Nett", {}, "has no 'Nett'; did you mean 'Net'"),
        ("own_models_a.nets:number", {}, "'number' is a int, not a class or function"),
        ("own_models_a.nets:no_model", {}, "made a int; expected a torch.nn.Module"),
        ("own_models_a.nets:failing", {}, "cannot be made with num_classes=5: no luck$"),
        ("own_models_a.nets:Net", {"widht": 3}, "cannot be made with .*unexpected keyword argument 'widht'"),
        ("own_models_a.nets:Net", {"num_classes": 3}, "gets its num_classes from the data"),
        ("own_models_a.nets:wrong_width", {}, r"must give 5 logits .*it gave \(2, 6\)"),
        ("own_models_a.nets:pair", {}, "it gave tuple"),
        ("own_models_a.nets:another_shape", {}, r"does not take inputs of the data's shape \(3, 8, 8\)"),
        (":Net", {}, "is torchvision:NAME, timm:NAME or module.path:factory"),
        ("own_models_a.nets:", {}, "is torchvision:NAME"),
    ],
)
def test_what_cannot_be(spec: str, options: dict[str, Any], match: str, folder: Path) -> None:
    with pytest.raises(InputError, match=match) as caught:
        build_model(spec, 5, SHAPE, **options)
    assert "\n" not in str(caught.value)


def _library(name: str) -> types.ModuleType:
    """A stand-in with the functions of the real one that are used."""
    library = types.ModuleType(name)

    def make(model: str, num_classes: int, *, in_chans: int = 3, width: int = 2, **given: Any) -> nn.Module:
        assert given in ({"weights": None}, {"pretrained": False})
        return nn.Sequential(
            nn.Conv2d(in_chans, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)
        )

    library.list_models = lambda module=None: ["smallnet", "largenet"]  # type: ignore[attr-defined]
    library.get_model = library.create_model = make  # type: ignore[attr-defined]
    library.models = library  # type: ignore[attr-defined]
    return library


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_library(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, _library(library))
    assert build_model(f"{library}:smallnet", 5, SHAPE, width=7)[0].out_channels == 7
    with pytest.raises(InputError, match=f"unknown model '{library}:smalnet'; did you mean 'smallnet'"):
        build_model(f"{library}:smalnet", 5, SHAPE)
    with pytest.raises(InputError, match=r"leave 'weights' out, and name a file in training\.initial_weights"):
        build_model(f"{library}:smallnet", 5, SHAPE, weights="DEFAULT")
    with pytest.raises(InputError, match=r"cannot be made with .*depth=7"):
        build_model(f"{library}:smallnet", 5, SHAPE, depth=7)


def test_timm_makes_models_for_the_channels_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", _library("timm"))
    assert build_model("timm:smallnet", 5, (1, 8, 8))[0].in_channels == 1
    monkeypatch.setitem(sys.modules, "torchvision", _library("torchvision"))
    with pytest.raises(InputError, match=r"does not take inputs of the data's shape \(1, 8, 8\)"):
        build_model("torchvision:smallnet", 5, (1, 8, 8))


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_missing_library_names_the_command(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocked:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.split(".")[0] == library:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blocked(), *sys.meta_path])
    with pytest.raises(MissingDependencyError, match=r"pip install 'advshift\[vision\]'"):
        build_model(f"{library}:resnet18", 5, SHAPE)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('operator torchvision::nms does not exist')",
        "import a_module_that_is_not_there",
        "raise ImportError('undefined symbol')",
        "raise AttributeError('partially initialized module')",
    ],
)
def test_a_broken_library_says_so(library: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{library}.py").write_text(code)
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match=r"installed but cannot be imported .*pip install .*'advshift\[vision\]'"
    ) as caught:
        build_model(f"{library}:resnet18", 5, SHAPE)
    assert "\n" not in str(caught.value)


def _works(library: str) -> bool:
    if importlib.util.find_spec(library) is None:
        return False
    try:
        importlib.import_module(library)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(("library", "name"), [("torchvision", "resnet18"), ("timm", "resnet18")])
def test_the_real_library(library: str, name: str) -> None:
    if not _works(library):
        pytest.skip(f"{library} is not installed, or does not fit torch")
    model = build_model(f"{library}:{name}", 1000, (3, 64, 64), seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
