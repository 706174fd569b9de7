"""Image folders in the layouts that people have, kept in memory or streamed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image

from advshift.data import Augmentation, DataOptions, DataSet, MemorySplit, Plan, eval_batches, load_data, train_batches
from advshift.data.streaming import StreamSplit
from advshift.errors import InputError, MissingDependencyError

CPU = torch.device("cpu")


def _picture(path: Path, number: int, size: tuple[int, int] = (8, 8)) -> None:
    """One of its own for each number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _tree(root: Path, *files: str) -> Path:
    for number, file in enumerate(files):
        _picture(root / file, number)
    return root


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    return _tree(tmp_path, *(f"{kind}/{n}.png" for kind in ("cat", "dog", "eel") for n in range(8)))


def _load(path: Path, **options: Any) -> DataSet:
    return load_data(DataOptions(**({"name": "image-folder", "path": str(path), "workers": 0} | options)))


def _pixels(split: Any, workers: int = 0) -> torch.Tensor:
    plan = Plan(torch.arange(len(split)), 0, 0, len(split))
    return next(iter(split.read([plan], None, CPU, workers)))[1]


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_one_folder_a_class(animals: Path, storage: str) -> None:
    (animals / ".hidden").mkdir()
    (animals / "cat" / "notes.txt").write_text("no image")
    data = _load(animals, storage=storage, validation=0.25)
    assert data.class_names == ("cat", "dog", "eel")
    assert data.shape == (3, 8, 8)
    assert torch.bincount(data.train.labels).tolist() == [6, 6, 6]
    assert data.validation is not None
    assert sorted([*data.train.ids.tolist(), *data.validation.ids.tolist()]) == list(range(24))
    number = int(data.train.ids[4])  # the order of the names
    expected = np.asarray(Image.open(animals / data.class_names[number // 8] / f"{number % 8}.png"))
    np.testing.assert_array_equal(_pixels(data.train)[4].numpy(), expected)


def test_memory_and_stream_give_the_same_batches(animals: Path) -> None:
    memory, stream = (_load(animals, storage=storage, held_out=0.2) for storage in ("memory", "stream"))
    assert isinstance(memory.train, MemorySplit)
    assert isinstance(stream.train, StreamSplit)
    torch.testing.assert_close(memory.mean, stream.mean)
    torch.testing.assert_close(memory.std, stream.std)
    for one, other in zip(_batches(memory), _batches(stream), strict=True):
        for field in range(3):
            assert torch.equal(one[field], other[field])


def _batches(data: DataSet, augment: Augmentation | None = None, **changes: Any) -> list[Any]:
    options: dict[str, Any] = {
        "batch_size": 4,
        "seed": 0,
        "epoch": 0,
        "start": 0,
        "augment": augment or Augmentation(crop=1, flip=True, cutout=2),
        "num_classes": 3,
        "rank": 0,
        "world": 1,
        "normalise": (torch.zeros(3), torch.ones(3)),
        "device": CPU,
        "channels_last": True,
        "workers": 0,
    }
    return list(train_batches(data.train, **(options | changes)))


@pytest.mark.parametrize("resized", [True, False])
def test_neither_workers_nor_the_position_nor_processes_change_a_batch(animals: Path, resized: bool) -> None:
    data = _load(animals, storage="stream", image_size=6)
    augment = Augmentation(random_resized_crop=resized, crop=0 if resized else 1, flip=True)
    whole = _batches(data, augment)
    for changes in ({"workers": 1}, {"workers": 2}, {"start": 3, "workers": 2}):
        found = _batches(data, augment, **changes)
        expected = whole[changes.get("start", 0) :]
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.inputs, other.inputs)
            assert torch.equal(one.ids, other.ids)
    parts = [_batches(data, augment, rank=rank, world=3) for rank in range(3)]
    for step, batch in enumerate(whole):
        assert torch.equal(torch.cat([part[step].inputs for part in parts]), batch.inputs)


def test_what_is_skipped_is_not_read(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _load(animals, storage="stream", validation=0.0)
    read = []
    original = type(data.train.pictures).read
    monkeypatch.setattr(
        type(data.train.pictures), "read", lambda self, index: read.append(index) or original(self, index)
    )
    batches = _batches(data, start=4)
    assert read == torch.cat([batch.ids for batch in batches]).tolist()
    assert len(read) == 8


def test_streaming_leaves_the_generator_of_torch_alone(animals: Path) -> None:
    data = _load(animals, storage="stream")
    before = torch.get_rng_state()
    _batches(data, workers=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_windows_differ_between_epochs_and_come_back(animals: Path) -> None:
    data = _load(animals, storage="stream", image_size=8)
    augment = Augmentation(random_resized_crop=True)
    first, again, second = (_batches(data, augment, epoch=epoch) for epoch in (0, 0, 1))
    assert torch.equal(first[0].inputs, again[0].inputs)
    by_id = [{int(i): x for b in batches for i, x in zip(b.ids, b.inputs, strict=True)} for batches in (first, second)]
    assert not any(torch.equal(by_id[0][i], by_id[1][i]) for i in by_id[0])


def test_evaluation_streams_every_image_once(animals: Path) -> None:
    data = _load(animals, storage="stream", validation=0.5)
    found = eval_batches(
        data.validation,
        batch_size=5,
        rank=0,
        world=1,
        normalise=(data.mean, data.std),
        device=CPU,
        channels_last=False,
        workers=2,
    )
    assert torch.cat([batch.ids for batch in found]).tolist() == data.validation.ids.tolist()


def test_auto_keeps_what_fits(animals: Path) -> None:
    assert isinstance(_load(animals).train, MemorySplit)
    assert isinstance(_load(animals, memory_gigabytes=24 * 192 / 2**30).train, MemorySplit)
    assert isinstance(_load(animals, memory_gigabytes=(24 * 192 - 1) / 2**30).train, StreamSplit)


def test_the_fingerprint_of_a_stream_sees_names_sizes_and_labels(animals: Path) -> None:
    first = _load(animals, storage="stream").fingerprint
    assert _load(animals, storage="stream", workers=2).fingerprint == first
    (animals / "cat" / "0.png").rename(animals / "dog" / "00.png")
    moved = _load(animals, storage="stream").fingerprint
    assert moved != first
    _picture(animals / "dog" / "00.png", 99, (8, 9))
    assert _load(animals, storage="stream", image_size=8).fingerprint != moved


@pytest.mark.parametrize("names", [("train", "val", "test"), ("training", "validation", "testing")])
def test_parts(tmp_path: Path, names: tuple[str, str, str]) -> None:
    train, validation, test = names
    files = [f"{train}/{kind}/{n}.png" for kind in "ab" for n in range(4)]
    _tree(tmp_path, *files, f"{validation}/a/x.png", f"{validation}/b/y.png", f"{test}/b/z.png")
    data = _load(tmp_path)
    assert (len(data.train), len(data.validation), len(data.test)) == (8, 2, 1)
    assert data.test.labels.tolist() == [1]
    assert any("test part has no example of class 'a'" in notice for notice in data.notices)
    ids = [*data.train.ids.tolist(), *data.validation.ids.tolist(), *data.test.ids.tolist()]
    assert sorted(ids) == list(range(11))


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    _tree(tmp_path, "train/a.png", "train/b.png", "bus/c.png", "bus/d.png")
    assert _load(tmp_path, validation=0.0).class_names == ("bus", "train")


def _imagenet(root: Path, *, flat: bool, kaggle: bool = False) -> Path:
    base = root / "ILSVRC" / "Data" / "CLS-LOC" if kaggle else root
    wnids = ("n01440764", "n01443537", "n01484850")
    for number, wnid in enumerate(wnids):
        for image in range(4):
            _picture(base / "train" / wnid / f"{wnid}_{image}.JPEG", 10 * number + image, (9 + image, 11))
    for image in range(6):
        name = f"ILSVRC2012_val_{image + 1:08}.JPEG"
        folder = base / "val" if flat else base / "val" / wnids[(image * 2) % 3]
        _picture(folder / name, 100 + image, (12, 10))
    return root


VAL = [0, 2, 1, 0, 2, 1]
WNIDS = ("n01440764", "n01443537", "n01484850")


def _kaggle_list(root: Path) -> None:
    rows = [
        f"ILSVRC2012_val_{n + 1:08},{WNIDS[label]} 85 1 499 272 {WNIDS[label]} 3 4 5 6" for n, label in enumerate(VAL)
    ]
    (root / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "\n".join(reversed(rows)) + "\n")


def _caffe_list(root: Path) -> None:
    rows = [f"ILSVRC2012_val_{n + 1:08}.JPEG {label}" for n, label in enumerate(VAL)]
    (root / "val.txt").write_text("\n".join(rows))


def _synset_list(root: Path) -> None:
    (root / "imagenet_2012_validation_synset_labels.txt").write_text("\n".join(WNIDS[label] for label in VAL))


def _kit(root: Path) -> None:
    """The development kit numbers the classes in an order of its own, and has inner nodes beside them."""
    folder = root / "ILSVRC2012_devkit_t12" / "data"
    folder.mkdir(parents=True)
    order = [2, 0, 1]
    synsets = np.array(
        [(number + 1, WNIDS[kind]) for number, kind in enumerate(order)] + [(1001, "n00001740")],
        dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O")],
    )
    scipy.io.savemat(folder / "meta.mat", {"synsets": synsets[:, None]})
    (folder / "ILSVRC2012_validation_ground_truth.txt").write_text(
        "\n".join(str(order.index(label) + 1) for label in VAL)
    )


def test_imagenet_with_class_folders(tmp_path: Path) -> None:
    data = _load(_imagenet(tmp_path, flat=False), image_size=8, val_part="test", validation=0.25)
    assert (len(data.train), len(data.validation), len(data.test)) == (9, 3, 6)
    assert data.class_names == WNIDS


@pytest.mark.parametrize("listing", [_kaggle_list, _caffe_list, _synset_list, _kit])
def test_imagenet_with_a_flat_validation_folder(tmp_path: Path, listing: Callable[[Path], None]) -> None:
    _imagenet(tmp_path, flat=True, kaggle=listing is _kaggle_list)
    listing(tmp_path)
    (tmp_path / "LOC_synset_mapping.txt").write_text(
        "n01440764 tench, Tinca tinca\nn01443537 crane\nn01484850 crane, bird\n"
    )
    data = _load(tmp_path, image_size=8)
    assert data.validation.labels.tolist() == VAL
    assert data.class_names == ("tench", "crane (n01443537)", "crane (n01484850)")


def test_lists_that_do_not_fit(tmp_path: Path) -> None:
    _imagenet(tmp_path, flat=True)
    with pytest.raises(InputError, match="have no labels: expected a folder for each class, or a list"):
        _load(tmp_path, image_size=8)
    listing = tmp_path / "val.txt"
    for text, match in (
        ("\n".join(WNIDS), "lists 3 labels for 6 images"),
        ("a.JPEG 1\nb.JPEG 2", "does not list the image 'ILSVRC2012_val_00000001.JPEG'"),
        ("\n".join(["n99999999"] * 6), "label 'n99999999' that is no class"),
        ("\n".join("123456"), "development kit's numbers, which only its meta.mat explains"),
        ("\n".join(f"ILSVRC2012_val_{n + 1:08}.JPEG 7" for n in range(6)), "label '7' that is no class"),
    ):
        listing.write_text(text)
        with pytest.raises(InputError, match=match):
            _load(tmp_path, image_size=8)


def test_tiny_imagenet(tmp_path: Path) -> None:
    for wnid in WNIDS:
        for image in range(3):
            _picture(tmp_path / "train" / wnid / "images" / f"{wnid}_{image}.JPEG", image, (64, 64))
        (tmp_path / "train" / wnid / f"{wnid}_boxes.txt").write_text("boxes")
    lines = []
    for image, label in enumerate(VAL):
        _picture(tmp_path / "val" / "images" / f"val_{image}.JPEG", image, (64, 64))
        lines.append(f"val_{image}.JPEG\t{WNIDS[label]}\t0\t32\t44\t62")
        _picture(tmp_path / "test" / "images" / f"test_{image}.JPEG", image, (64, 64))
    (tmp_path / "val" / "val_annotations.txt").write_text("\n".join(reversed(lines)) + "\n")
    (tmp_path / "wnids.txt").write_text("\n".join(reversed(WNIDS)))
    (tmp_path / "words.txt").write_text(
        "n00001740\tentity\nn01440764\ttench, Tinca tinca\nn01443537\tgoldfish\nn01484850\tshark\n"
    )
    data = _load(tmp_path)
    assert data.validation.labels.tolist() == VAL
    assert data.test is None
    assert any("has no labels and is left out" in notice for notice in data.notices)
    assert data.class_names == ("tench", "goldfish", "shark")
    assert data.shape == (3, 64, 64)
    judged = _load(tmp_path, val_part="test", validation=0.34)
    assert judged.test.labels.tolist() == VAL
    assert len(judged.validation) == 3


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_a_corrupt_image_is_fatal_and_named(animals: Path, storage: str) -> None:
    (animals / "dog" / "3.png").write_bytes((animals / "dog" / "3.png").read_bytes()[:90])
    for workers in (0, 1):
        with pytest.raises(InputError, match=r"dog/3\.png.*data\.corrupt = 'skip'") as caught:
            _batches(_load(animals, storage=storage, workers=workers, validation=0.0), workers=workers)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_corrupt_images_are_skipped_named_and_counted(animals: Path, storage: str) -> None:
    for number in range(7):
        (animals / "dog" / f"{number}.png").write_bytes(b"no image")
    data = _load(animals, storage=storage, corrupt="skip", workers=2, validation=0.0)
    assert torch.bincount(data.train.labels).tolist() == [8, 1, 8]
    assert data.train.ids.tolist() == [*range(8), *range(15, 24)]  # the others keep their names
    assert len(_batches(data)) == 5
    (notice,) = data.notices
    assert notice.startswith("left out 7 of 24 images that cannot be read")
    assert "dog/0.png' (it is no image that Pillow knows)" in notice
    assert "and 2 more" in notice


def test_a_class_without_a_good_image(animals: Path) -> None:
    for number in range(8):
        (animals / "dog" / f"{number}.png").write_bytes(b"")
    with pytest.raises(InputError, match="class 'dog' has no training example"):
        _load(animals, corrupt="skip")


def test_a_class_with_a_single_image(animals: Path) -> None:
    _picture(animals / "fox" / "0.png", 5)
    data = _load(animals, validation=0.3)
    assert torch.bincount(data.train.labels).tolist()[3] == 1
    assert any("validation part has no example of class 'fox'" in notice for notice in data.notices)


def test_the_folder_above_the_classes_is_no_set_of_one_class(tmp_path: Path) -> None:
    _tree(tmp_path, "animals/cat/0.png", "animals/dog/0.png")
    with pytest.raises(InputError, match=r"has one class only, 'animals'; .* is data.path the folder above"):
        _load(tmp_path)


def test_an_empty_class_folder(animals: Path) -> None:
    (animals / "fox").mkdir()
    with pytest.raises(InputError, match="class 'fox' has no training example"):
        _load(animals)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        _load(tmp_path / "missing")
    with pytest.raises(InputError, match="there is no class folder"):
        _load(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(InputError, match=r"there is no image in the class folders .*\(1 folders"):
        _load(tmp_path)
    (tmp_path / "cat" / "a.png").write_bytes(b"")
    with pytest.raises(InputError, match="none of the 1 images"):
        _load(tmp_path)


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_several_sizes_need_one(animals: Path, storage: str) -> None:
    _picture(animals / "eel" / "7.png", 0, (10, 12))
    with pytest.raises(InputError, match=r"eel/7\.png.*12×10 pixels, the first image 8×8; set data\.image_size"):
        _batches(_load(animals, storage=storage, validation=0.0))
    assert _load(animals, storage=storage, image_size=16, grey=True).shape == (1, 16, 16)


def test_an_unknown_class_of_a_part(tmp_path: Path) -> None:
    _tree(tmp_path, "train/cat/a.png", "train/dog/b.png", "val/cat/c.png", "val/cats/d.png")
    with pytest.raises(
        InputError, match="validation part has a class 'cats' that the training part has not; did you mean 'cat'"
    ):
        _load(tmp_path)


def test_thinning_and_holding_out_a_stream(animals: Path) -> None:
    data = _load(animals, storage="stream", imbalance="exponential", imbalance_ratio=4.0, held_out=0.4, validation=0.0)
    counts = torch.bincount(data.train.labels) + torch.bincount(data.held_out.labels, minlength=3)
    assert counts.tolist() == [8, 4, 2]


def test_a_part_without_images(tmp_path: Path) -> None:
    _tree(tmp_path, "train/cat/a.png", "train/dog/b.png")
    (tmp_path / "val" / "cat").mkdir(parents=True)
    with pytest.raises(InputError, match="the validation part holds no example"):
        _load(tmp_path)


def test_more_workers_than_cores_and_than_batches(animals: Path) -> None:
    data = _load(animals, storage="stream")
    found = _batches(data, workers=9, batch_size=20)
    assert torch.equal(found[0].inputs, _batches(data, batch_size=20)[0].inputs)


def test_without_pillow_the_extra_is_named(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocked:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.split(".")[0] == "PIL":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blocked(), *sys.meta_path])
    for source in ("image-folder", "shards"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'advshift\[images\]'"):
            _load(animals, name=source)
    assert len(load_data(DataOptions(name="digits")).train) > 0
