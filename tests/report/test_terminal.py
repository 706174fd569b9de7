"""The terminal: every width, every encoding, no markup from names, no colour where none is wanted."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from advshift import report
from advshift.audit.record import AuditRecord
from advshift.report.canvas import Canvas


def _print(record: AuditRecord, width: int = 100, encoding: str = "utf-8", **options: object) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Console(file=file, width=width, **options).print(report.render(record))
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("name", ["small", "middle", "large", "hostile", "bare"])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(request: pytest.FixtureRequest, name: str, width: int) -> None:
    from rich.cells import cell_len

    text = _print(request.getfixturevalue(name), width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_what_matters_is_said(small: AuditRecord) -> None:
    text = " ".join(_print(small, 200).split())
    for part in ("erm", "advshift", "it can rise to", "Worst case by radius", "Who gains", "Fix these first"):
        assert part in text
    assert "On the class mix of these data the error is 30.0%." in text
    assert all(warning.message in text for warning in small.warnings)
    assert "Worst classes" in text
    assert "class 000" in text
    assert "more than chance explains" in text


def test_a_number_and_its_unit_are_never_parted(small: AuditRecord) -> None:
    for width in range(32, 60):
        assert not [line for line in _print(small, width).splitlines() if line.lstrip().startswith("%")]


def test_an_ascii_terminal_gets_ascii(hostile: AuditRecord, small: AuditRecord) -> None:
    assert _print(hostile, encoding="ascii").isascii()
    drawn = _print(small, encoding="ascii")
    assert "***" in drawn
    assert "ooo" in drawn


def test_names_are_not_markup_and_do_not_move_the_cursor(hostile: AuditRecord) -> None:
    text = _print(hostile, 200)
    assert "[red]x[/]" in text
    assert "\x1b" not in text
    assert "\x00" not in text


def test_colours_only_where_wanted(small: AuditRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[36m" in _print(small, force_terminal=True, color_system="standard", no_color=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in _print(small, force_terminal=True, color_system="standard")


def test_what_is_missing_is_left_out(bare: AuditRecord) -> None:
    text = _print(bare)
    assert "not known" in text
    assert "−1.25" in text
    assert "Fix these first" not in text
    assert "None" not in text
    assert "nan" not in text


def test_an_empty_record_prints_nothing(small: AuditRecord) -> None:
    empty = AuditRecord.model_validate(small.model_dump() | {"models": [], "comparisons": [], "warnings": []})
    assert _print(empty).strip() == ""


def test_a_rising_line_rises() -> None:
    canvas = Canvas(10, 4)
    canvas.line([0.0, 1.0], [0.0, 1.0], 0)
    rows = [row.plain for row in canvas.rows(["red"], ascii_only=True)]
    assert [len(row.rstrip()) for row in rows] == sorted((len(row.rstrip()) for row in rows), reverse=True)
    assert rows[0].endswith("*")
    assert rows[-1].startswith("*")


def test_gaps_stay_gaps() -> None:
    canvas = Canvas(8, 2)
    canvas.line([0.0, 0.3, 0.6, 1.0], [0.0, math.nan, math.nan, 0.0], 0)
    assert "".join(row.plain for row in canvas.rows(["red"], ascii_only=True)).count("*") <= 1


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1) | st.just(math.nan)), min_size=1, max_size=6),
    st.integers(1, 30),
    st.integers(1, 9),
)
def test_every_line_stays_on_the_canvas(points: list[tuple[float, float]], width: int, height: int) -> None:
    canvas = Canvas(width, height)
    xs, ys = zip(*points, strict=True)
    canvas.line(xs, ys, 0)
    rows = canvas.rows(["red"], ascii_only=False)
    assert [len(row.plain) for row in rows] == [width] * height
    assert ((canvas.bits > 0) == (canvas.owner >= 0)).all()


def test_the_common_mix_has_a_column_where_it_was_asked_for(small: AuditRecord) -> None:
    assert "common mix" not in _print(small)
    model = small.models[1]
    curve = [point.model_copy(update={"common": 0.4321}) for point in model.curve]
    judged = small.model_copy(update={"models": [small.models[0], model.model_copy(update={"curve": curve})]})
    for width in (40, 60, 120):
        text = _print(judged, width)
        assert "mix" in text
        assert "43.2" in text
