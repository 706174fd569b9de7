"""Learning rates against torch's own schedulers, stepped as torch's documentation does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from advshift.errors import InputError
from advshift.training.schedules import SCHEDULES, build_schedule
from advshift.training.torch_schedules import TORCH_SCHEDULES

TOTAL, EPOCH, LR = 60, 10, 0.4
OPTIONS: dict[str, dict[str, Any]] = {
    "ConstantLR": {"factor": 0.5, "total_iters": 2},
    "CosineAnnealingLR": {"T_max": 6, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts": {"T_0": 2, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.4, "step_size_up": 7},
    "ExponentialLR": {"gamma": 0.9},
    "LinearLR": {"start_factor": 0.2, "total_iters": 4},
    "MultiStepLR": {"milestones": [2, 4], "gamma": 0.2},
    "OneCycleLR": {"max_lr": 0.4, "total_steps": TOTAL},
    "PolynomialLR": {"total_iters": 6, "power": 2.0},
    "StepLR": {"step_size": 2},
}


def rates(kind: Any, steps: int, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR, momentum=0.9)
    scheduler, found = kind(optimizer, **options), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def ours(name: str, **options: Any) -> list[float]:
    factor = build_schedule(name, TOTAL, EPOCH, lr=LR, **options)
    return [LR * factor(step) for step in range(TOTAL)]


@pytest.mark.parametrize("name", TORCH_SCHEDULES)
def test_schedulers_of_torch_by_name(name: str) -> None:
    per_step = name in ("CyclicLR", "OneCycleLR")
    wanted = rates(getattr(lr_scheduler, name), TOTAL if per_step else TOTAL // EPOCH, **OPTIONS[name])
    wanted = wanted if per_step else [rate for rate in wanted for _ in range(EPOCH)]
    options = {key: value for key, value in OPTIONS[name].items() if key != "total_steps"}
    assert ours(name, **options) == pytest.approx(wanted)


def test_a_scheduler_of_torch_may_count_steps_and_follow_a_warm_up() -> None:
    assert ours("ExponentialLR", gamma=0.9, interval="step") == pytest.approx([LR * 0.9**step for step in range(TOTAL)])
    warm = ours("StepLR", step_size=1, warmup=4)
    assert warm[:5] == pytest.approx([0.08, 0.16, 0.24, 0.32, 0.4])
    assert warm[13:15] == pytest.approx([0.4, 0.04])


def test_asking_in_any_order_gives_the_same() -> None:
    there = build_schedule("CosineAnnealingLR", TOTAL, EPOCH, lr=LR, T_max=6)
    back = build_schedule("CosineAnnealingLR", TOTAL, EPOCH, lr=LR, T_max=6)
    forwards = [there(step) for step in range(TOTAL)]
    assert [back(step) for step in reversed(range(TOTAL))] == forwards[::-1]


def test_ours_are_those_of_torch() -> None:
    cosine = rates(lr_scheduler.CosineAnnealingLR, TOTAL, T_max=TOTAL)
    assert ours("cosine") == pytest.approx(cosine)
    step = rates(lr_scheduler.MultiStepLR, TOTAL, milestones=[20, 45], gamma=0.1)
    assert ours("step", milestones=[2, 0.75]) == pytest.approx(step)
    assert ours("one-cycle") == pytest.approx(rates(lr_scheduler.OneCycleLR, TOTAL, max_lr=LR, total_steps=TOTAL))
    linear = rates(lr_scheduler.LinearLR, TOTAL, start_factor=1.0, end_factor=0.1, total_iters=TOTAL)
    assert ours("linear", final=0.1) == pytest.approx(linear)
    assert ours("constant") == [LR] * TOTAL


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "one-cycle"])
@pytest.mark.parametrize("warmup", [6, 0.1])
def test_a_warm_up_rises_in_equal_steps(name: str, warmup: float) -> None:
    found = ours(name, warmup=warmup)
    assert found[:6] == pytest.approx([LR * number / 7 for number in range(1, 7)])
    assert max(found) <= LR * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("StepLr", {}, r"unknown schedule 'StepLr'; did you mean 'StepLR'"),
        ("ReduceLROnPlateau", {}, r"unknown schedule 'ReduceLROnPlateau'"),
        ("StepLR", {"step_sise": 2}, r"schedule 'StepLR' has no option 'step_sise'; did you mean 'step_size'"),
        ("StepLR", {}, r"schedule 'StepLR' refuses its options: .*step_size"),
        ("StepLR", {"step_size": 2, "interval": "batch"}, r"interval must be 'step' or 'epoch'; got 'batch'"),
        ("cosine", {"warmup": 60}, r"warmup must be a whole number of steps below the 60 of training"),
        ("cosine", {"warmup": 1.5}, r"warmup must be .* or a fraction below 1; got 1.5"),
        ("step", {"milestones": [1], "every": 2}, r"takes milestones or every, not both"),
        (
            "one-cycle",
            {"divide": 0},
            r"schedule 'one-cycle' gives no learning rate with divide = 0; its options are numbers",
        ),
        ("cosine", {"final": "low"}, r"schedule 'cosine' gives no learning rate with final = 'low'"),
        ("linear", {"final": -1.0}, r"schedule 'linear' gives no learning rate with final = -1.0"),
        ("step", {"milestones": 3}, r"gives no learning rate with milestones = 3; .* milestones a list"),
        (
            "step",
            {"every": 1, "gamma": 1e308},
            r"schedule 'step' gives no learning rate with every = 1, gamma = 1e\+308",
        ),
        ("step", {"milestones": [1.5]}, r"a milestone is a whole number of epochs, or a fraction"),
    ],
)
def test_a_bad_schedule_is_one_sentence(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_schedule(name, TOTAL, EPOCH, lr=LR, **options)
