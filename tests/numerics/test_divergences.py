"""The divergences against SciPy, against 40 digits, at their zeros, and through autograd."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from advshift.errors import InputError
from advshift.numerics import divergence

NAMES = ("kl", "reverse-kl", "chi2", "tv")


def _plain(name: str, pi: np.ndarray, p: np.ndarray) -> np.ndarray:
    return {
        "kl": lambda: rel_entr(pi, p).sum(-1),
        "reverse-kl": lambda: rel_entr(p, pi).sum(-1),
        "chi2": lambda: 0.5 * ((pi - p) ** 2 / p).sum(-1),
        "tv": lambda: 0.5 * np.abs(pi - p).sum(-1),
    }[name]()


@given(st.sampled_from(NAMES), st.integers(1, 60), st.integers(0, 10**6))
def test_agrees_with_the_plain_formula(name: str, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pi, p = rng.dirichlet(np.full(classes, 0.5), 3) + 1e-9, rng.dirichlet(np.full(classes, 2.0)) + 1e-9
    pi, p = pi / pi.sum(-1, keepdims=True), p / p.sum()
    found = divergence(name, pi, p)
    assert found.shape == (3,)
    assert (found >= 0).all()
    np.testing.assert_allclose(found, _plain(name, pi, p), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["kl", "reverse-kl"])
@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-8, 1e-12])
def test_no_digits_cancel_near_equality(name: str, size: float) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(50))
    pi = p * (1 + size * (rng.normal(size=50)))
    pi = pi / pi.sum()
    first, second = (pi, p) if name == "kl" else (p, pi)
    with mpmath.workdps(50):
        pairs = [(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(first, second, strict=True)]
        exact = float(sum(a * mpmath.log(a / b) - a + b for a, b in pairs))
    assert divergence(name, pi, p) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "pi", "p", "exact"),
    [
        ("kl", [0.5, 0.5, 0.0], [0.25, 0.25, 0.5], np.log(2)),
        ("kl", [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 0.0),
        ("kl", [0.5, 0.5], [1.0, 0.0], np.inf),
        ("reverse-kl", [0.5, 0.5], [1.0, 0.0], np.log(2)),
        ("reverse-kl", [1.0, 0.0], [0.5, 0.5], np.inf),
        ("chi2", [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], 0.5),
        ("chi2", [0.5, 0.5], [1.0, 0.0], np.inf),
        ("tv", [0.0, 1.0], [1.0, 0.0], 1.0),
        ("kl", [1.0, 1e-320], [1e-320, 1.0], -np.log(1e-320)),
    ],
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_zeros(name: str, pi: list[float], p: list[float], exact: float, library: str) -> None:
    arguments = [np.array(pi), np.array(p)]
    if library == "torch":
        arguments = [torch.from_numpy(argument) for argument in arguments]
    assert float(divergence(name, *arguments)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_leading_axes_broadcast_and_torch_agrees(name: str) -> None:
    rng = np.random.default_rng(1)
    pi, p = rng.dirichlet(np.ones(6), (4, 1)), rng.dirichlet(np.ones(6), 3)
    found = divergence(name, pi, p)
    assert found.shape == (4, 3)
    assert found[2, 1] == pytest.approx(float(divergence(name, pi[2, 0], p[1])), rel=1e-14)
    tensors = torch.from_numpy(pi), torch.from_numpy(p)
    np.testing.assert_allclose(divergence(name, *tensors), found, rtol=1e-13)
    narrow = divergence(name, pi.astype(np.float32), p.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, found, rtol=1e-4)


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi2"])
def test_gradients_are_right_and_finite_beside_zeros(name: str) -> None:
    pi = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64, requires_grad=True)
    p = torch.tensor([0.5, 0.1, 0.4, 0.0], dtype=torch.float64)
    divergence(name, pi, p, check=False).backward()
    a, b = pi.detach()[:3], p[:3]
    exact = {"kl": torch.log(a / b), "reverse-kl": 1 - b / a, "chi2": (a - b) / b}[name]
    assert torch.allclose(pi.grad[:3], exact, rtol=1e-10, atol=1e-14)
    assert torch.isfinite(pi.grad).all()


@pytest.mark.parametrize(
    ("name", "pi", "p", "message"),
    [
        ("kll", [1.0], [1.0], r"unknown divergence 'kll'; did you mean 'kl'\? \(known: kl, reverse-kl, chi2, tv\)"),
        ("kl", [0.5, 0.6], [0.5, 0.5], "the distribution must be a distribution; its sum is 0.1 away"),
        ("kl", [0.5, 0.5], [1.5, -0.5], "the reference must be a distribution; it holds a negative number"),
        ("kl", [0.5, 0.5], [1.0], r"one number per class .* got shapes \(2,\) and \(1,\)"),
        ("kl", [], [], "one number per class"),
        ("kl", np.full((2, 2), 0.5), np.full((3, 2), 0.5), "do not broadcast"),
    ],
)
def test_refuses(name: str, pi: object, p: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        divergence(name, pi, p)
