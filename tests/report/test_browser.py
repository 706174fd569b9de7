"""The page in a real browser: no error, no request, a slider that works, and nothing that spills over the edge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from advshift import report
from advshift.audit.record import AuditRecord

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is not installed")

BROWSERS_OWN = (".google.com", ".googleapis.com", ".gstatic.com")  # asked by Chromium for itself, whatever it shows
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
]


def _browse(folder: Path, page: str, *more: str, address: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "report.html").write_text(page)
    where = f"{(folder / 'report.html').as_uri()}{address}"
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", *more, "--dump-dom", where]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)


def _with_probe(page: str, script: str) -> str:
    """The page with a script after its own that writes what it finds into an element."""
    found = f"JSON.stringify((() => {{ {script} }})())"
    made = f"Object.assign(document.createElement('pre'), {{id: 'probe', textContent: {found}}})"
    probe = f"<script>document.body.append({made});</script>"
    return page.replace("</body>", f"{probe}</body>")


def _found(dom: str) -> Any:
    import html

    return json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1]))


SLIDE = """
  const slider = document.getElementById("radius"), seen = [];
  for (let step = 0; step <= slider.max; step++) {
    slider.value = step;
    slider.dispatchEvent(new Event("input"));
    seen.push([slider.getAttribute("aria-valuetext"),
      ...[...document.querySelectorAll(".live")].map((panel) =>
        [panel.hidden, panel.querySelector("h4").textContent, panel.querySelector("strong").textContent,
         panel.querySelector("tbody th").textContent])]);
  }
  return seen;
"""
SWITCH = """
  const colour = () => getComputedStyle(document.documentElement).backgroundColor;
  return ["light", "dark", "auto"].map((name) => {
    document.getElementById(`theme-${name}`).checked = true;
    return colour();
  });
"""
REACH = """
  const reached = [...document.querySelectorAll("a[href], input, [tabindex]")].filter((one) => one.tabIndex >= 0);
  return [reached.every((one) => { one.focus(); return document.activeElement === one; }), reached.length,
          [...document.querySelectorAll(".scroll")].every((one) => one.tabIndex === 0)];
"""
SPILL = """
  return [document.documentElement.scrollWidth - document.documentElement.clientWidth,
          [...document.querySelectorAll("figure svg text")].filter((text) => {
            const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
            return inner.left < outer.left - 2 || inner.right > outer.right + 2 || inner.top < outer.top - 2;
          }).map((text) => text.textContent)];
"""
FIRST = "return document.querySelector('.live h4').textContent;"


@pytest.fixture(scope="module")
def small_page(small: AuditRecord) -> str:
    return report.html(small)


@pytest.fixture(scope="module")
def hostile_page(hostile: AuditRecord) -> str:
    return report.html(hostile)


@pytest.fixture(scope="module")
def probed(small_page: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one visit of the page at its first mix found."""
    scripts = {"first": FIRST, "slide": SLIDE, "switch": SWITCH, "reach": REACH}
    calls = ", ".join(f"{name}: (() => {{ {script} }})()" for name, script in scripts.items())
    page = _with_probe(small_page, f"return {{ {calls} }};")
    return _found(_browse(tmp_path_factory.mktemp("probed"), page, address="#mix=0").stdout)


def test_no_error_and_no_request(hostile_page: str, tmp_path: Path) -> None:
    log = tmp_path / "network.json"
    done = _browse(tmp_path, hostile_page, f"--log-net-log={log}")
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert "<title>Label-shift audit: error</title>" in done.stdout
    asked = re.findall(r'"url":"(?:https?|wss?|ftp)://([^/"]*)', log.read_text())
    assert {host for host in asked if not host.endswith(BROWSERS_OWN)} == set()


def test_the_check_for_errors_and_requests_can_fail(small_page: str, tmp_path: Path) -> None:
    log = tmp_path / "network.json"
    page = small_page.replace("default-src 'none'; ", "default-src *; ").replace("img-src data:", "img-src *")
    page = page.replace("</body>", "<script>nothing.at.all</script><img src='http://localhost:9/x.png' alt=''></body>")
    done = _browse(tmp_path, page, f"--log-net-log={log}")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert "http://localhost:9/x.png" in log.read_text()


def test_the_slider_moves_every_model_through_its_mixes(probed: dict[str, Any], small_page: str) -> None:
    mixes = json.loads(re.search(r'id="mixes">(.*?)</script>', small_page, re.DOTALL)[1])
    assert len(probed["slide"]) == len(mixes[0])
    for step, (said, *panels) in enumerate(probed["slide"]):
        assert said == f"{mixes[0][step]['radius']}: {mixes[0][step]['words']}"
        for number, panel in enumerate(panels):
            mix = mixes[number][step]
            assert panel == [False, mix["radius"], mix["value"], mix["rows"][0][0]]


def test_an_address_may_name_a_mix(probed: dict[str, Any]) -> None:
    assert probed["first"] == "radius 0.003"


def test_the_theme_can_be_switched_without_scripts(probed: dict[str, Any]) -> None:
    assert probed["switch"] == ["rgb(255, 255, 255)", "rgb(20, 24, 29)", "rgb(255, 255, 255)"]


def test_the_keyboard_reaches_everything(probed: dict[str, Any]) -> None:
    every, number, tables = probed["reach"]
    assert every is True
    assert number > 8
    assert tables is True


@pytest.mark.parametrize("width", [375, 1400])
def test_nothing_spills_over_the_edge(hostile_page: str, tmp_path: Path, width: int) -> None:
    done = _browse(tmp_path, _with_probe(hostile_page, SPILL), f"--window-size={width},900")
    assert _found(done.stdout) == [0, []]


def test_a_screenshot_is_not_blank(small_page: str, tmp_path: Path) -> None:
    import numpy as np
    from matplotlib.image import imread

    picture = tmp_path / "page.png"
    _browse(tmp_path, small_page, f"--screenshot={picture}", "--window-size=1200,900")
    pixels = imread(picture)
    assert pixels.shape[:2] == (900, 1200)
    assert 0.01 < np.mean(pixels[..., :3].min(axis=-1) < 0.5) < 0.5
