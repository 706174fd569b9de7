"""What goes wrong in torch is a sentence where a recipe can mend it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from advshift.errors import InputError
from advshift.training import train
from advshift.training.failures import in_a_sentence


def test_a_model_larger_than_the_memory(small: Any, tmp_path: Any) -> None:
    recipe = small(model={"name": "mlp", "hidden": [2**44]})
    with pytest.raises(InputError, match=r"the memory does not suffice; .*training.accumulate") as caught:
        train(recipe, tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (MemoryError(), "the memory does not suffice.*MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory.\nmore"), "the memory does not suffice.*CUDA out of memory"),
    ],
)
def test_memory(error: Exception, match: str) -> None:
    with pytest.raises(InputError, match=match), in_a_sentence():
        raise error


def test_a_compiler_that_fails() -> None:
    from torch._dynamo.exc import BackendCompilerFailed

    with pytest.raises(InputError, match=r"torch.compile failed; set training.compile=false"), in_a_sentence():
        raise BackendCompilerFailed(lambda: None, RuntimeError("no C++ compiler"), None)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^a fault of ours$"), in_a_sentence():
        raise RuntimeError("a fault of ours")
