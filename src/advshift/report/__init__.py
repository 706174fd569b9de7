"""Records in, pictures and pages out; nothing is computed here.

>>> from advshift import report
>>> sorted(name for name in report.__all__)
['html', 'plot', 'render', 'write_html']
"""

from __future__ import annotations

from advshift.report.figures import plot
from advshift.report.page import html, write_html
from advshift.report.terminal import render

__all__ = ["html", "plot", "render", "write_html"]
