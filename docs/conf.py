"""How the documentation is built: offline, with every warning an error."""

from __future__ import annotations

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
