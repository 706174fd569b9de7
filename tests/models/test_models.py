"""The networks: published parameter counts, shapes, options, and the same weights from the same seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from advshift.errors import InputError
from advshift.models import MODELS, build_model
from advshift.models.layers import Gain

CIFAR, IMAGENET = (3, 32, 32), (3, 224, 224)


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("depth", "millions"),
    [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)],
)
def test_cifar_resnets_have_the_published_sizes(depth: int, millions: float) -> None:
    """He et al. (2016), table 6."""
    model = build_model("cifar-resnet", 10, CIFAR, depth=depth)
    assert _parameters(model) / 1e6 == pytest.approx(millions, abs=0.06 if depth == 110 else 0.006)


@pytest.mark.parametrize(
    ("name", "count"), [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032)]
)
def test_imagenet_resnets_have_torchvisions_sizes(name: str, count: int) -> None:
    """As torchvision's documentation states them."""
    assert _parameters(build_model(name, 1000, IMAGENET)) == count


def test_cifar_resnet_18_has_the_usual_size() -> None:
    assert _parameters(build_model("cifar-resnet18-wide", 10, CIFAR)) == 11_173_962


def _by_hand(depth: int, width: int, classes: int, *, projections: bool) -> int:
    """Count the weights of the published architecture, layer by layer."""
    blocks, total, inside = (depth - 2) // 6, 3 * width * 9 + 2 * width, width
    for stage in range(3):
        wide = width * 2**stage
        for block in range(blocks):
            total += inside * wide * 9 + 2 * wide + wide * wide * 9 + 2 * wide
            if projections and block == 0 and stage:
                total += inside * wide + 2 * wide
            inside = wide
    return total + inside * classes + classes


@pytest.mark.parametrize("shortcut", ["A", "B"])
@pytest.mark.parametrize(("depth", "width"), [(8, 4), (14, 16), (20, 7)])
def test_any_depth_and_width(depth: int, width: int, shortcut: str) -> None:
    model = build_model("cifar-resnet", 7, CIFAR, depth=depth, width=width, shortcut=shortcut)
    assert _parameters(model) == _by_hand(depth, width, 7, projections=shortcut == "B")


SMALL: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"hidden": [8, 4], "dropout": 0.5},
    "cifar-resnet": {"depth": 8, "width": 4},
    "cifar-resnet18-wide": {"width": 4},
    "resnet18": {},
    "resnet34": {},
    "resnet50": {},
}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 40, 33)])
def test_every_model_gives_a_logit_a_class(name: str, shape: tuple[int, ...]) -> None:
    model = build_model(name, 5, shape, **SMALL[name])
    inputs = torch.randn(3, *shape)
    logits = model(inputs)
    assert logits.shape == (3, 5)
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    torch.testing.assert_close(model.head(model.features(inputs)), model(inputs))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_seed_gives_the_same_weights_and_disturbs_nothing(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (build_model(name, 5, CIFAR, seed=seed, **SMALL[name]).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", [name for name in MODELS if "resnet" in name])
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_norms(name: str, norm: str) -> None:
    model = build_model(name, 5, CIFAR, norm=norm, **SMALL[name])
    kinds = {type(module) for module in model.modules()}
    assert (nn.BatchNorm2d in kinds) == (norm == "batch")
    assert (nn.GroupNorm in kinds) == (norm == "group")
    assert (Gain in kinds) == (norm == "none")
    biased = {module.bias is not None for module in model.modules() if isinstance(module, nn.Conv2d)}
    assert biased == {norm == "none"}
    if norm != "batch":  # one example does not see the others
        inputs = torch.randn(3, *CIFAR)
        torch.testing.assert_close(model(inputs)[:1], model(inputs[:1]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_cosine_head(name: str) -> None:
    model = build_model(name, 5, CIFAR, head="cosine", **SMALL[name]).eval()
    inputs = torch.randn(4, *CIFAR)
    features, weights = model.features(inputs), model.head.weight
    torch.testing.assert_close(model(inputs), torch.cosine_similarity(features[:, None], weights[None], dim=2))


def test_zero_init_starts_as_the_shortcuts() -> None:
    model = build_model("cifar-resnet", 5, CIFAR, depth=8, width=4, zero_init=True).eval()
    for block in (block for stage in model.stages for block in stage):
        inputs = torch.rand(2, block.branch[0].in_channels, 8, 8)
        torch.testing.assert_close(block(inputs), block.shortcut(inputs))


def test_shortcut_a_is_every_other_pixel_and_zeros() -> None:
    model = build_model("cifar-resnet", 5, CIFAR, depth=8, width=4)
    shortcut = model.stages[1][0].shortcut
    inputs = torch.randn(2, 4, 8, 8)
    expected = torch.zeros(2, 8, 4, 4)
    expected[:, :4] = inputs[:, :, ::2, ::2]
    assert torch.equal(shortcut(inputs), expected)


def test_a_linear_model_is_one() -> None:
    model = build_model("linear", 3, (1, 2, 2))
    inputs = torch.randn(5, 1, 2, 2)
    torch.testing.assert_close(model(inputs), inputs.reshape(5, 4) @ model.head.weight.T + model.head.bias)


def test_one_hidden_layer_may_be_a_number() -> None:
    widths = [
        layer.out_features for layer in build_model("mlp", 3, (4,), hidden=6).modules() if isinstance(layer, nn.Linear)
    ]
    assert widths == [6, 3]


@pytest.mark.parametrize(
    ("name", "shape", "options", "match"),
    [
        ("cifar-resnet", CIFAR, {"depth": 21}, r"depth must be 6n \+ 2 .* got 21: take 20 or 26"),
        ("cifar-resnet", CIFAR, {"depth": 2}, "depth must be a whole number from 8 up"),
        ("cifar-resnet", CIFAR, {"width": 0}, "width must be a whole number from 1 up"),
        ("cifar-resnet", CIFAR, {"norm": "btach"}, "norm must be one of batch, group, none; got 'btach'; did you mean"),
        ("cifar-resnet", CIFAR, {"shortcut": "C"}, "shortcut must be one of A, B"),
        ("cifar-resnet", CIFAR, {"head": "cosin"}, "head must be one of linear, cosine"),
        ("cifar-resnet", CIFAR, {"dept": 20}, r"has no option 'dept'; did you mean 'depth'\? \(its options: depth"),
        ("cifar-resnet", CIFAR, {"shape": (3,)}, "gets its shape from the data"),
        ("cifar-resnet", (64,), {}, "takes images .* take 'linear' or 'mlp' for features"),
        ("mlp", (4,), {"hidden": [0]}, "each width in hidden must be"),
        ("mlp", (4,), {"dropout": 1.0}, "dropout must be a share"),
        ("resnet19", CIFAR, {}, "unknown model 'resnet19'; did you mean 'resnet"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")  # they would refuse a wrong word in words of their own
def test_what_cannot_be(name: str, shape: tuple[int, ...], options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        build_model(name, 5, shape, **options)


@pytest.mark.parametrize("classes", [0, -1, True])
def test_a_number_of_classes_that_cannot_be(classes: int) -> None:
    with pytest.raises(InputError, match="num_classes"):
        build_model("linear", classes, (4,))
