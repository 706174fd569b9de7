"""Records in, pictures and pages out; nothing is computed here.

>>> from advshift import report
>>> sorted(name for name in report.__all__)
['estimate_html', 'html', 'list_steps', 'plot', 'plot_estimate', 'render', 'render_estimate', 'write_html']
"""

from __future__ import annotations

from advshift.report.estimate_page import estimate_html
from advshift.report.estimate_pictures import plot_estimate
from advshift.report.estimate_terminal import list_steps, render_estimate
from advshift.report.figures import plot
from advshift.report.page import html, write_html
from advshift.report.terminal import render

__all__ = ["estimate_html", "html", "list_steps", "plot", "plot_estimate", "render", "render_estimate", "write_html"]
