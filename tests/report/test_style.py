"""The look: contrast, redundancy of colour, and figures that stand alone."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from advshift import report
from advshift.audit.record import AuditRecord
from advshift.errors import InputError
from advshift.report.style import THEMES, caption, css_variables, dots, figure, series, to_svg


def _luminance(colour: str) -> float:
    channels = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(first: str, second: str) -> float:
    low, high = sorted([_luminance(first), _luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", THEMES)
def test_text_and_lines_stand_out(name: str) -> None:
    theme = THEMES[name]
    assert _contrast(theme.ink, theme.paper) >= 7
    assert _contrast(theme.faint, theme.paper) >= 4.5
    assert all(_contrast(colour, theme.paper) >= 3 for colour in theme.series)


# Linear RGB as seen without the long, the middle and the short cones (Machado, Oliveira and Fernandes, 2009).
BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def _oklab(colour: str, seen: np.ndarray) -> np.ndarray:
    channels = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    linear = np.clip(seen @ np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4), 0, 1)
    cones = np.cbrt(
        np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        )
        @ linear
    )
    mix = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(mix) @ cones


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("vision", BLIND)
def test_the_first_colours_differ_for_every_eye(name: str, vision: str) -> None:
    seen = [_oklab(colour, np.array(BLIND[vision])) for colour in THEMES[name].series[:4]]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.07


def test_colour_is_never_alone() -> None:
    looks = [series(THEMES["light"], number) for number in range(30)]
    assert len(set(looks)) == 30
    for first, second in itertools.combinations(looks[:5], 2):
        assert first.line != second.line
        assert first.marker != second.marker


def test_every_variable_has_its_own_colour() -> None:
    for theme in THEMES.values():
        variables = css_variables(theme)
        assert len(set(variables.values())) == len(variables)


@pytest.mark.parametrize("theme", THEMES)
def test_plot_draws_every_panel(small: AuditRecord, theme: str) -> None:
    made = report.plot(small, theme)
    assert [axes.get_title(loc="left") for axes in made.axes] == [
        "Worst case",
        "Against the first model",
        "Classes",
        "Worst mixes",
    ]
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in made.axes)
    assert made.get_facecolor() == pytest.approx((*_rgb(THEMES[theme].paper), 1))
    made.savefig(io.BytesIO(), format="png")


def _rgb(colour: str) -> list[float]:
    return [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]


def test_the_curve_shows_the_record(small: AuditRecord) -> None:
    axes = report.plot(small).axes[0]
    model = small.models[0]
    line = next(line for line in axes.get_lines() if line.get_label() == "erm")
    drawn = [value for value in line.get_ydata() if np.isfinite(value)]
    assert drawn == [point.debiased for point in model.curve if point.interval == "debiased"]
    assert np.allclose(line.get_xdata(), np.sqrt([point.radius for point in model.curve]))


def test_an_infinite_radius_stands_beyond_the_others(make: Callable[..., AuditRecord]) -> None:
    axes = report.plot(make(10, radii=(0.0, 0.1, 1.0, np.inf))).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()][-1] == "∞"
    assert axes.get_xticks()[-1] > 1.0


def test_names_do_not_become_mathematics(hostile: AuditRecord, bare: AuditRecord) -> None:
    report.plot(hostile).savefig(io.BytesIO(), format="svg")
    report.plot(bare).savefig(io.BytesIO(), format="svg")
    assert caption("$x$") == r"\$x\$"
    assert len(caption("n" * 300)) == 28


def test_an_unknown_theme_lists_the_known_ones(small: AuditRecord) -> None:
    with pytest.raises(InputError, match="unknown theme 'blue' \\(known: light, dark\\)"):
        report.plot(small, "blue")


def test_a_thousand_dots_are_few_bytes() -> None:
    def draw(theme: object) -> object:
        made, (axes,) = figure(THEMES["light"])
        dots(axes, np.random.default_rng(0).random((1000, 2)), colour=THEMES["light"].series[0], size=3.0)
        return made

    picture = to_svg(draw, name="a", title="t", description="d")
    assert len(picture) < 22_000
    path = re.search(r'd="([^"]*)"[^>]*stroke-linecap: round', picture)[1]
    assert path.count("M") == 1000
    assert set(re.findall(r'id="([^"]*)"', picture)) >= {"a-title", "a-desc"}


def test_report_loads_matplotlib_only_to_draw() -> None:
    code = "import sys, advshift.report; print('matplotlib' in sys.modules, 'jinja2' in sys.modules)"
    source = str(Path(report.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
