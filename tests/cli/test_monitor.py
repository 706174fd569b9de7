"""The monitor command: real processes, real signals, and one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from advshift.cli import main
from advshift.monitor.ledger import Ledger

HEADER = "p_a,p_b,p_c"
TRAINING, SHIFTED = np.array([0.5, 0.3, 0.2]), np.array([0.15, 0.25, 0.6])
MEANS = np.array([[1.6, 0.0], [-0.8, 1.4], [-0.8, -1.4]])
DEADLINE = 600.0  # seconds; only a machine that does nothing else is quick
PLAIN = os.environ | {"ADVSHIFT_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"}


def draw(seed: int, prior: np.ndarray, size: int) -> tuple[list[str], np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, size, p=prior)
    logits = (generator.normal(size=(size, 2)) + MEANS[labels]) @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)
    odds = TRAINING * np.exp(logits)
    rows = odds / odds.sum(axis=1, keepdims=True)
    return [",".join(f"{value:.4f}" for value in row) for row in rows], labels


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    rows, labels = draw(0, TRAINING, 800)
    lines = [f"{'abc'[label]},{row}" for label, row in zip(labels, rows, strict=True)]
    Path("source.csv").write_text(f"label,{HEADER}\n" + "\n".join(lines) + "\n")
    stream = draw(1, TRAINING, 1000)[0] + draw(2, SHIFTED, 1000)[0]
    Path("stream.csv").write_text(f"{HEADER}\n" + "\n".join(stream) + "\n")
    return None


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["advshift", "monitor", *arguments])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command as a process; whatever is left at the end is ended."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, "-m", "advshift", "monitor", *arguments], subprocess.PIPE
        begun.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=PLAIN))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]
        process.wait()


def records(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def wait_for(condition: object) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def test_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("source.csv", "stream.csv", "--radius", "0.1", "--log", "log.jsonl", "--prometheus", "m.prom")
    assert run(monkeypatch, *arguments) == 0
    shown = capsys.readouterr()
    first, *reports = records("log.jsonl")
    assert first["schema"] == "advshift.monitor/1"
    assert [report["examples"] for report in reports] == list(range(250, 2001, 250))
    assert reports[3]["inside"] is True
    assert reports[-1]["inside"] is False
    rung = [one for report in reports for one in report["alarms"] if one["form"] == "detector"]
    assert 1000 < rung[0]["example"] < 1200
    assert "OUTSIDE" in shown.out
    assert "ALARM: change at example" in shown.out
    assert "advshift_monitor_examples_total 2000" in Path("m.prom").read_text()
    assert run(monkeypatch, "source.csv", "stream.csv", "-q", "--fail-on-alarm") == 3
    assert capsys.readouterr().out == ""


def test_the_radius_of_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["advshift", "audit", "source.csv", "--json", "a.json", "--radii", "0.05,0.2,inf"])
    main_code = 0
    try:
        main()
    except SystemExit as stop:
        main_code = int(stop.code or 0)
    assert main_code == 0
    assert run(monkeypatch, "source.csv", "stream.csv", "--audit", "a.json", "--log", "log.jsonl") == 0
    first, *reports = records("log.jsonl")
    assert first["settings"]["radius"] == 0.2
    assert reports[3]["audited"]["radius"] == 0.05
    assert reports[-1]["audited"]["radius"] is None
    assert run(monkeypatch, "source.csv", "stream.csv", "--audit", "a.json", "--set", "tv") == 2


def test_standard_input_in_every_form(tmp_path: Path) -> None:
    stream = Path("stream.csv").read_text()
    rows = [[float(one) for one in line.split(",")] for line in stream.splitlines()[1:]]
    guesses = ["abc"[int(np.argmax(row))] for row in rows]
    forms = {
        "csv": stream,
        "tsv": stream.replace(",", "\t"),
        "json": "".join(json.dumps({"probabilities": row}) + "\n" for row in rows),
        "windows": stream.replace("\n", "\r\n"),
        "column": "prediction\n" + "\n".join(guesses) + "\n",
        "bare": "\n".join(guesses),
    }
    found = {}
    for name, text in forms.items():
        done = subprocess.run(
            [sys.executable, "-m", "advshift", "monitor", "source.csv", "--json", "--every", "1000"],
            input=text,
            capture_output=True,
            text=True,
            env=PLAIN,
            check=True,
        )
        found[name] = [json.loads(line) for line in done.stdout.splitlines()]
    assert found["csv"][1:] == found["tsv"][1:] == found["json"][1:] == found["windows"][1:]
    assert found["column"][1:] == found["bare"][1:]
    assert found["bare"][0]["outputs"] == "predictions"
    assert found["bare"][-1]["shares"] == pytest.approx(found["csv"][-1]["shares"], abs=0.1)


def test_kill_and_go_on_gives_the_same_log(start: Start) -> None:
    """A file that grows is followed; the process is killed with SIGKILL three times, at any place, and goes on."""
    lines = Path("stream.csv").read_text().splitlines(keepends=True)
    whole = start("source.csv", "stream.csv", "--log", "whole.jsonl", "--state", "whole.json", "--every", "100", "-q")
    assert whole.wait(timeout=DEADLINE) == 0
    arguments = (
        "source.csv",
        "grows.csv",
        "--follow",
        "--log",
        "log.jsonl",
        "--state",
        "s.json",
        "--every",
        "100",
        "-q",
    )
    with Path("grows.csv").open("w") as growing:
        for part in range(4):
            process = start(*arguments)
            growing.write(
                "".join(lines[part * 500 : (part + 1) * 500 + (1 if part == 3 else 0)])[: None if part == 3 else -7]
            )
            growing.flush()
            done = (part + 1) * 500 // 100 - 1
            wait_for(lambda done=done: Path("log.jsonl").exists() and len(records_so_far("log.jsonl")) > done)
            if part < 3:
                process.send_signal(signal.SIGKILL)
                growing.write("".join(lines[part * 500 : (part + 1) * 500])[-7:])
            else:
                wait_for(lambda: json.loads(Path("s.json").read_text())["monitor"]["examples"] == 2000)
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + signal.SIGTERM
    ours, theirs = Path("log.jsonl").read_text().splitlines(), Path("whole.jsonl").read_text().splitlines()
    assert ours[1:] == theirs[1:]
    assert len(ours) == 21


def records_so_far(path: str) -> list[str]:
    return Path(path).read_text().split("\n")[:-1]


class _Killed(BaseException):
    """What ends a watch on the spot."""


@pytest.mark.parametrize("last", [1, 2, 7])
def test_a_kill_before_the_first_regular_save(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Reports are in the log before a second has passed, after which the state is saved for the first time."""
    arguments = ("source.csv", "stream.csv", "--every", "100", "-q", "--state")
    assert run(monkeypatch, *arguments, "whole.json", "--log", "whole.jsonl") == 0
    write = Ledger.report

    def killed(ledger: Ledger, report: dict[str, object]) -> None:
        write(ledger, report)
        if report["number"] == last:
            raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "report", killed)
        patched.setattr(Ledger, "due", lambda ledger: False)
        with pytest.raises(_Killed):
            run(patched, *arguments, "s.json", "--log", "log.jsonl")
    assert len(records("log.jsonl")) == 1 + last
    assert saved_examples() == 0
    assert run(monkeypatch, *arguments, "s.json", "--log", "log.jsonl") == 0
    assert Path("log.jsonl").read_text() == Path("whole.jsonl").read_text()


def test_a_log_without_its_state_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the state belongs to a watch that kept no log."""
    arguments = ("source.csv", "stream.csv", "-q", "--state", "s.json")
    assert run(monkeypatch, *arguments) == 0
    Path("notes.txt").write_text("mine")
    assert run(monkeypatch, *arguments, "--log", "notes.txt") == 2
    assert "exists already" in capsys.readouterr().err
    assert Path("notes.txt").read_text() == "mine"


def test_a_mistaken_command_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [",".join(repr(2 * float(one)) for one in row.split(",")) for row in draw(1, TRAINING, 200)[0]]
    Path("scores.csv").write_text(f"{HEADER}\n" + "\n".join(scores) + "\n")
    arguments = ("source.csv", "scores.csv", "-q", "--state", "s.json", "--log", "log.jsonl")
    assert run(monkeypatch, *arguments) == 2
    assert not Path("s.json").exists()
    assert not Path("log.jsonl").exists()
    assert run(monkeypatch, *arguments, "--renormalise") == 0


def test_kill_and_replay_standard_input(start: Start) -> None:
    text = Path("stream.csv").read_text()
    arguments = ("source.csv", "--every", "100", "-q", "--log")
    whole = start(*arguments, "whole.jsonl")
    whole.communicate(text, timeout=DEADLINE)
    process = start(*arguments, "log.jsonl", "--state", "s.json")
    assert process.stdin is not None
    process.stdin.write(text[: len(text) // 2])
    process.stdin.flush()
    wait_for(lambda: Path("s.json").exists() and saved_examples() > 0)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    again = start(*arguments, "log.jsonl", "--state", "s.json", "--replay")
    again.communicate(text, timeout=DEADLINE)
    assert again.returncode == 0
    assert Path("log.jsonl").read_text() == Path("whole.jsonl").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_what_waits(start: Start, number: signal.Signals, code: int) -> None:
    lines = Path("stream.csv").read_text().splitlines(keepends=True)
    process = start("source.csv", "--state", "s.json", "--every", "100")
    assert process.stdin is not None
    process.stdin.write("".join(lines[:151]))
    process.stdin.flush()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("examples")
    assert process.stdout.readline().startswith("100 ")
    wait_for(lambda: Path("s.json").exists())
    process.send_signal(number)
    process.wait(timeout=DEADLINE)
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.returncode == code
    assert "stopped after 150 examples; the same command goes on from there" in said
    assert "Traceback" not in said
    again = start("source.csv", "--state", "s.json", "--every", "100", "--json")
    out, _ = again.communicate("".join(lines[151:201]), timeout=DEADLINE)
    assert json.loads(out.splitlines()[1])["examples"] == 200


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    command = f"{sys.executable} -m advshift monitor source.csv stream.csv --every 20 --state s.json 2>err | head -n 2"
    subprocess.run(command, shell=True, check=True, env=PLAIN, capture_output=True)
    wait_for(lambda: Path("s.json").exists())
    assert "Traceback" not in Path("err").read_text()


def test_a_file_that_is_replaced(start: Start) -> None:
    lines = Path("stream.csv").read_text().splitlines(keepends=True)
    Path("grows.csv").write_text("".join(lines[:251]))
    process = start("source.csv", "grows.csv", "--follow", "--every", "50", "--json")
    assert process.stdout is not None
    for _ in range(6):
        process.stdout.readline()
    Path("new.csv").write_text("".join([lines[0], *lines[251:301]]))
    Path("new.csv").replace("grows.csv")
    assert json.loads(process.stdout.readline())["examples"] == 300
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)


def test_a_file_that_is_replaced_while_nobody_watches(start: Start) -> None:
    lines = Path("stream.csv").read_text().splitlines(keepends=True)
    for begin, end in ((1, 201), (201, 601)):
        Path("new.csv").write_text("".join([lines[0], *lines[begin:end]]))
        Path("new.csv").replace("grows.csv")
        process = start("source.csv", "grows.csv", "--follow", "--every", "100", "-q", "--state", "s.json")
        wait_for(lambda end=end: Path("s.json").exists() and saved_examples() == end - 1)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=DEADLINE)


def saved_examples() -> int:
    return int(json.loads(Path("s.json").read_text())["monitor"]["examples"])


def test_a_table_in_the_order_of_its_times(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import duckdb

    lines = Path("stream.csv").read_text().splitlines()[1:]
    order = np.random.default_rng(0).permutation(len(lines))
    stamped = [
        f"2026-01-{1 + place // 200:02d}T{place % 200 // 10:02d}:{place % 10:02d}:00,{lines[place]}" for place in order
    ]
    Path("table.csv").write_text(f"when,{HEADER}\n" + "\n".join(stamped) + "\n")
    duckdb.execute("COPY (SELECT * FROM 'table.csv') TO 'table.parquet' (FORMAT parquet)")
    for kind in ("csv", "parquet"):
        arguments = ("source.csv", f"table.{kind}", "--time", "when", "--every", "1d", "--log", f"{kind}.jsonl")
        assert run(monkeypatch, *arguments) == 0
        names, first, *_ = capsys.readouterr().out.splitlines()
        under = names.index("kl from training")
        assert names[:under].strip() == "until"
        assert first[:under].startswith("2026-01-01")
        assert first[under - 1] == " "
        assert first[under] != " "
    assert run(monkeypatch, "source.csv", "stream.csv", "--every", "200", "--log", "lines.jsonl", "-q") == 0
    tables = [[one["shares"] for one in records(f"{name}.jsonl")[1:]] for name in ("csv", "parquet", "lines")]
    assert len(tables[0]) == 10
    assert tables[0] == tables[1] == tables[2]
    assert records("csv.jsonl")[1]["time"] == "2026-01-01T19:09:00"


def test_a_table_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{place},{row}" for place, row in enumerate(Path("stream.csv").read_text().splitlines()[1:])]
    arguments = (
        "source.csv",
        "table.csv",
        "--time",
        "t",
        "--every",
        "300s",
        "-q",
        "--state",
        "s.json",
        "--log",
        "l.jsonl",
    )
    for size in (700, 1100, 2000):
        Path("table.csv").write_text(f"t,{HEADER}\n" + "\n".join(lines[:size]) + "\n")
        assert run(monkeypatch, *arguments) == 0
    assert run(monkeypatch, *arguments[:7], "--log", "whole.jsonl", "--state", "other.json") == 0
    assert Path("l.jsonl").read_text() == Path("whole.jsonl").read_text()


def test_pictures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "source.csv", "stream.csv", "--log", "log.jsonl", "-q", "--radius", "0.1") == 0
    for name, theme in (("a.png", "light"), ("b.png", "dark"), ("c.svg", "light"), ("d.pdf", "dark")):
        assert run(monkeypatch, "--plot", "log.jsonl", "-o", name, "--theme", theme) == 0
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    assert Path("a.png").read_bytes() != Path("b.png").read_bytes()
    text = Path("c.svg").read_text()
    assert "</svg>" in text
    with Path("log.jsonl").open("a") as file:
        file.write('{"kind": "win')  # being written
    assert run(monkeypatch, "--plot", "log.jsonl", "-o", "a.png") == 0


BAD = {
    "no source": ((), "name a labelled source"),
    "no such source": (("none.csv", "stream.csv"), "there is no file 'none.csv'"),
    "no labels": (("stream.csv", "stream.csv"), "no column of labels"),
    "no such stream": (("source.csv", "none.csv"), "there is no file 'none.csv'"),
    "empty stream": (("source.csv", "empty"), "empty holds no prediction"),
    "unit": (("source.csv", "stream.csv", "--every", "5 parsecs"), "such as 250, or a time"),
    "period without times": (("source.csv", "stream.csv", "--every", "1h"), "--time"),
    "column": (("source.csv", "stream.csv", "--time", "p_"), "no column 'p_'"),
    "method": (("source.csv", "stream.csv", "--method", "windows"), "did you mean 'window'"),
    "set": (("source.csv", "stream.csv", "--set", "simplex"), "unknown set 'simplex'"),
    "alpha": (("source.csv", "stream.csv", "--alpha", "2"), "alpha must lie between 0 and 1"),
    "run length": (("source.csv", "stream.csv", "--run-length", "0.5"), "run length"),
    "reference": (("source.csv", "stream.csv", "--reference", "mix.csv"), "names the class 'd'"),
    "log": (("source.csv", "stream.csv", "--log", "source.csv"), "exists already"),
    "two outputs": (("source.csv", "stream.csv", "--log", "x", "--state", "x"), "named for two outputs"),
    "state": (("source.csv", "stream.csv", "--state", "source.csv"), "is not a state"),
    "audit": (("source.csv", "stream.csv", "--audit", "source.csv"), "is not JSON"),
    "follow": (("source.csv", "--follow"), "--follow is for a file"),
    "source on standard input": (("-", "stream.csv"), "labelled source must be a file"),
    "picture of nothing": (("--plot", "none", "-o", "a.png"), "cannot read 'none'"),
    "picture of no log": (("--plot", "source.csv", "-o", "a.png"), "is not a log"),
    "picture of what kind": (("--plot", "source.csv", "-o", "a.gif"), "png, .svg or .pdf"),
    "picture without a name": (("--plot", "source.csv"), "-o FILE.png"),
    "name without a picture": (("source.csv", "stream.csv", "-o", "a.png"), "--plot LOG"),
    "all lines bad": (("source.csv", "logits.csv"), "none of the first 100 lines is a prediction"),
    "bad line": (("source.csv", "faulty.csv", "--on-bad-line", "stop"), "line 3 has probabilities that sum to 0.9"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str) -> None:
    Path("empty").touch()
    Path("mix.csv").write_text("class,share\na,0.5\nb,0.2\nc,0.2\nd,0.1\n")
    Path("logits.csv").write_text(f"{HEADER}\n" + "1.5,-2,0.1\n" * 200)
    Path("faulty.csv").write_text(f"{HEADER}\n0.5,0.5,0\n0.5,0.4,0\n")
    arguments, message = BAD[case]
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not Path("a.png").exists()


def test_bad_lines_are_counted_and_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("stream.csv").read_text().splitlines()
    lines[11:11] = ["oops", "0.5,nan,0.5", ""]
    Path("stream.csv").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    assert run(monkeypatch, "source.csv", "stream.csv", "--log", "log.jsonl", "--every", "2000") == 0
    said = capsys.readouterr().err
    assert "line 12 has 1 value, but the header names 3 (1 passed over)" in said
    assert "line 13 has nan where a probability should stand (2 passed over)" in said
    assert "is not text in UTF-8" in said
    assert "3 faulty lines were passed over" in said
    assert records("log.jsonl")[-1]["examples"] == 2000
    assert records("log.jsonl")[-1]["bad_lines"] == 2


def test_a_state_belongs_to_its_watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("source.csv", "stream.csv", "--state", "s.json", "-q")
    assert run(monkeypatch, *arguments) == 0
    assert run(monkeypatch, *arguments, "--every", "100") == 2
    assert "every was 250, and is 100" in capsys.readouterr().err
    assert run(monkeypatch, *arguments) == 0
    with Path("source.csv").open("a") as file:
        file.write("a,1,0,0\n")
    assert run(monkeypatch, *arguments) == 2
    assert "source was" in capsys.readouterr().err


def _resident(process: subprocess.Popen[str]) -> int:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def _watched(start: Start, total: int, part: int) -> tuple[int, int]:
    """The resident memory, in KiB, after the first part of a stream and at its end."""
    lines = "".join(line + "\n" for line in draw(3, TRAINING, part)[0])
    process = start("source.csv", "--every", "1000", "--json", "--state", "s.json", "--window", "500")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HEADER + "\n")
    process.stdin.flush()
    process.stdout.readline()
    sizes = []
    for _ in range(total // part):
        process.stdin.write(lines)
        process.stdin.flush()
        for _ in range(part // 1000):
            last = json.loads(process.stdout.readline())
        sizes.append(_resident(process))
    assert last["examples"] == total
    process.communicate(timeout=DEADLINE)
    return sizes[0], sizes[-1]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_memory_is_bounded(start: Start) -> None:
    before, after = _watched(start, 30_000, 5000)
    assert after < 1.1 * before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_memory_is_bounded_over_an_hour(start: Start) -> None:
    """A hundred predictions a second for an hour."""
    before, after = _watched(start, 360_000, 20_000)
    assert after < 1.1 * before
