"""Every example runs as a test: the Python blocks of the README and of the docs, and those of the docstrings."""

from __future__ import annotations

import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/**/*.md"],
).pytest()

collect_ignore = ["docs/conf.py", "docs/make_figures.py", "benchmarks", "examples"]


@pytest.fixture(autouse=True)
def _doctest_namespace(doctest_namespace: dict[str, object]) -> None:
    import advshift
    from advshift import sets

    doctest_namespace["advshift"] = advshift
    doctest_namespace.update({name: getattr(sets, name) for name in sets.__all__})
