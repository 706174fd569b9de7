from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advshift.errors import InputError
from advshift.training.recipe import differences, load_recipe, make_recipe, recipe_names
from advshift.training.toml import to_toml

plain = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
trees = st.recursive(
    st.dictionaries(keys, plain | st.lists(plain, max_size=3), max_size=4),
    lambda inner: st.dictionaries(keys, plain | inner, max_size=4),
    max_leaves=12,
)


@given(trees)
def test_what_is_written_is_read_again(tree: dict) -> None:
    assert tomllib.loads(to_toml(tree)) == tree


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_of_the_package_are_valid_and_survive_saving(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert make_recipe(tomllib.loads(recipe.to_toml())) == recipe


def test_overrides_change_values() -> None:
    recipe = load_recipe("digits-erm", ["training.epochs=3", "data.name=npz", "objective.radius=0.2", "seed=7"])
    assert (recipe.training.epochs, recipe.data.name, recipe.seed) == (3, "npz", 7)
    assert recipe.objective.options == {"radius": 0.2}
    other = load_recipe("cifar100-erm", ["model.name=linear", "model.depth=", "model.width=", "model.head="])
    assert (other.model.name, other.model.options) == ("linear", {})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("training.epoch=3", r"unknown key 'training.epoch'; did you mean 'epochs'\?"),
        ("epochs=3", r"unknown key 'epochs'; did you mean 'training.epochs'\?"),
        ("lr=0.3", r"unknown key 'lr'; did you mean 'optimizer.lr'\?"),
        ("trainin.epochs=3", r"unknown key 'trainin'; did you mean 'training'\?"),
        ("training.epochs=0", r"'training.epochs': input should be greater than or equal to 1; got 0"),
        ("training.epochs=many", r"'training.epochs': input should be a valid integer.*; got 'many'"),
        ("training.precision=fp8", r"'training.precision': input should be 'auto', 'float32' or 'bf16'; got 'fp8'"),
        ("training", r"an override must read key=value"),
        ("schedule.total_steps=9", r"'schedule': total_steps is set by the engine; leave it out$"),
        ("model.num_classes=9", r"'model': num_classes is set by the engine; leave it out$"),
        (
            "objective=advshift",
            r"'objective' is a table; write objective.key=value, or \[objective\].*; got 'advshift'",
        ),
        ("name.first=x", r"looks into 'name', which is a value and no table"),
    ],
)
def test_a_fault_is_named(word: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_recipe("digits-erm", [word])


def test_an_unknown_recipe_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="there is no recipe 'digits-er'; did you mean 'digits-erm'"):
        load_recipe("digits-er")


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("name = ")
    with pytest.raises(InputError, match="is not valid TOML"):
        load_recipe(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="it is not UTF-8 text"):
        load_recipe(str(path))
    with pytest.raises(InputError, match="cannot read the recipe"):
        load_recipe(str(tmp_path / "missing.toml"))
    path.write_text('name = "x"')
    with pytest.raises(InputError, match="'data' is missing; add it"):
        load_recipe(str(path))


def test_differences_name_what_changed() -> None:
    old, new = load_recipe("digits-erm"), load_recipe("digits-erm", ["training.epochs=3", "objective.radius=0.1"])
    assert differences(old, new) == ["training.epochs: 40 → 3", "objective.radius: nothing → 0.1"] or sorted(
        differences(old, new)
    ) == sorted(["training.epochs: 40 → 3", "objective.radius: nothing → 0.1"])
    assert differences(old, old) == []
