"""Figures and tables from recorded runs: those of the repository where it is at hand, and small ones made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from advshift.cli.app import app
from advshift.errors import InputError
from advshift.experiments.figures import FIGURES, draw_figures
from advshift.experiments.figures.adversaries import reached
from advshift.experiments.linear_methods import METHODS
from advshift.experiments.protocol import protocol
from advshift.experiments.records import Record, load_records, read_record, record_path
from advshift.experiments.selection import name_of, runs_of
from advshift.experiments.tables import TABLES, write_tables
from advshift.experiments.tabulating import debiased
from advshift.experiments.worst_case import curve, paired, summarise
from advshift.report.style import THEMES

RECORDED = Path(__file__).parents[2] / "docs" / "results" / "reproduce" / "runs"
CLASSES, EACH = 100, 100


def made(key: str, group: str, method: str, seed: int, epochs: int, rng: np.random.Generator) -> Record:
    """A record of a run that never was: errors from a Beta distribution, a mix that drifts."""
    arrays = {
        "reference": np.full(CLASSES, 1 / CLASSES, np.float32),
        "epochs": np.arange(1, epochs + 1, dtype=np.int16),
    }
    for split in ("train", "train_full", "validation", "test", "held_out"):
        counts = EACH + (np.arange(CLASSES, dtype=np.int32) if split.startswith("train") else 0)
        arrays[f"{split}_counts"] = np.broadcast_to(np.asarray(counts, np.int32), (CLASSES,)).copy()
        arrays[f"{split}_errors"] = rng.binomial(counts, rng.beta(3, 4, (epochs, CLASSES))).astype(np.uint16)
    arrays["distribution"] = rng.dirichlet(np.full(CLASSES, 5.0), epochs).astype(np.float32)
    about = {"key": key, "group": group, "method": method, "seed": seed, "status": "finished", "start_from": None}
    planned = next((run for run in protocol() if run.key == key), None)
    about |= {"device": "cpu", "seconds": 100.0 + seed, "fixed": planned and planned.fixed}
    return Record(about, arrays)


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    """A made-up record of every run of the protocol with seeds 0 and 1."""
    rng = np.random.default_rng(0)
    runs = [run for run in protocol() if run.seed in (0, 1, 1000)]
    found = {run.key: made(run.key, run.group, run.method, run.seed, max(run.epochs, 20), rng) for run in runs}
    for group in ("linear-digits", "linear-reuters52"):
        for method in METHODS:
            for seed in (0, 1):
                key = f"{group}/{method}/seed-{seed}"
                run = made(key, group, method, seed, 1, rng)
                labels = np.repeat(np.arange(CLASSES), EACH)
                wrong = np.tile(np.arange(EACH), CLASSES) < run.errors("test")[labels]
                found[key] = Record(run.about, {**run.arrays, "test_labels": labels, "test_mistakes": wrong})
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_records_alone(name: str, records: dict[str, Record], tmp_path: Path) -> None:
    figure = FIGURES[name](records, THEMES["dark"])
    figure.savefig(tmp_path / "figure.svg")
    for axes in figure.axes:
        assert axes.get_ylabel() or axes.get_yticklabels()
        assert axes.lines or axes.patches or axes.collections


def test_a_figure_without_its_runs_is_left_out_and_named(records: dict[str, Record], tmp_path: Path) -> None:
    told: list[str] = []
    some = {key: record for key, record in records.items() if record.about["group"] == "main"}
    assert draw_figures(some, tmp_path, ["headline", "radii"], tell=told.append) == 1
    assert len(list(tmp_path.glob("*.svg"))) == 2
    assert "radii: left out, no finished run of 'erm' in the group 'radii' is recorded" in told
    with pytest.raises(InputError, match="unknown figure 'headlin'; did you mean 'headline'"):
        draw_figures(some, tmp_path, ["headlin"])


def test_tables_say_what_a_loop_by_hand_says(records: dict[str, Record]) -> None:
    text = write_tables(records)
    expected = [title for name, (title, _) in TABLES.items() if name != "saddle"]
    assert text.count("**") == 2 * len(expected), [title for title in expected if title not in text]
    first, second = (runs_of(records, "main", method) for method in ("erm", "advshift"))
    changes = [
        b.errors("test").sum() / b.counts("test").sum() - a.errors("test").sum() / a.counts("test").sum()
        for a, b in zip(first, second, strict=True)
    ]
    row = next(line for line in text.split("paired by seed")[1].splitlines() if line.startswith("| AdvShift"))
    assert f"{100 * np.mean(changes):+.1f}".replace("-", "−") in row.split("|")[2]


def test_a_factor_stands_beside_advshift_as_it_is(records: dict[str, Record]) -> None:
    rows = TABLES["ablation"][1](records).splitlines()
    assert [row.split("|")[2].strip() for row in rows[2:4]] == ["as it is", "clip 0.5"]
    by_hand = [
        worst_by_hand(records[f"ablation/clip-0.5@0.1/seed-{seed}"])
        - worst_by_hand(records[f"radii/advshift-0.1/seed-{seed}"])
        for seed in (0, 1)
    ]
    assert f"{100 * np.mean(by_hand):+.1f}".replace("-", "−") in rows[3].split("|")[-2]


def test_remarks_are_measured_as_they_say(records: dict[str, Record]) -> None:
    erm, robust = (runs_of(records, "main", method) for method in ("erm", "advshift"))
    hardest = np.argsort(sum(run.errors("test") / run.counts("test") for run in erm))[-10:]
    mean = np.mean([run.arrays["distribution"][4, hardest] * CLASSES for run in robust])
    row = next(line for line in TABLES["weights"][1](records).splitlines() if line.startswith("| AdvShift | hardest"))
    assert row.split("|")[5].strip() == f"{mean:.2f}"
    gaps = [worst_by_hand(run) - worst_by_hand(run, "train_full") for run in runs_of(records, "radii", "exact-0.2")]
    row = next(line for line in TABLES["radius"][1](records).splitlines() if line.startswith("| exact adversary | 0.2"))
    assert float(row.split("|")[-2].split("±")[0].replace("−", "-")) == pytest.approx(100 * np.mean(gaps), abs=0.06)
    after, before = records["fine-tune/robust-0.1/seed-0"], records["post-hoc/erm/seed-0"]
    other = records["fine-tune/robust-0.1/seed-1"], records["post-hoc/erm/seed-1"]
    change = np.mean([worst_by_hand(after) - worst_by_hand(before), worst_by_hand(other[0]) - worst_by_hand(other[1])])
    row = next(line for line in TABLES["fine-tune"][1](records).splitlines() if "r = 0.1" in line)
    assert f"{100 * change:+.1f}".replace("-", "−") in row.split("|")[6]
    fixed, source = records["held-out/fixed-1/seed-0"], records["held-out/erm/seed-0"]
    easy = np.argsort(source.risks("test"))[:20]
    row = next(line for line in TABLES["fixed"][1](records).splitlines() if line.startswith("| held-out | 1"))
    assert (
        f"{100 * (fixed.risks('test') - source.risks('test'))[easy].mean():+.1f}".replace("-", "−") in row.split("|")[5]
    )
    ratios = [run.about["seconds"] / base.about["seconds"] for run, base in zip(robust, erm, strict=True)]
    row = next(line for line in TABLES["clock"][1](records).splitlines() if "AdvShift" in line)
    assert f"{np.median(ratios):.2f} (" in row


def worst_by_hand(run: Record, split: str = "test") -> float:
    """The worst case at radius 1 around the training distribution by a scan over the tilt's temperature."""
    risks = run.risks(split)
    temperatures = np.geomspace(1e-2, 10, 20_001)[:, None]
    values = temperatures[:, 0] * (1.0 + np.log(np.exp((risks - risks.max()) / temperatures) @ run.reference))
    return float(values.min() + risks.max())


def test_a_curve_begins_at_the_error_and_ends_at_the_worst_class(records: dict[str, Record]) -> None:
    run = records["main/erm/seed-0"]
    values = curve(run, "test", [0.0, 0.5, 1.0, 50.0])
    assert values[0] == pytest.approx(run.errors("test").sum() / run.counts("test").sum())
    assert (np.diff(values) >= 0).all()
    assert values[-1] == pytest.approx(run.risks("test").max())


def test_a_paired_difference_has_the_interval_of_a_t_test() -> None:
    from scipy.stats import ttest_rel

    first, second = {0: 1.0, 1: 2.5, 2: 3.1, 7: 9.0}, {0: 0.5, 1: 1.0, 2: 2.9}
    found = paired(first, second)
    expected = ttest_rel([1.0, 2.5, 3.1], [0.5, 1.0, 2.9]).confidence_interval()
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high))
    assert found.seeds == 3
    assert np.isnan(summarise([1.0]).lower)


def test_the_reached_divergence_is_the_sum_by_hand() -> None:
    run = made("k", "g", "m", 0, 2, np.random.default_rng(1))
    mix = run.arrays["distribution"][1].astype(float)
    assert reached(run) == pytest.approx(float(np.sum(mix * np.log(mix * CLASSES))), rel=1e-4)


def test_names() -> None:
    assert name_of("fixed-1") == "FIXED, τ = 1"
    assert name_of("exact-late-0.1") == "exact adversary, late, r = 0.1"
    assert name_of("something-new") == "something new"


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    run = made("a/b/seed-0", "a", "b", 0, 2, np.random.default_rng(0))
    run.write(tmp_path)
    path = record_path(tmp_path, run.key)
    again = read_record(path)
    assert again.about["schema"] == "advshift.experiment/1"
    assert all(np.array_equal(again.arrays[name], run.arrays[name]) for name in run.arrays)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"cannot read the record .* delete it to run it again"):
        read_record(path)
    with pytest.raises(InputError, match="there is no folder of records"):
        load_records(tmp_path / "nowhere")


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded runs are not at hand: they come with the repository")
def test_the_recorded_runs_are_those_of_the_protocol() -> None:
    found = load_records(RECORDED)
    assert set(found) <= {run.key for run in protocol()}
    assert all(record.about["commit"] for record in found.values())
    assert len(runs_of(found, "main", "erm")) == len(runs_of(found, "main", "advshift")) == 5
    value, lower, upper = debiased(runs_of(found, "main", "erm")[0], 1.0)
    assert lower < value < upper


def test_the_command_draws_and_says_what_is_missing(records: dict[str, Record], tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for record in records.values():
        if record.about["group"] in ("main", "tune"):
            record.write(folder)
    run = CliRunner().invoke
    options = ["--records", str(folder), "--figures", str(tmp_path / "f"), "--figure", "headline"]
    done = run(app, ["reproduce", *options, "--tables", str(tmp_path / "t.md")])
    assert done.exit_code == 0, done.output
    assert "1 figures in" in done.output
    assert "Main comparison" in (tmp_path / "t.md").read_text()
    shown = run(app, ["reproduce", "--store", str(tmp_path / "s"), "--records", str(folder), "--status"])
    assert shown.exit_code == 0
    assert "missing" in shown.output
    with pytest.raises(InputError, match="--figure needs a folder"):
        run(app, ["reproduce", "--figure", "headline"], catch_exceptions=False)
    with pytest.raises(InputError, match="unknown tier 'Z'"):
        run(app, ["reproduce", "--tiers", "Z"], catch_exceptions=False)
