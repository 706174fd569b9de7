"""The engine against loops written by hand, and what a finished run's folder holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from advshift.data import DataSet
from advshift.errors import InputError
from advshift.sets import KLBall
from advshift.training import list_runs, train
from advshift.training.checkpoints import read_checkpoint
from advshift.training.session import Session
from advshift.training.workers import Workers

ALONE = Workers(0, 1, torch.device("cpu"))


def by_hand(session: Session, steps: int) -> tuple[list[torch.Tensor], list[torch.Tensor], np.ndarray]:
    """SGD, decay, clipping, warm-up, cosine, EMA and the fixed weights of balanced training, spelled out."""
    recipe, data = session.recipe, session.data
    weight, bias = (parameter.detach().clone() for parameter in session.model.parameters())
    averages, buffers = [weight.clone(), bias.clone()], [torch.zeros_like(weight), torch.zeros_like(bias)]
    counts = torch.bincount(data.train.labels, minlength=10).float()
    factors = counts.sum() / (10 * counts)  # balanced: a uniform distribution over the counted one
    losses = []
    batches = [batch for epoch in range(recipe.training.epochs) for batch, _ in session.feed.epoch(epoch, 0)]
    for step, batch in enumerate(batches[:steps]):
        weight.requires_grad_(True)
        bias.requires_grad_(True)
        logits = batch.inputs.flatten(1) @ weight.T + bias
        single = functional.cross_entropy(logits, batch.labels, reduction="none", label_smoothing=0.1)
        loss = (factors[batch.labels] * single).mean()
        gradients = torch.autograd.grad(loss, (weight, bias))
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        gradients = [gradient * min(1.0, 0.5 / (norm + 1e-6)) for gradient in gradients]
        rate = 0.1 * ((step + 1) / 5 if step < 4 else 0.5 * (1 + math.cos(math.pi * (step - 4) / (len(batches) - 4))))
        weight, bias = weight.detach(), bias.detach()
        for number, (value, gradient) in enumerate(zip((weight, bias), gradients, strict=True)):
            decayed = gradient + (1e-3 * value if number == 0 else 0.0)  # the bias does not decay
            buffers[number] = 0.9 * buffers[number] + decayed
            value -= rate * buffers[number]
            kept = min(0.9, (2 + step) / (11 + step))
            averages[number] = kept * averages[number] + (1 - kept) * value
        losses.append(float(functional.cross_entropy(logits.detach(), batch.labels, reduction="sum")))
    return [weight, bias], averages, np.array(losses)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_run_equals_a_loop_by_hand(small: Any, digits: DataSet, tmp_path: Path, accumulate: int) -> None:
    recipe = small(
        objective={"adversary": "balanced", "radius": None, "label_smoothing": 0.1},
        schedule={"name": "cosine", "warmup": 4},
        training={"accumulate": accumulate, "clip_norm": 0.5, "average": 0.9},
    )
    record = train(recipe, tmp_path / "run", data=digits)
    expected, averages, losses = by_hand(Session(recipe, digits, ALONE), record["steps"])
    state = read_checkpoint(tmp_path / "run" / "checkpoints" / "last.pt")["session"]
    for found, wanted in zip(state["model"].values(), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6)
    for found, wanted in zip(state["average"]["tensors"].values(), averages, strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    per_epoch = losses.reshape(3, -1).sum(axis=1) / len(digits.train)
    np.testing.assert_allclose([row["train"]["loss"] for row in rows], per_epoch, rtol=1e-5)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_peak_memory_is_not_that_of_the_parent() -> None:
    import subprocess
    import sys

    import advshift

    code = "import torch; from advshift.training.record import peak_memory; print(peak_memory(torch.device('cpu')))"
    path = str(Path(advshift.__file__).parents[1])
    big = np.ones(200_000_000)  # 1.6 GB
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}, check=True
    )
    assert 5e7 < int(done.stdout) < 1e9 < big.nbytes


def test_accumulation_steps_the_adversary_once(small: Any, digits: DataSet, tmp_path: Path) -> None:
    states = []
    for accumulate in (1, 4):
        recipe = small(training={"accumulate": accumulate})
        train(recipe, tmp_path / str(accumulate), data=digits)
        states.append(read_checkpoint(tmp_path / str(accumulate) / "checkpoints" / "last.pt")["session"])
    once, parts = states
    assert int(once["objective"]["steps"]) == int(parts["objective"]["steps"]) == once["step"]
    for name, value in once["objective"].items():
        torch.testing.assert_close(parts["objective"][name], value, rtol=1e-4, atol=1e-6)


def test_a_linear_model_on_digits_is_as_good_as_the_optimum(tmp_path: Path) -> None:
    """The problem is convex: scikit-learn's solver finds the optimum of the same objective on the same split."""
    from sklearn.linear_model import LogisticRegression

    from advshift.data import load_data
    from advshift.training import load_recipe

    decay = 0.01
    words = ["data.imbalance=none", "data.imbalance_ratio=1", "data.validation=0", "training.epochs=60"]
    recipe = load_recipe("digits-erm", [*words, f"optimizer.weight_decay={decay}", "optimizer.lr=0.2"])
    data = load_data(recipe.data)
    train(recipe, tmp_path / "run", data=data)
    parts = [(part.inputs.double().flatten(1).numpy() / 255, part.labels.numpy()) for part in (data.train, data.test)]
    (x, y), (x_test, y_test) = [((inputs - float(data.mean)) / float(data.std), labels) for inputs, labels in parts]
    optimum = LogisticRegression(C=1 / (decay * len(y)), max_iter=5000, tol=1e-8).fit(x, y)
    state = read_checkpoint(tmp_path / "run" / "checkpoints" / "last.pt")["session"]["model"]

    def value(weight: np.ndarray, bias: np.ndarray) -> float:
        losses = functional.cross_entropy(torch.from_numpy(x @ weight.T + bias), torch.from_numpy(y))
        return float(losses) + decay / 2 * float((weight**2).sum())

    found = value(state["head.weight"].double().numpy(), state["head.bias"].double().numpy())
    least = value(optimum.coef_, optimum.intercept_)
    assert least <= found < 1.01 * least
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert optimum.score(x_test, y_test) > 0.945
    assert 1 - row["test"]["error"] == pytest.approx(optimum.score(x_test, y_test), abs=0.006)  # four images


def test_the_folder_holds_what_was_promised(small: Any, digits: DataSet, tmp_path: Path) -> None:
    recipe = small(training={"checkpoint_every": 2, "average": 0.9}, evaluate={"train": "full"})
    record = train(recipe, tmp_path / "run", data=digits)
    folder = tmp_path / "run"
    assert record["status"] == "finished"
    assert record["fingerprint"] == digits.fingerprint
    assert record["versions"]["torch"] == torch.__version__
    assert record["peak_memory_bytes"] > 10_000_000
    names = {path.name for path in (folder / "checkpoints").iterdir()}
    assert names == {"last.pt", "last.previous.pt", "best.pt", "epoch-0002.pt"}
    best = read_checkpoint(folder / "checkpoints" / "best.pt")
    assert best["session"]["step"] == record["best_epoch"] * record["steps"] // 3
    with np.load(folder / "classes.npz") as classes:
        assert classes["epochs"].tolist() == [1, 2, 3]
        for split, examples in (("train", digits.train), ("validation", digits.validation), ("test", digits.test)):
            assert examples is not None
            counts = np.bincount(examples.labels.numpy(), minlength=10)
            assert (classes[f"{split}_counts"] == counts).all()
            assert classes[f"{split}_losses"].shape == (3, 10)
        np.testing.assert_allclose(classes["distribution"].sum(axis=1), 1.0, rtol=1e-5)
        last_errors = classes["test_errors"][-1]
        reference = classes["reference"][-1].astype(float)
    with np.load(folder / "predictions" / "test.npz") as predictions:
        assert digits.test is not None
        assert sorted(predictions["ids"].tolist()) == sorted(digits.test.ids.tolist())
        wrong = predictions["predictions"] != predictions["labels"]
        assert (np.bincount(predictions["labels"][wrong], minlength=10) == last_errors).all()
        assert predictions["class_names"].tolist() == list(digits.class_names)
        counts = np.bincount(predictions["labels"], minlength=10)
    row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    worst = KLBall(1.0).worst_case(last_errors / counts, reference / reference.sum()).value
    assert row["test"]["worst_case"]["1"] == pytest.approx(float(worst), rel=1e-6)
    assert list_runs(tmp_path)[0].status == "finished"


def test_predictions_are_what_an_audit_reads(small: Any, digits: DataSet, tmp_path: Path) -> None:
    from advshift.audit.request import Request, audit_files

    train(small(), tmp_path / "run", data=digits)
    file, mix = str(tmp_path / "run" / "predictions" / "test.npz"), str(tmp_path / "run" / "training-mix.csv")
    record = audit_files(Request(files=[file], reference=mix, seed=0, command="")).record
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    [model] = record.models
    assert digits.test is not None
    assert sum(entry.count for entry in model.classes) == len(digits.test)
    assert model.worst_class.value == pytest.approx(row["test"]["worst_class_error"])
    assert [entry.reference_share for entry in model.classes] == pytest.approx(
        (np.bincount(digits.train.labels.numpy()) / len(digits.train)).tolist()
    )


def test_the_callers_random_numbers_and_threads_are_left_alone(small: Any, digits: DataSet, tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    train(small(training={"threads": 2, "epochs": 1}), tmp_path / "run", data=digits)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_linear_model_takes_one_thread(small: Any, digits: DataSet) -> None:
    assert Session(small(), digits, ALONE).threads == 1
    convolutional = small(model={"name": "cifar-resnet", "depth": 8, "width": 4})
    assert Session(convolutional, digits, ALONE).threads == torch.get_num_threads()
    assert Session(small(training={"threads": 2}), digits, ALONE).threads == 2


def test_two_seeds_differ_and_one_seed_repeats(small: Any, digits: DataSet, tmp_path: Path) -> None:
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        train(small(seed=seed, training={"epochs": 1}), tmp_path / str(number), data=digits)
        state = read_checkpoint(tmp_path / str(number) / "checkpoints" / "last.pt")
        weights.append(next(iter(state["session"]["model"].values())))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_max_steps_ends_in_the_middle_of_an_epoch(small: Any, digits: DataSet, tmp_path: Path) -> None:
    record = train(small(training={"max_steps": 7}), tmp_path / "run", data=digits)
    assert record["steps"] == 7
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 7
    assert "test" in rows[-1]


def test_bf16_and_channels_last_train_a_convolutional_network(small: Any, digits: DataSet, tmp_path: Path) -> None:
    recipe = small(
        model={"name": "cifar-resnet", "depth": 8, "width": 8},
        training={"precision": "bf16", "channels_last": True, "epochs": 4},
    )
    session = Session(recipe, digits, ALONE)
    batch, _ = next(session.feed.epoch(0, 0))
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    with session.formats.autocast():
        assert session.model(batch.inputs).dtype == torch.bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in session.model.parameters())
    record = train(recipe, tmp_path / "run", data=digits)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["train"]["loss"] < 0.7 * rows[0]["train"]["loss"]
    assert record["precision"] == "bf16"


def test_held_out_and_refreshed_losses_reach_the_adversary(small: Any, digits: DataSet, tmp_path: Path) -> None:
    for kind in ("refresh", "held-out"):
        train(small(objective={"adversary_data": kind}), tmp_path / kind, data=digits)
        state = read_checkpoint(tmp_path / kind / "checkpoints" / "last.pt")["session"]
        assert int(state["objective"]["steps"]) == state["step"]


def test_the_second_pass_leaves_the_norms_statistics_alone(small: Any, digits: DataSet) -> None:
    recipe = small(model={"name": "cifar-resnet", "depth": 8, "width": 4}, objective={"adversary_data": "refresh"})
    session = Session(recipe, digits, ALONE)
    batch, size = next(session.feed.epoch(0, 0))
    session.advance(batch, size)
    norm = next(module for module in session.model.modules() if isinstance(module, nn.BatchNorm2d))
    assert int(norm.num_batches_tracked) == 1


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"optimizer": {"name": "SDG"}}, r"unknown optimizer 'SDG'; did you mean 'SGD'"),
        ({"optimizer": {"momentun": 0.9}}, r"optimizer SGD has no option 'momentun'; did you mean 'momentum'"),
        ({"schedule": {"name": "cosin"}}, r"unknown schedule 'cosin'; did you mean 'cosine'"),
        ({"schedule": {"final_value": 0.1}}, r"schedule 'cosine' has no option 'final_value'"),
        ({"objective": {"adversary": "advshif"}}, r"'advshif'; did you mean 'advshift'"),
        ({"objective": {"radios": 0.1}}, r"has no option 'radios'; did you mean 'radius'"),
        ({"objective": {"loss": "focal", "loss_options": {"gama": 1.0}}}, r"no option 'gama'; did you mean 'gamma'"),
        ({"model": {"name": "liner"}}, r"'liner'; did you mean 'linear'"),
        ({"model": {"depth": 20}}, r"has no option 'depth'"),
        (
            {"objective": {"adversary": "fixed", "radius": None, "distribution": [0.5, 0.5]}},
            r"the fixed distribution has 2 classes, the reference 10",
        ),
        ({"data": {"name": "digit"}}, r"unknown data set 'digit'; did you mean 'digits'"),
        ({"training": {"initial_weights": "nowhere.pt"}}, r"there is no checkpoint 'nowhere.pt'"),
        ({"optimizer": {"lr": 1e30}, "schedule": {"name": "constant"}}, r"training has diverged; lower optimizer.lr"),
    ],
)
def test_a_bad_recipe_is_one_sentence(small: Any, tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        train(small(**tables), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_without_a_validation_part_nothing_is_chosen(small: Any, tmp_path: Path) -> None:
    record = train(small(data={"validation": 0.0}, training={"epochs": 1}), tmp_path / "run")
    assert (record["best_epoch"], record["best"]) == (None, None)
    json.loads((tmp_path / "run" / "run.json").read_text(), parse_constant=pytest.fail)
    assert not (tmp_path / "run" / "checkpoints" / "best.pt").exists()


def test_weights_of_another_number_of_classes_are_refused(small: Any, digits: DataSet, tmp_path: Path) -> None:
    from dataclasses import replace

    train(small(training={"epochs": 1}), tmp_path / "ten", data=digits)
    fewer = {
        name: None if split is None else split.select((split.labels < 7).nonzero().flatten())
        for name, split in ((name, getattr(digits, name)) for name in ("train", "validation", "test", "held_out"))
    }
    seven = replace(digits, class_names=digits.class_names[:7], **fewer)
    recipe = small(training={"epochs": 1, "initial_weights": str(tmp_path / "ten")})
    with pytest.raises(InputError, match=r"is of another model: size mismatch .*\[10") as caught:
        train(recipe, tmp_path / "seven", data=seven)
    assert "\n" not in str(caught.value)
    train(recipe, tmp_path / "again", data=digits)
