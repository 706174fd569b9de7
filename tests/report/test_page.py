"""The page: complete, escaped, self-contained, small, and readable without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from advshift import report
from advshift.audit.record import AuditRecord
from advshift.report.selection import estimate, gains, three_mixes
from advshift.report.words import Words

VOID = {"meta", "link", "input", "br", "img"}
LIMIT = 500_000


class _Page(HTMLParser):
    """Collects tags, attributes and visible text, and checks that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.words))


RECORDS = ["small", "middle", "large", "hostile", "bare"]


@pytest.fixture(scope="module", params=RECORDS)
def shown(request: pytest.FixtureRequest) -> tuple[AuditRecord, str]:
    record = request.getfixturevalue(request.param)
    return record, report.html(record)


def test_the_page_is_well_formed_and_ids_are_unique(shown: tuple[AuditRecord, str]) -> None:
    page = _Page(shown[1])
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    referred = [
        attributes.get(key) for _, attributes in page.tags for key in ("for", "aria-labelledby", "aria-describedby")
    ]
    for reference in filter(None, referred):
        assert set(reference.split()) <= set(ids)


def test_nothing_outside_the_page_is_asked_for(shown: tuple[AuditRecord, str]) -> None:
    page = _Page(shown[1])
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base", "form")
        for key in ("src", "href", "action", "srcset", "xlink:href"):
            assert (attributes.get(key) or "#").startswith(("#", "data:,"))
        assert not [key for key in attributes if key.startswith("on")]
    outside = re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", shown[1])
    assert not outside


def test_every_picture_is_valid_xml_with_a_title(shown: tuple[AuditRecord, str]) -> None:
    pictures = re.findall(r'<svg [^>]*role="img".*?</svg>', shown[1], re.DOTALL)
    assert len(pictures) == (1 if shown[0].metric.name == "utility" else 3 + 2 * len(shown[0].models))
    for picture in pictures:
        root = ET.fromstring(picture)
        ids = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        assert set(re.findall(r"(?:url\(|href=\")#([\w-]+)", picture)) <= ids
        assert root[0].tag.endswith("title")
        assert root[0].text
        assert not re.search(r": ?#[0-9a-f]{6}", picture), "a colour does not follow the theme"
        assert "<style" not in picture


def test_the_page_is_small(shown: tuple[AuditRecord, str]) -> None:
    assert len(shown[1].encode()) < LIMIT


def test_many_models_and_classes_stay_small(make: Callable[..., AuditRecord]) -> None:
    record = make(1000, list("abcdefg"), examples=20, radii=(0.0, 0.1, 0.5, 1.0))
    assert len(report.html(record).encode()) < LIMIT


def test_a_great_many_classes_are_thinned_and_it_is_said(make: Callable[..., AuditRecord]) -> None:
    page = report.html(make(20_000, ["a"], examples=5, radii=(0.0, 0.1)))
    assert len(page.encode()) < LIMIT
    assert "one in 7 classes" in page


def test_what_the_record_holds_is_shown(middle: AuditRecord) -> None:
    page = _Page(report.html(middle))
    words = Words(middle)
    said = [middle.version, middle.command, "2026-03-01 12:00:00 UTC", "95\u00a0%", "Kullback–Leibler", "empirical"]
    said += [warning.message for warning in middle.warnings] + [warning.code for warning in middle.warnings]
    for entry in middle.inputs:
        said += [entry.model, entry.path, entry.sha256, f"{entry.rows:,}", entry.split]
    for model in middle.models:
        said += [model.name, words.answer(model), words.worst_class(model)]
        said += [words.breaking_point(model, broken) for broken in model.breaking_points]
        for point in model.curve:
            said += [words.number(point.radius), words.value(estimate(point)), words.span(point.lower, point.upper)]
            said += [words.value(point.plug_in), words.value(point.cross_fitted), words.value(point.guaranteed_upper)]
        for point in three_mixes(middle, model):
            said += [words.radius(point)] + [gain.label for gain in gains(middle, model, point, 10)]
        for entry in sorted(model.classes, key=lambda entry: -(entry.risk or 0))[:12]:
            said += [entry.label, words.value(entry.risk), words.span(entry.lower, entry.upper), f"{entry.count:,}"]
        best = max(model.classes, key=lambda entry: entry.marginal or 0)
        said += [f"{best.marginal:.3f}"]
    for entry in middle.comparisons:
        said += [words.difference(entry.difference), words.difference_span(entry.lower, entry.upper)]
    missing = [text for text in said if re.sub(r"[ \n]+", " ", str(text)) not in page.text]
    assert not missing


def test_seed_and_parameters_are_shown(make: Callable[..., AuditRecord]) -> None:
    record = make(5, ["a"], seed=1234567, set={"name": "kl", "parameters": {"support": "all", "upper": [0.5, np.inf]}})
    text = _Page(report.html(record)).text
    assert "1234567" in text
    assert "Parameter support" in text
    assert "[0.5, Infinity]" in text


def test_a_common_adversary_is_shown_where_it_was_asked_for(make: Callable[..., AuditRecord]) -> None:
    record = make(5, radii=(0.0, 0.1, 0.5))
    assert "Common mix" not in report.html(record)
    tree = record.model_dump()
    for model in tree["models"]:
        for point in model["curve"]:
            point["common"] = 0.12345
    page = report.html(AuditRecord.model_validate(tree))
    assert "Common mix" in page
    assert "12.3\u00a0%" in page
    assert 'id="common-title"' in page


def test_notes_say_what_went_wrong(make: Callable[..., AuditRecord]) -> None:
    text = _Page(report.html(make(10))).text
    assert "slack" in text
    assert "not converged" not in text


def test_hostile_names_stay_text(hostile: AuditRecord) -> None:
    text = report.html(hostile)
    page = _Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "<script>document.title = 'owned'</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "a\\x00b\\x1b[31mc" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f]", text)
    assert "(no name)" in page.text
    assert "雪の結晶" in page.text
    assert json.loads(re.search(r'id="mixes">(.*?)</script>', text, re.DOTALL)[1])


def test_without_scripts_three_mixes_are_shown(small: AuditRecord) -> None:
    page = _Page(report.html(small))
    live = [attributes for _, attributes in page.tags if "live" in (attributes.get("class") or "")]
    assert all("hidden" in attributes for attributes in live)
    assert [attributes.get("class") for _, attributes in page.tags].count("card") == 3 * len(small.models)
    slider = next(attributes for _, attributes in page.tags if attributes.get("id") == "slider")
    assert "hidden" in slider


def test_the_slider_holds_every_mix(small: AuditRecord) -> None:
    text = re.search(r'id="mixes">(.*?)</script>', report.html(small), re.DOTALL)[1]
    mixes = json.loads(text)
    moved = [point for point in small.models[0].curve if point.max_ratio > 1]
    assert [len(model) for model in mixes] == [len(moved)] * 2
    assert [mix["radius"] for mix in mixes[0]] == [f"radius {point.radius:.3g}" for point in moved]
    for mix, point in zip(mixes[0], moved, strict=True):
        assert mix["rows"][0][0] == gains(small, small.models[0], point, 1)[0].label


def test_a_record_without_mixes_or_models_still_makes_a_page(small: AuditRecord) -> None:
    tree = small.model_dump()
    for model in tree["models"]:
        for point in model["curve"]:
            point["distribution"] = None
    page = _Page(report.html(AuditRecord.model_validate(tree)))
    assert "The worst mixes" not in page.text
    assert "The answer" in page.text
    nothing = _Page(report.html(AuditRecord.model_validate(small.model_dump() | {"models": [], "comparisons": []})))
    assert "The record holds no model." in nothing.text


@pytest.mark.parametrize("kind", ["reverse-kl", "chi2", "tv", "frequency-cap", "top-k", "simplex"])
def test_every_set_has_words_and_pictures(make: Callable[..., AuditRecord], kind: str) -> None:
    radii = {"frequency-cap": (1, 1.5, 2, 4), "top-k": (10, 5, 2, 1), "simplex": (np.inf,)}.get(
        kind, (0, 0.05, 0.2, 0.5)
    )
    record = make(10, radii=radii, kind=kind)
    page = _Page(report.html(record))
    assert page.open == []
    assert Words(record).set_name in page.text
    assert "nan" not in page.text.lower().split()


def test_the_file_is_whole(bare: AuditRecord, tmp_path: Path) -> None:
    report.write_html(bare, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == report.html(bare)


def test_the_page_depends_on_the_record_alone(make: Callable[..., AuditRecord]) -> None:
    record = make(4, ["a"], radii=(0.0, 0.1))
    assert report.html(record) == report.html(record)
