"""The package as a whole: light imports, lazy names, one direction of imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import advshift

SOURCE = Path(advshift.__file__).parent
HEAVY = ("torch", "matplotlib", "scipy.optimize", "sklearn", "duckdb", "pandas")

# A module may import from layers of a smaller number, and from its own package.
LAYERS = {
    "errors": 0,
    "files": 0,
    "registry": 0,
    "types": 0,
    "numerics": 1,
    "sets": 2,
    "adversaries": 3,
    "priors": 3,
    "posthoc": 3,
    "audit": 3,
    "losses": 3,
    "reductions": 3,
    "samplers": 3,
    "objective": 4,
    "monitor": 4,
    "estimation": 4,
    "data": 4,
    "models": 4,
    "report": 5,
    "training": 5,
    "results": 6,
    "experiments": 6,
    "integrations": 6,
    "cli": 7,
    "__main__": 8,
    "testing": 3,
}


def _python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_import_is_light() -> None:
    loaded = _python("import sys, advshift, advshift.cli; print(*sys.modules)").split()
    assert not [name for name in HEAVY if name in loaded]
    assert "numpy" not in loaded


def test_sets_do_not_import_heavy_modules() -> None:
    loaded = _python("import sys, advshift.sets; print(*sys.modules)").split()
    assert not [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("name", advshift.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(advshift, name) is not None
    assert name in dir(advshift)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KLBal'"):
        _ = advshift.KLBal


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    type_checking = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in type_checking:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("advshift.")}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if layer == "__init__":
        return
    assert layer in LAYERS, f"give the new module {layer!r} a layer"
    own = LAYERS[layer]
    allowed = {name for name, number in LAYERS.items() if number < own or name == layer}
    allowed |= {"errors", "registry", "types"} if own else {"errors"}
    known = _imports(path) & set(LAYERS)
    assert known <= allowed, f"{layer} imports {sorted(known - allowed)} from its own layer or above"
