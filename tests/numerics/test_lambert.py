"""The Wright omega function against SciPy and against arithmetic with 40 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import wrightomega

from advshift.errors import InputError
from advshift.numerics import wright_omega

GRID = np.concatenate([np.linspace(-700, -1, 2001), np.linspace(-1, 5, 2001), 10 ** np.linspace(0.7, 300, 2001)])


def _exact(argument: float) -> mpmath.mpf:
    value = mpmath.mpf(argument)
    if argument < 300:
        return mpmath.lambertw(mpmath.exp(value)).real
    return mpmath.findroot(lambda w: w + mpmath.log(w) - value, value - mpmath.log(value))


def test_agrees_with_scipy() -> None:
    np.testing.assert_allclose(wright_omega(GRID), wrightomega(GRID), rtol=8e-15)


def test_is_accurate_to_two_ulp() -> None:
    with mpmath.workdps(40):
        errors = [abs(float(mpmath.mpf(float(wright_omega(z))) / _exact(float(z)) - 1)) for z in GRID[::37]]
    assert max(errors) <= 2 * np.finfo(float).eps


def test_float32() -> None:
    grid = GRID[(GRID > -80) & (GRID < 1e38)].astype(np.float32)
    found = wright_omega(grid)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wrightomega(grid.astype(float)), rtol=4e-7)


def test_limits_and_nan() -> None:
    found = wright_omega([-np.inf, -800.0, 0.0, 1.0, np.inf, np.nan])
    np.testing.assert_allclose(found, [0.0, 0.0, 0.5671432904097838, 1.0, np.inf, np.nan])


@given(st.floats(-700, 1e300))
def test_solves_its_equation(argument: float) -> None:
    found = float(wright_omega(argument))
    slack = 4e-16 * (1 + abs(argument) + found)
    assert abs(found + np.log(found) - argument) <= slack


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_agrees_and_differentiates(dtype: torch.dtype) -> None:
    argument = torch.linspace(-20, 40, 101, dtype=dtype, requires_grad=True)
    found = wright_omega(argument)
    np.testing.assert_allclose(found.detach(), wright_omega(argument.detach().numpy()), rtol=8 * torch.finfo(dtype).eps)
    found.sum().backward()
    exact = found.detach() / (1 + found.detach())
    assert torch.allclose(argument.grad, exact, rtol=1e-3 if dtype == torch.float32 else 1e-6)


def test_refuses_words() -> None:
    with pytest.raises(InputError, match="argument must be an array of real numbers"):
        wright_omega("one")
