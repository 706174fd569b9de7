"""Every optimiser of torch by name, and where weight decay belongs; averages of weights against their definition."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from advshift.errors import InputError
from advshift.training.averaging import WeightAverage
from advshift.training.optimisers import REFUSED, build_optimizer

NAMES = [
    name
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and name not in ("Optimizer", *REFUSED)
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Muon"])
def test_every_optimiser_takes_a_step(name: str) -> None:
    model = network()
    optimizer = build_optimizer(model, name.lower(), lr=0.01)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(2):
        model(torch.randn(4, 1, 4, 4)).square().sum().backward()
        optimizer.step()
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert all(changed[:1] + changed[2:])  # the bias before a norm has no gradient


def test_norms_and_biases_do_not_decay() -> None:
    model = network()
    optimizer = build_optimizer(model, "SGD", lr=0.5, weight_decay=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 0.95 if name in ("0.weight", "3.weight") else 1.0
        torch.testing.assert_close(parameter.detach(), factor * before[name])
    everything = build_optimizer(model, "AdamW", lr=0.5, weight_decay=0.1, decay_all=True)
    assert [group["weight_decay"] for group in everything.param_groups] == [0.1]


@pytest.mark.parametrize("name", REFUSED)
def test_optimisers_that_cannot_be_used_say_why(name: str) -> None:
    with pytest.raises(InputError, match=rf"optimizer {name} cannot be used here: it .*; take SGD or AdamW"):
        build_optimizer(network(), name)


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="optimizer SGD refuses its options"):
        build_optimizer(network(), "SGD", lr=-1.0)
    with pytest.raises(InputError, match="optimizer SGD: nesterov must be true or false; got 'yes'"):
        build_optimizer(network(), "SGD", lr=0.1, momentum=0.9, nesterov="yes")
    with pytest.raises(InputError, match="optimizer SGD: weight_decay must be a number; got True"):
        build_optimizer(network(), "SGD", lr=0.1, weight_decay=True)
    with pytest.raises(InputError, match="unknown optimizer 'AdamX'; did you mean 'Adam"):
        build_optimizer(network(), "AdamX")
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(InputError, match="no parameters to train"):
        build_optimizer(frozen, "SGD")


def test_an_average_is_what_it_is_defined_as() -> None:
    model = network()
    average, decay = WeightAverage(model, 0.9), 0.9
    weights = [model[3].weight.detach().clone()]  # type: ignore[index]
    for number in range(1, 30):
        with torch.no_grad():
            model[3].weight.add_(torch.randn_like(model[3].weight))  # type: ignore[index]
        average.update(model)
        kept = min(decay, (1 + number) / (10 + number))
        weights.append(kept * weights[-1] + (1 - kept) * model[3].weight.detach())  # type: ignore[index]
    own = model[3].weight.detach().clone()  # type: ignore[index]
    with average.swap(model):
        torch.testing.assert_close(model[3].weight.detach(), weights[-1])  # type: ignore[index]
    assert torch.equal(model[3].weight, own)  # type: ignore[index]


def test_an_average_of_another_model_is_refused() -> None:
    state = WeightAverage(network(), 0.9).state_dict()
    with pytest.raises(InputError, match="the saved average is of another model: 'weight'"):
        WeightAverage(nn.Linear(12, 2), 0.9).load_state_dict(state)
