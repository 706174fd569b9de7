"""Shape types are checked while the tests run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

SHAPE_CHECKS = os.environ.get("ADVSHIFT_SHAPE_CHECKS", "1") != "0"
collect_ignore = ["compiled"] if SHAPE_CHECKS else []
if SHAPE_CHECKS and not any(name.startswith("advshift.") for name in sys.modules):
    install_import_hook("advshift", "beartype.beartype")

settings.register_profile("gate", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Turn the shape checks off: torch.compile cannot trace through them."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)
