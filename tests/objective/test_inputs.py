"""Shapes, kinds of labels and options; and one clear sentence for each input that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import advshift
from advshift import AdvShift, RobustObjective
from advshift.adversaries import ERMAdversary
from advshift.errors import InputError
from advshift.sets import Box, FrequencyCap, KLBall

COUNTS = [50.0, 30.0, 20.0]
PI = np.array([0.2, 0.3, 0.5])
RATIO = torch.tensor(PI / (np.array(COUNTS) / 100)).float()
GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(10, 3, generator=GENERATOR)
LABELS = torch.randint(0, 3, (10,), generator=GENERATOR)


def fixed(**options: Any) -> RobustObjective:
    return RobustObjective("fixed", class_counts=COUNTS, distribution=PI, **options)


def manual(**options: Any) -> RobustObjective:
    return fixed(update="manual", **options)


def test_reductions() -> None:
    losses = RATIO[LABELS] * functional.cross_entropy(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(fixed()(LOGITS, LABELS), losses.mean())
    torch.testing.assert_close(fixed(reduction="sum")(LOGITS, LABELS), losses.sum())
    torch.testing.assert_close(fixed(reduction="none")(LOGITS, LABELS), losses)
    worst = fixed(reduction=lambda values: values.topk(3).values.mean())
    torch.testing.assert_close(worst(LOGITS, LABELS), losses.topk(3).values.mean())


def test_ignored_labels_count_nowhere() -> None:
    labels = LABELS.clone()
    labels[[1, 4]] = -100
    keep = labels >= 0
    one, other = manual(), manual()
    logits = LOGITS.clone().requires_grad_()
    loss = one(logits, labels)
    torch.testing.assert_close(loss, other(LOGITS[keep].requires_grad_(), LABELS[keep]))
    torch.testing.assert_close(one.pending, other.pending)
    loss.backward()
    assert logits.grad is not None
    assert not logits.grad[~keep].any()
    values = fixed(reduction="none")(LOGITS, labels)
    assert values.shape == (10,)
    assert not values[~keep].any()
    own = fixed(ignore_index=2)(LOGITS, LABELS)
    torch.testing.assert_close(own, fixed()(LOGITS[LABELS != 2], LABELS[LABELS != 2]))
    summed = fixed(reduction=torch.mean)(LOGITS, labels)
    torch.testing.assert_close(summed, loss.detach())


def test_label_smoothing_and_class_weights() -> None:
    weights = torch.tensor([1.0, 2.0, 0.5])
    losses = functional.cross_entropy(LOGITS, LABELS, weight=weights, label_smoothing=0.1, reduction="none")
    found = fixed(label_smoothing=0.1, class_weights=weights)(LOGITS, LABELS)
    torch.testing.assert_close(found, (RATIO[LABELS] * losses).mean())


def test_soft_labels_are_weighted_by_their_shares() -> None:
    soft = torch.rand(10, 3, generator=torch.Generator().manual_seed(1)).softmax(1)
    one = manual()
    losses = functional.cross_entropy(LOGITS, soft, reduction="none")
    loss = one(LOGITS.clone().requires_grad_(), soft)
    torch.testing.assert_close(loss, ((soft @ RATIO) * losses).mean())
    torch.testing.assert_close(one.pending[:3], losses @ soft)
    torch.testing.assert_close(one.pending[3:6], soft.sum(0))


def test_one_hot_soft_labels_are_hard_labels() -> None:
    one, other = manual(), manual()
    hot = functional.one_hot(LABELS, 3).float()
    torch.testing.assert_close(
        one(LOGITS.clone().requires_grad_(), hot), other(LOGITS.clone().requires_grad_(), LABELS)
    )
    torch.testing.assert_close(one.pending, other.pending)


def test_dense_prediction_and_tokens_are_examples_in_a_row() -> None:
    logits = torch.randn(2, 3, 4, 5, generator=GENERATOR).requires_grad_()
    labels = torch.randint(0, 3, (2, 4, 5), generator=GENERATOR)
    labels[0, 0, 0] = -100
    dense, flat = manual(), manual()
    rows = logits.permute(0, 2, 3, 1).reshape(-1, 3)
    torch.testing.assert_close(dense(logits, labels), flat(rows, labels.flatten()))
    torch.testing.assert_close(dense.pending, flat.pending)
    assert fixed(reduction="none")(logits, labels).shape == (2, 4, 5)
    tokens = manual(class_dim=-1)
    last = logits.permute(0, 2, 3, 1)
    torch.testing.assert_close(tokens(last, labels), flat(rows, labels.flatten()))
    soft = torch.rand(2, 4, 5, 3).softmax(-1)
    torch.testing.assert_close(tokens(last, soft), flat(rows, soft.reshape(-1, 3)))
    torch.testing.assert_close(manual()(logits, soft.movedim(-1, 1)), flat(rows, soft.reshape(-1, 3)))


def test_groups_take_the_place_of_classes() -> None:
    groups = torch.tensor([0, 1] * 5)
    objective = RobustObjective(
        "fixed", num_classes=3, num_groups=2, class_counts=[5.0, 5.0], distribution=[0.9, 0.1], update="manual"
    )
    losses = functional.cross_entropy(LOGITS, LABELS, reduction="none")
    loss = objective(LOGITS.clone().requires_grad_(), LABELS, groups=groups)
    torch.testing.assert_close(loss, (torch.tensor([1.8, 0.2])[groups] * losses).mean())
    torch.testing.assert_close(objective.pending[:2], torch.stack([losses[::2].sum(), losses[1::2].sum()]))


@pytest.mark.parametrize("soft", [False, True])
def test_a_group_of_an_image_is_that_of_its_pixels(soft: bool) -> None:
    logits = torch.randn(2, 3, 4, 5, generator=GENERATOR).requires_grad_()
    labels = torch.randint(0, 3, (2, 4, 5), generator=GENERATOR)
    given = functional.one_hot(labels, 3).movedim(-1, 1).float() if soft else labels
    sites = torch.tensor([1, 0])
    one, other = (RobustObjective("group-dro", num_classes=3, num_groups=2, update="manual") for _ in range(2))
    pixels = one(logits, given, groups=sites[:, None, None].expand(2, 4, 5))
    torch.testing.assert_close(other(logits, given, groups=sites), pixels)
    torch.testing.assert_close(one.pending, other.pending)


def test_any_loss_per_example() -> None:
    def squared(predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (predictions[:, 0] - targets) ** 2

    objective = RobustObjective("erm", num_groups=2, loss=squared)
    found = objective(LOGITS, LABELS, groups=torch.tensor([0, 1] * 5))
    torch.testing.assert_close(found, ((LOGITS[:, 0] - LABELS) ** 2).mean())
    module = fixed(loss=nn.MultiMarginLoss(reduction="none"))
    expected = functional.multi_margin_loss(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(module(LOGITS, LABELS), (RATIO[LABELS] * expected).mean())


def test_losses_and_reductions_by_name() -> None:
    from advshift.losses import Focal, LogitAdjusted
    from advshift.reductions import CVaR

    losses = RATIO[LABELS] * Focal(label_smoothing=0.1)(LOGITS, LABELS)
    torch.testing.assert_close(fixed(loss="focal", label_smoothing=0.1)(LOGITS, LABELS), losses.mean())
    losses = RATIO[LABELS] * LogitAdjusted(COUNTS)(LOGITS, LABELS)
    torch.testing.assert_close(fixed(loss="logit-adjusted")(LOGITS, LABELS), losses.mean())
    labels = LABELS.clone()
    labels[:3] = -100
    weighted = RATIO[LABELS] * functional.cross_entropy(LOGITS, LABELS, reduction="none")
    found = fixed(reduction=CVaR(0.3))(LOGITS, labels)
    torch.testing.assert_close(found, CVaR(0.3)(weighted[3:]))
    torch.testing.assert_close(
        RobustObjective("erm", num_classes=3, reduction="mean")(LOGITS, LABELS),
        functional.cross_entropy(LOGITS, LABELS),
    )


def test_a_reduction_by_groups_takes_the_objectives() -> None:
    from advshift.reductions import CVaR

    losses, groups = functional.cross_entropy(LOGITS, LABELS, reduction="none"), torch.tensor([0, 1] * 5)
    means = torch.stack([losses[::2].mean(), losses[1::2].mean()])
    grouped = RobustObjective("erm", num_classes=3, num_groups=2, reduction=CVaR(0.5, num_groups=2))
    torch.testing.assert_close(grouped(LOGITS, LABELS, groups=groups), means.max())
    classes, labels = RobustObjective("erm", num_classes=3, reduction=CVaR(0.1, num_groups=3)), torch.arange(10) % 3
    losses = functional.cross_entropy(LOGITS, labels, reduction="none")
    means = torch.stack([losses[labels == y].mean() for y in range(3)])
    torch.testing.assert_close(classes(LOGITS, labels), means.max())
    soft = functional.one_hot(labels, 3).float()
    torch.testing.assert_close(classes(LOGITS, soft), means.max())
    with pytest.raises(InputError, match="for 2 groups, the objective weighs 3 classes or groups"):
        RobustObjective("erm", num_classes=3, reduction=CVaR(0.5, num_groups=2))


def test_a_built_adversary_and_a_smaller_index_type() -> None:
    objective = RobustObjective(ERMAdversary(), num_classes=3)
    plain = functional.cross_entropy(LOGITS, LABELS)
    for dtype in (torch.uint8, torch.int32):
        torch.testing.assert_close(objective(LOGITS, LABELS.to(dtype)), plain)


def test_a_class_without_examples_gets_no_mass_and_divides_by_nothing() -> None:
    objective = AdvShift(class_counts=[60.0, 0.0, 40.0], radius=0.1)
    for _ in range(3):
        loss = objective(LOGITS.clone().requires_grad_(), torch.tensor([0, 2] * 5))
    assert torch.isfinite(loss)
    assert objective.distribution[1] == 0
    assert objective.distribution.sum() == pytest.approx(1.0, abs=1e-6)


BAD_BATCHES: list[tuple[Any, Any, str]] = [
    (LOGITS, LABELS + 2, "labels must lie from 0 to 2; got"),
    (LOGITS, LABELS - LABELS - 1, "labels must lie from 0 to 2; got -1"),
    (LOGITS, LABELS.float(), r"soft labels, which need the logits' shape \(10, 3\).*labels.long\(\)"),
    (LOGITS, LABELS.bool(), "labels must be integers"),
    (LOGITS, LABELS[:7], r"labels must be integers of shape \(10,\), one per example; got torch.int64 of shape \(7,\)"),
    (LOGITS[:, :2], LABELS, r"3 classes along axis 1; got torch.float32 of shape \(10, 2\)"),
    (LOGITS.long(), LABELS, "logits must be floating-point"),
    (LOGITS[:0], LABELS[:0], "the batch is empty"),
    (LOGITS, -torch.ones(10, 3), "soft labels must be shares from 0 up; got -1"),
    (LOGITS, torch.full((10,), -100), "every label of the batch is -100, which is ignored; skip the batch"),
]


@pytest.mark.parametrize(("logits", "labels", "message"), BAD_BATCHES)
def test_bad_batches(logits: Any, labels: Any, message: str) -> None:
    objective = AdvShift(class_counts=COUNTS)
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    with pytest.raises(InputError, match=message):
        objective(logits.clone().requires_grad_() if logits.is_floating_point() else logits, labels)
    torch.testing.assert_close(dict(objective.state_dict()), before, rtol=0, atol=0)


def test_what_is_no_tensor(no_shape_checks: None) -> None:
    with pytest.raises(InputError, match=r"got Tensor and list. Convert with torch.as_tensor"):
        fixed()(LOGITS, LABELS.tolist())
    with pytest.raises(InputError, match="got ndarray and Tensor"):
        fixed()(LOGITS.numpy(), LABELS)
    for groups in ([0, 1] * 5, np.array([0, 1] * 5)):
        with pytest.raises(InputError, match="groups must be a tensor; got"):
            RobustObjective("erm", num_classes=3, num_groups=2)(LOGITS, LABELS, groups=groups)
    for axis in (2, -3):
        with pytest.raises(InputError, match=rf"class_dim={axis} is no axis of logits of shape \(10, 3\)"):
            fixed(class_dim=axis)(LOGITS, LABELS)


def test_numbers_of_numpy_are_numbers(no_shape_checks: None) -> None:
    objective = AdvShift(3, np.float32(0.25), step_size=np.float64(0.1), clip=np.int64(3))
    assert (objective.adversary.radius, objective.adversary.step_size, objective.adversary.clip) == (0.25, 0.1, 3.0)


def test_bad_groups_and_losses() -> None:
    grouped = RobustObjective("erm", num_classes=3, num_groups=2)
    with pytest.raises(InputError, match="weighs groups; pass groups="):
        grouped(LOGITS, LABELS)
    with pytest.raises(InputError, match="weighs classes; drop groups="):
        fixed()(LOGITS, LABELS, groups=LABELS)
    with pytest.raises(InputError, match="groups must lie from 0 to 1; got 2"):
        grouped(LOGITS, LABELS, groups=torch.full((10,), 2))
    with pytest.raises(InputError, match=r"groups must be integers of shape \(10,\)"):
        grouped(LOGITS, LABELS, groups=LABELS[:3])
    with pytest.raises(InputError, match="reduction='none'"):
        fixed(loss=nn.CrossEntropyLoss())(LOGITS, LABELS)
    with pytest.raises(InputError, match="no examples of class 1, but the batch holds one"):
        AdvShift(class_counts=[1.0, 0.0, 1.0])(LOGITS, LABELS)
    with pytest.raises(InputError, match="no examples of group 1, but"):
        RobustObjective("erm", num_classes=3, num_groups=2, class_counts=[5, 0])(LOGITS, LABELS, groups=LABELS % 2)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"adversary": "advshift", "radius": -0.1}, "the radius must be a number from 0 up; got -0.1"),
    ({"adversary": "exact", "radius": -0.1}, "the radius must be a number from 0 up"),
    ({"adversary": "exact"}, "'kl' needs its radius: pass radius="),
    ({"adversary": "exact", "uncertainty": "box"}, "pass the set itself"),
    ({"adversary": "exact", "uncertainty": "simplex", "radius": 0.1}, "has no radius; leave it out"),
    ({"adversary": "exact", "uncertainty": KLBall(0.1), "radius": 0.1}, "has its own radius"),
    ({"adversary": "exact", "uncertainty": "top-k", "radius": 7.0}, "at most the number of classes"),
    ({"adversary": "exact", "uncertainty": KLBall([0.1, 0.2])}, "one set, not an array"),
    ({"adversary": "exact", "uncertainty": Box(0.0, 0.5, support="all")}, "support='reference'"),
    ({"adversary": "exact", "radius": 0.1, "momentum": 1.0}, "momentum must be below 1"),
    ({"adversary": "advshift", "uncertainty": "tv"}, "takes no uncertainty: its penalty.*use adversary='exact'"),
    ({"adversary": "group-dro", "radius": 0.1}, "takes no radius: its exponentiated gradient"),
    ({"adversary": "agnostic", "uncertainty": "tv"}, "offered on 'simplex' and 'kl', not on 'tv'"),
    ({"adversary": "agnostic", "uncertainty": "kl"}, "a radius belongs to uncertainty='kl'"),
    ({"adversary": "tilted", "radius": 0.1}, "penalised at rate 1/s, not bounded"),
    ({"adversary": "class-cvar", "radius": 0.1}, "pass level="),
    ({"adversary": "class-cvar", "level": 1.5}, "a share above 0 and up to 1"),
    ({"adversary": "erm", "radius": 0.1}, "fears no shift"),
    ({"adversary": "balanced", "uncertainty": "kl"}, "its target does not move"),
    ({"adversary": "fixed"}, "needs distribution="),
    ({"adversary": "fixed", "distribution": [0.5, 0.5, 0.5]}, "must be a distribution"),
    ({"adversary": "fixed", "distribution": [0.5, 0.5]}, "has 2 classes, the reference 3"),
    ({"adversary": "fixed", "distribution": [0.5, 0.5, 0.0], "class_counts": [1, 0, 1]}, "without training examples"),
    ({"adversary": "group-dro", "adjustment": 1.0}, "pass examples= or class_counts="),
    ({"adversary": "advshift", "stepsize": 1.0}, "no option 'stepsize'; did you mean 'step_size'"),
    ({"adversary": "advshit"}, "did you mean 'advshift'"),
    ({"adversary": "ldam"}, "'ldam' is no adversary but a loss: pass loss='ldam'"),
    ({"adversary": "cvar"}, "'cvar' is no adversary but a reduction: pass reduction='cvar'"),
    ({"reduction": "cvar"}, r"needs alpha=; pass it built: reduction=advshift.reductions.CVaR\(alpha=...\)"),
    ({"loss": 5}, "loss must be a function .* or the name of one; got 5"),
    ({"class_dim": "last"}, "class_dim must be an axis of the logits, an integer; got 'last'"),
    ({"num_classes": None, "class_counts": [[1.0, 2.0]]}, r"one number per class; got shape \(1, 2\)"),
    ({"adversary": ERMAdversary(), "radius": 0.1}, "built already; give radius= to its constructor"),
    ({"adversary": ERMAdversary}, "the adversary's name, or an adversary; got"),
    ({"adversary": 10}, "got 10. The number of classes is num_classes="),
    ({"adversary": "tilted", "rate": np.inf}, "the rate must be a finite number from 0 up; got inf"),
    ({"adversary": "advshift", "penalty": np.inf}, "the penalty must be a finite number"),
    ({"num_classes": None}, "pass num_classes= or class_counts="),
    ({"num_classes": 0}, "whole numbers from 1 up"),
    ({"class_counts": [1.0, 2.0]}, "one number per class: 3; got shape"),
    ({"class_counts": [1.0, -2.0, 3.0]}, "numbers from 0 up, not all 0"),
    ({"class_counts": {0: 5, 1: 3, 2: 1}}, r"order of the classes: pass \[counts\[y\] for y in range"),
    ({"class_counts": [0.0, 0.0, 0.0]}, "numbers from 0 up, not all 0"),
    ({"class_counts": COUNTS, "reference_momentum": 0.9}, "give one of the two"),
    ({"reference_momentum": 1.5}, "reference_momentum must be a number from 0 to 1"),
    ({"start_after": -1}, "start_after must be a number of steps or a fraction"),
    ({"start_after": 0.5}, "pass total_steps="),
    ({"start_after": 0.5, "total_steps": 0}, "total_steps must be the number of training's steps, from 1 up; got 0"),
    ({"start_after": 1.5}, "no fraction of training below 1"),
    ({"label_smoothing": 1.5}, "label_smoothing must be a number from 0 to 1"),
    ({"label_smoothing": "much"}, "label_smoothing must be a number from 0 to 1"),
    ({"ignore_index": "none"}, "ignore_index must be a label, an integer; got 'none'"),
    ({"class_weights": [1.0, -2.0, 3.0]}, "class_weights must be finite numbers from 0 up"),
    ({"loss": "ldam-drw", "class_counts": COUNTS}, "give total_steps"),
    (
        {"loss": "deferred", "class_counts": COUNTS, "total_steps": 9, "label_smoothing": 0.1},
        "'deferred' takes no label_smoothing; build the loss",
    ),
    ({"label_smoothing": 0.1, "loss": nn.functional.cross_entropy}, "give it to loss"),
    ({"class_weights": [1.0, 2.0, 3.0], "loss": "focal"}, "give them to loss"),
    ({"loss": "ldam"}, "made from class counts; pass class_counts="),
    ({"loss": "ldam", "num_groups": 3, "class_counts": COUNTS}, "where those are of groups, the loss itself"),
    ({"loss": "focul"}, "did you mean 'focal'"),
    ({"reduction": "average"}, "unknown reduction 'average'"),
    ({"class_weights": [1.0, 2.0]}, "class_weights must be one number per class: 3"),
    ({"initial": "middle"}, "initial must be one of 'uniform', 'reference'; got 'middle'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options(options: dict[str, Any], message: str, no_shape_checks: None) -> None:
    with pytest.raises(InputError, match=message):
        RobustObjective(**({"num_classes": 3} | options))


def test_a_cap_per_class_goes_through_a_set() -> None:
    objective = RobustObjective("exact", class_counts=COUNTS, uncertainty=FrequencyCap([1.0, 2.0, 3.0]))
    for _ in range(3):
        objective(LOGITS.clone().requires_grad_(), LABELS)
    assert bool((objective.distribution <= objective.reference * torch.tensor([1.0, 2.0, 3.0]) + 1e-6).all())


def test_without_torch_the_install_command_is_printed() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import advshift, advshift.sets\n"
        "for line in ('from advshift import RobustObjective', 'from advshift import AdvShift',"
        " 'import advshift.objective', 'import advshift.adversaries'):\n"
        "    try: exec(line)\n"
        "    except ImportError as error: print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(advshift.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.count("pip install 'advshift[torch]'") == 4
