"""Downloads from a local server that breaks off, knows no ranges, and lies."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advshift.data import DataOptions, cifar, load_data
from advshift.data.downloads import Download, _Lines, fetch, shown
from advshift.errors import InputError

CONTENT = np.random.default_rng(0).bytes(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class _Server:
    """Serves one file; `faults` are taken from the front, one a request."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.faults: list[str] = []
        self.ranges: list[str | None] = []
        self.knows_ranges = True
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file.tar.gz"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.ranges.append(wanted)
        fault = self.faults.pop(0) if self.faults else ""
        if fault.isdigit():
            handler.send_error(int(fault))
            return
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.knows_ranges else 0
        if first and first >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[first:]
        handler.send_response(206 if first else 200)
        if first:
            told = first + 10 if fault == "another part" else first
            handler.send_header("Content-Range", f"bytes {told}-{len(self.content) - 1}/{len(self.content)}")
        if fault != "no length":
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if fault == "break off":
            body = body[: len(body) // 2]
        elif fault == "say nothing":
            body = b""
        elif fault == "lie":
            body = bytes(len(body))
        handler.wfile.write(body)
        handler.close_connection = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = _Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def _fetch(server: _Server, target: Path, **options: Any) -> None:
    fetch(Download(server.url, MD5), target, pause=0.0, **options)


def _alone(target: Path) -> bool:
    return [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_whole_file(server: _Server, tmp_path: Path) -> None:
    target, seen = tmp_path / "new" / "file", []
    _fetch(server, target, report=lambda there, whole: seen.append((there, whole)))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [there for there, _ in seen] == sorted(there for there, _ in seen)
    assert _alone(target)


def test_a_broken_connection_is_resumed(server: _Server, tmp_path: Path) -> None:
    server.faults = ["break off", "break off", "break off"]
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert server.ranges == [None, f"bytes={half}-", f"bytes={half * 3 // 2}-", f"bytes={half * 7 // 4}-"]


def test_many_breaks_are_no_matter_while_something_comes(server: _Server, tmp_path: Path) -> None:
    server.faults = ["break off"] * 12
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_another_call_goes_on(server: _Server, tmp_path: Path) -> None:
    server.faults = ["break off", *["503"] * 5]
    target = tmp_path / "file"
    with pytest.raises(InputError, match=r"answers 503 .*\(5 tries\); 1,500,000 bytes are kept"):
        _fetch(server, target)
    assert not target.exists()
    _fetch(server, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=1500000-"
    assert _alone(target)


def test_a_server_without_ranges(server: _Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    server.faults = ["break off"]
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_does_not_tell_the_length(server: _Server, tmp_path: Path) -> None:
    server.faults = ["no length"]
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_sends_another_part(server: _Server, tmp_path: Path) -> None:
    server.faults = ["break off", "another part"]
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges[-1] is None  # it began anew


def test_a_whole_part_is_only_checked(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [CONTENT + b"more", b"other" + CONTENT[5:]])
def test_a_part_of_another_file_is_taken_away(server: _Server, part: bytes, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(part)
    with pytest.raises(InputError, match="is not the published file"):
        _fetch(server, tmp_path / "file")
    assert not list(tmp_path.iterdir())
    _fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_lie_is_found_out(server: _Server, tmp_path: Path) -> None:
    server.faults = ["lie"]
    with pytest.raises(InputError, match=f"MD5 is .*, expected {MD5}") as caught:
        _fetch(server, tmp_path / "file")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_lie_after_a_break(server: _Server, tmp_path: Path) -> None:
    server.faults = ["break off", "lie"]
    with pytest.raises(InputError, match="is not the published file"):
        _fetch(server, tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", ["403", "404", "410"])
def test_a_refusal_is_final(server: _Server, code: str, tmp_path: Path) -> None:
    server.faults = [code]
    with pytest.raises(InputError, match=f"the server answers {code} .*by other means"):
        _fetch(server, tmp_path / "file")
    assert len(server.ranges) == 1


def test_silence_and_nobody_there(server: _Server, tmp_path: Path) -> None:
    server.faults = ["say nothing"] * 5
    with pytest.raises(InputError, match="closed after 0 of 3,000,000 bytes"):
        _fetch(server, tmp_path / "file")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{free.getsockname()[1]}/file"
        with pytest.raises(InputError, match=r"cannot fetch http://127.*refused \(5 tries\)"):
            fetch(Download(url, MD5), tmp_path / "file", pause=0.0)


def test_a_place_that_cannot_be(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot fetch .* to .*: "):
        _fetch(server, tmp_path / "file" / "below")


def test_a_full_disk(server: _Server) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    from advshift.data import downloads

    with pytest.raises(OSError, match="No space left"):
        downloads._go_on(Download(server.url, MD5), Path("/dev/full"), lambda there, whole: None)


def test_two_processes_fetch_once(server: _Server, tmp_path: Path) -> None:
    target = tmp_path / "file"
    threads = [threading.Thread(target=_fetch, args=(server, target)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_lines_where_there_is_no_terminal() -> None:
    said: list[str] = []
    lines = _Lines("set", said.append)
    for there in range(101):
        lines(there * 1_000_000, 100_000_000)
    assert said[0] == "set: 0.0 MB of 100.0 MB"
    assert len(said) == 11
    with shown("set") as report:
        report(1, None)


def test_cifar_is_fetched_once(
    server: _Server,
    cifar100_python: dict[str, bytes],
    write_archive: Callable[[Path, dict[str, dict[str, bytes]]], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.content = write_archive(tmp_path / "x.tar.gz", {"cifar-100-python": cifar100_python}).read_bytes()
    server.faults = ["break off"]
    edition = cifar.CIFAR100._replace(download=Download(server.url, hashlib.md5(server.content).hexdigest()))
    monkeypatch.setattr(cifar, "CIFAR100", edition)
    options = DataOptions(name="cifar100", path=str(tmp_path / "data"), download=True)
    monkeypatch.setattr("advshift.data.downloads.time.sleep", lambda seconds: None)
    data = load_data(options)
    assert len(data.train) == 270
    asked = len(server.ranges)
    assert load_data(options).fingerprint == data.fingerprint
    assert len(server.ranges) == asked == 2


def test_the_command_has_a_switch() -> None:
    from typer.testing import CliRunner

    from advshift.cli.app import app

    done = CliRunner().invoke(app, ["train", "cifar100-erm", "--download", "--show"])
    assert done.exit_code == 0
    assert "download = true" in done.stdout


def test_the_published_sums() -> None:
    assert cifar.CIFAR10.download.md5 == "c58f30108f718f92721af3b95e74349a"
    assert cifar.CIFAR100.download.md5 == "eb9058c3a382ffc7106e4002c42a8d85"
    for edition in (cifar.CIFAR10, cifar.CIFAR100):
        assert edition.download.url.endswith(cifar._archive_name(edition))
