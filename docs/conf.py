"""How the documentation is built: offline, with every warning an error."""

from __future__ import annotations

from typing import Any

from advshift import __version__

project = "advshift"
author = "the advshift developers"
copyright = "2026, the advshift developers"  # noqa: A001
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/*.md"]

html_theme = "furo"
html_title = "advshift"
html_static_path = ["images"]
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_attr_annotations = False


def end_sections(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Head what follows a section's entries, such as an example, so that napoleon does not take it for an entry."""
    rules = [place for place, line in enumerate(lines) if line and set(line) == {"-"}]
    for place in range(rules[0] + 2, len(lines)) if rules else ():
        line, after = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
        heads = bool(after) and set(after) == {"-"}
        if lines[place - 1] or not line or line.startswith(" ") or heads or after.startswith("    "):
            continue
        heading = "Examples" if line.startswith(">>>") else "Notes"
        lines[place:place] = [heading, "-" * len(heading)]
        return


def setup(app: Any) -> None:
    """Look at docstrings before napoleon does."""
    app.connect("autodoc-process-docstring", end_sections, priority=400)
