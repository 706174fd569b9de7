"""Tar shards in the WebDataset layout: in order, by any number of workers, from any position."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from advshift.data import Augmentation, DataOptions, DataSet, load_data, train_batches
from advshift.data.shards import expand_braces
from advshift.errors import InputError

Members = list[tuple[str, bytes]]


def _png(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _tar(path: Path, members: Members) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def _samples(first: int, count: int, classes: int = 3) -> Members:
    return [
        member
        for number in range(first, first + count)
        for member in ((f"set/{number:05}.cls", str(number % classes).encode()), (f"set/{number:05}.png", _png(number)))
    ]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for shard in range(3):
        _tar(tmp_path / f"part-{shard:02}.tar", _samples(10 * shard, 10))
    return tmp_path


def _load(path: Path, **options: Any) -> DataSet:
    given = {"name": "shards", "path": str(path), "workers": 0, "validation": 0.0, "storage": "stream"}
    return load_data(DataOptions(**(given | options)))


def _batches(data: DataSet, **changes: Any) -> list[Any]:
    options: dict[str, Any] = {
        "batch_size": 7,
        "seed": 0,
        "epoch": 0,
        "start": 0,
        "augment": Augmentation(crop=1, flip=True),
        "num_classes": 3,
        "rank": 0,
        "world": 1,
        "normalise": (torch.zeros(3), torch.ones(3)),
        "device": torch.device("cpu"),
        "channels_last": True,
        "workers": 0,
    }
    return list(train_batches(data.train, **(options | changes)))


@pytest.mark.parametrize("storage", ["memory", "stream"])
@pytest.mark.parametrize("pattern", ["", "part-{00..02}.tar", "part-0{0,1,2}.tar"])
def test_images_and_labels_in_order(shards: Path, pattern: str, storage: str) -> None:
    data = _load(shards / pattern, storage=storage)
    assert data.class_names == ("0", "1", "2")
    assert data.train.labels.tolist() == [number % 3 for number in range(30)]
    found = {int(i): x for b in _batches(data, augment=Augmentation()) for i, x in zip(b.ids, b.inputs, strict=True)}
    for number in (0, 9, 10, 29):
        expected = np.asarray(Image.open(io.BytesIO(_png(number)))) / 255
        np.testing.assert_allclose(found[number].permute(1, 2, 0), expected, atol=1e-6)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_and_positions_change_nothing(shards: Path, workers: int) -> None:
    data = _load(shards, workers=workers)
    whole = _batches(_load(shards))
    for start in (0, 3):
        found = _batches(data, workers=workers, start=start)
        assert len(found) == len(whole) - start
        for one, other in zip(found, whole[start:], strict=True):
            assert torch.equal(one.inputs, other.inputs)
            assert torch.equal(one.labels, other.labels)


def test_a_shuffle_is_one_of_the_whole_set(shards: Path) -> None:
    first = _batches(_load(shards))[0].ids
    assert len({int(number) // 10 for number in first}) > 1


def test_labels_in_json_and_words(tmp_path: Path) -> None:
    members: Members = []
    for number in range(6):
        record = {"caption": "x", "label": "ab"[number % 2], "kind": number % 3}
        members += [(f"{number}.png", _png(number)), (f"{number}.json", json.dumps(record).encode())]
    path = _tar(tmp_path / "a.tar", members)
    assert _load(path).class_names == ("a", "b")
    assert _load(path, label="kind").train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(InputError, match=r"the \.json of .*a\.tar.*'0' has no label 'colour'; set data\.label"):
        _load(path, label="colour")


def test_names_of_classes(shards: Path) -> None:
    (shards / "classes.txt").write_text("eel\ncat\ndog\n")
    assert _load(shards).class_names == ("eel", "cat", "dog")


@pytest.mark.parametrize("layout", ["names", "folders"])
def test_parts(layout: str, tmp_path: Path) -> None:
    for part, first in (("train", 0), ("val", 20), ("test", 30)):
        name = f"{part}-000.tar" if layout == "names" else f"{part}/000.tar"
        _tar(tmp_path / name, _samples(first, 9))
    data = _load(tmp_path)
    assert (len(data.train), len(data.validation), len(data.test)) == (9, 9, 9)
    assert data.test.ids.tolist() == list(range(18, 27))
    if layout == "names":
        _tar(tmp_path / "other-000.tar", _samples(0, 3))
        with pytest.raises(InputError, match="is of no part"):
            _load(tmp_path)


def test_a_corrupt_image_is_named_by_shard_and_key(shards: Path) -> None:
    members = _samples(0, 10)
    members[7] = (members[7][0], members[7][1][:50])
    _tar(shards / "part-00.tar", members)
    with pytest.raises(InputError, match=r"part-00\.tar: set/00003'.*data\.corrupt = 'skip'"):
        _batches(_load(shards), workers=1)
    data = _load(shards, corrupt="skip")
    assert 3 not in data.train.ids.tolist()
    assert data.notices[0].startswith("left out 1 of 30 images")


def test_the_fingerprint_sees_keys_sizes_and_labels(shards: Path) -> None:
    first = _load(shards).fingerprint
    assert _load(shards, workers=2).fingerprint == first
    _tar(shards / "part-02.tar", _samples(21, 10))
    assert _load(shards).fingerprint != first


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ([("1.png", b"x")], "has no label; expected a member called .cls or .json"),
        ([("1.cls", b"1")], "holds no image"),
        ([], "holds no image"),
        ([("1.png", b"x"), ("1.json", b"{")], "is no JSON"),
        ([("1.png", b"x"), ("1.json", b"[1]")], "has no label 'cls' or 'label'"),
        ([("1.png", b"x"), ("1.cls", b"0")], "none of the 1 images"),
    ],
)
def test_what_does_not_fit(members: Members, match: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=match) as caught:
        _load(_tar(tmp_path / "a.tar", members))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.4, 0.55, 0.6])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_truncated_shard(shards: Path, share: float, workers: int) -> None:
    path = shards / "part-01.tar"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"part-01\.tar") as caught:
        _load(shards, workers=workers)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path, shards: Path) -> None:
    (shards / "part-01.tar").unlink()
    with pytest.raises(InputError, match=r"part-01\.tar' \(1 of 3 shards are missing\)"):
        _load(shards / "part-{00..02}.tar")
    with pytest.raises(InputError, match="there is no tar file in"):
        _load(_empty(tmp_path))
    (shards / "part-01.tar").write_bytes(gzip.compress((shards / "part-00.tar").read_bytes()))
    with pytest.raises(InputError, match="is compressed"):
        _load(shards)


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_braces() -> None:
    assert expand_braces("a") == ["a"]
    assert expand_braces("s-{9..11}") == ["s-9", "s-10", "s-11"]
    assert expand_braces("s-{098..101}") == ["s-098", "s-099", "s-100", "s-101"]
    assert expand_braces("{train,val}-{0..1}.tar") == ["train-0.tar", "train-1.tar", "val-0.tar", "val-1.tar"]
