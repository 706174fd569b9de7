"""One code for NumPy and torch: the array namespace, and the few operations that it lacks.

Reductions here run over the last axis and keep it with length 1, so that a number per problem broadcasts against the
problem's classes. A single NumPy problem is the exception: its reductions are plain scalars, which broadcast just as
well and make an iteration on a thousand classes three times as fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
from jaxtyping import Float

from advshift.errors import InputError
from advshift.types import Array, ArrayLike

__all__ = [
    "BLOCK",
    "as_floating",
    "as_like",
    "as_numpy",
    "as_scalar",
    "at_most",
    "calmly",
    "check_broadcast",
    "check_distribution",
    "check_rows",
    "choose",
    "choose_rarely",
    "dot",
    "epsilon",
    "everywhere",
    "from_host",
    "highest",
    "is_torch",
    "lowest",
    "namespace",
    "overwrite_with_exp",
    "readable",
    "restrict",
    "squeeze",
    "to_host",
    "total",
    "total_where",
]

T = TypeVar("T")

BLOCK = 1 << 13  # numbers summed at once: they stay in the cache, and BLAS does not wake threads for their products


def is_torch(array: object) -> bool:
    """Whether `array` is a torch tensor, found out without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: Array) -> ModuleType:
    """The array-API namespace that `array` belongs to."""
    if isinstance(array, (np.ndarray, np.generic, float)):
        return numpy_namespace
    if is_torch(array):
        import array_api_compat.torch as torch_namespace

        return torch_namespace
    found: ModuleType = array_api_compat.array_namespace(array)
    return found


def as_floating(**values: ArrayLike) -> tuple[Array, ...]:
    """Bring named values to one library, device and dtype: the widest that a floating array among them has.

    Python numbers, sequences and integer arrays follow the floating arrays, and are float64 on their own;
    half precision is raised to float32. One tensor among the values makes tensors of all.
    """
    tensor = next((value for value in values.values() if is_torch(value)), None)
    if tensor is not None:
        return _as_tensors(tensor.device, values)
    arrays = [_as_numpy(name, value) for name, value in values.items()]
    widths = [value.dtype for value in values.values() if isinstance(value, (np.ndarray, np.generic))]
    floating = [dtype for dtype in widths if dtype.kind == "f"]
    dtype = np.result_type(np.float32, *floating) if floating else np.dtype(np.float64)
    return tuple(array.astype(dtype, copy=False) for array in arrays)


def _as_numpy(name: str, value: ArrayLike) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} must be a rectangular array of numbers; its rows differ in length") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be an array of real numbers; got {type(value).__name__} of dtype {array.dtype}")
    return array


def _as_tensors(device: Any, values: dict[str, ArrayLike]) -> tuple[Array, ...]:
    import torch

    tensors = [
        value if is_torch(value) else torch.as_tensor(_as_numpy(name, value), device=device)
        for name, value in values.items()
    ]
    floating = [
        tensor.dtype
        for tensor, value in zip(tensors, values.values(), strict=True)
        if hasattr(value, "dtype") and tensor.is_floating_point()
    ]
    dtype = torch.float32 if floating else torch.float64
    for candidate in floating:
        dtype = torch.promote_types(dtype, candidate)
    return tuple(tensor.to(dtype) for tensor in tensors)


def as_like(value: ArrayLike, like: Array) -> Array:
    """Bring a number or an array to the library, device and dtype of `like`."""
    if is_torch(like):
        import torch

        return torch.as_tensor(value, dtype=like.dtype, device=like.device)
    return as_numpy(value).astype(like.dtype, copy=False)


def as_numpy(value: ArrayLike) -> Any:
    """Copy a parameter to NumPy, wherever it lies."""
    return np.asarray(value.detach().cpu() if is_torch(value) else value)


def as_scalar(number: Array) -> Array:
    """Turn a NumPy array that holds one number into that number, for the sake of speed; leave the rest alone."""
    return number[0] if isinstance(number, np.ndarray) and number.shape == (1,) else number


def check_distribution(array: Float[Array, "*batch classes"], name: str) -> float:
    """Raise unless every row of `array` is a label distribution; return by how much its sum misses one."""
    xp = namespace(array)
    error = float(xp.max(xp.abs(xp.sum(array, axis=-1) - 1.0)))
    if float(xp.min(array)) < 0:
        raise InputError(f"{name} must be a distribution; it holds a negative number: {float(xp.min(array)):g}")
    if not error <= max(1e-6, 100.0 * epsilon(array)):
        raise InputError(
            f"{name} must be a distribution; its sum is {error:g} away from 1. Divide the class counts by their total"
        )
    return error


def check_rows(name: str, values: Array, reference: Array) -> None:
    """Raise unless both hold one number per class along their last axis."""
    shapes = [tuple(array.shape) for array in (values, reference)]
    if not all(shapes) or shapes[0][-1] != shapes[1][-1] or 0 in (*shapes[0], *shapes[1]):
        raise InputError(
            f"{name} and reference must hold one number per class along their last axis; "
            f"got shapes {shapes[0]} and {shapes[1]}"
        )


def check_broadcast(name: str, values: Array, reference: Array, parameter: str, *parameters: Array) -> None:
    """Raise unless the leading axes of a problem's arrays broadcast."""
    leading = [tuple(array.shape[:-1]) for array in (values, reference, *parameters)]
    try:
        np.broadcast_shapes(*leading)
    except ValueError:
        raise InputError(
            f"the leading axes of {name} {leading[0]}, reference {leading[1]} and {parameter} "
            f"{', '.join(map(str, leading[2:]))} do not broadcast; to try every radius on every row of {name} give "
            "radius[:, None]"
        ) from None


def to_host(array: Array) -> Array:
    """What lies on the host as a NumPy array in float64: a tensor is a view there, and an eager step costs a third.

    Narrow numbers are solved in wide ones: the wide sums are what makes a float32 answer good to its last digits.
    """
    if is_torch(array) and array.device.type == "cpu":
        array = array.detach().numpy()
    return array.astype(np.float64, copy=False) if isinstance(array, np.ndarray) else array


def readable(tensor: Array) -> bool:
    """Whether a tensor's memory can be read at once: on the host, outside code that is being compiled, a plain one."""
    import torch

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def calmly(like: Array, function: Callable[..., T], *arguments: Any) -> T:
    """Apply a function without NumPy's warnings of divisions by zero and the like, where `like` is NumPy's."""
    if not isinstance(like, np.ndarray):
        return function(*arguments)
    with np.errstate(all="ignore"):
        return function(*arguments)


def from_host(array: Array, like: Array) -> Array:
    """Undo `to_host`: bring a result to the library and the floating dtype of `like`."""
    if not isinstance(array, (np.ndarray, np.generic)):
        return array
    if is_torch(like):
        import torch

        tensor = torch.from_numpy(np.asarray(array))
        return tensor.to(like.dtype) if tensor.is_floating_point() else tensor
    return array.astype(like.dtype, copy=False) if array.dtype.kind == "f" else array


def choose(condition: Any, first: Any, second: Any) -> Any:
    """`where`, without the cost of an array when the condition is a NumPy scalar."""
    if isinstance(condition, np.bool_):
        chosen, other = (first, second) if condition else (second, first)
        return other.dtype.type(chosen) if type(chosen) is float and isinstance(other, np.generic) else chosen
    return namespace(condition).where(condition, first, second)


def choose_rarely(condition: Any, first: Callable[[], Any], second: Any) -> Any:
    """As `choose`, for a first choice that costs something and is seldom wanted: NumPy makes it only when it is."""
    if isinstance(condition, (np.bool_, np.ndarray)) and not condition.any():
        return second
    return choose(condition, first(), second)


def at_most(array: Array, bound: float) -> Array:
    """The smaller of each number and a bound, in one operation."""
    return np.minimum(array, bound) if isinstance(array, np.ndarray) else array.clamp_max(bound)


def everywhere(condition: Any) -> Any:
    """One `True` for a NumPy condition that holds everywhere: `choose` and `restrict` then do nothing."""
    return np.True_ if isinstance(condition, np.ndarray) and condition.all() else condition


def restrict(array: Float[Array, "*#batch classes"], allowed: Any, other: float) -> Float[Array, "*#batch classes"]:
    """The array where `allowed`, else `other`; on NumPy the array itself, uncopied, where everything is allowed."""
    allowed = everywhere(allowed)
    return array if allowed is np.True_ else choose(allowed, array, other)


def overwrite_with_exp(array: Array) -> Array:
    """`exp` of a temporary that nobody else holds: NumPy writes it in place."""
    return np.exp(array, out=array) if type(array) is np.ndarray else namespace(array).exp(array)


def total_where(mask: Array, array: Float[Array, "*#batch classes"]) -> Array:
    """Sum over the last axis of what the mask marks."""
    if isinstance(array, np.ndarray) and array.ndim == mask.ndim == 1:
        return array[mask].sum()
    return total(choose(mask, array, 0.0))


def dot(first: Float[Array, "*#batch classes"], second: Float[Array, "*#batch classes"]) -> Array:
    """Inner product over the last axis; a single long one in blocks."""
    if not isinstance(first, np.ndarray):
        return namespace(first).sum(first * second, axis=-1, keepdims=True)
    if first.ndim == second.ndim == 1 and len(first) == len(second) > BLOCK:
        begins = range(0, len(first), BLOCK)
        return sum(np.vecdot(first[begin : begin + BLOCK], second[begin : begin + BLOCK]) for begin in begins)
    product = np.vecdot(first, second)
    return product if product.ndim == 0 else product[..., None]


def total(array: Float[Array, "*batch classes"]) -> Array:
    """Sum over the last axis."""
    if isinstance(array, np.ndarray):
        return array.sum(axis=-1, keepdims=array.ndim > 1)
    return namespace(array).sum(array, axis=-1, keepdims=True)


def highest(array: Float[Array, "*batch classes"]) -> Array:
    """Maximum over the last axis; nan if there is one."""
    if isinstance(array, np.ndarray):
        return array.max(axis=-1, keepdims=array.ndim > 1)
    return namespace(array).max(array, axis=-1, keepdims=True)


def lowest(array: Float[Array, "*batch classes"]) -> Array:
    """Minimum over the last axis; nan if there is one."""
    if isinstance(array, np.ndarray):
        return array.min(axis=-1, keepdims=array.ndim > 1)
    return namespace(array).min(array, axis=-1, keepdims=True)


def squeeze(number: Array) -> Array:
    """Drop the last axis, of length 1, of a number per problem."""
    return number if number.ndim == 0 else number[..., 0]


def epsilon(array: Array) -> float:
    """The spacing of floating-point numbers at one, in the array's dtype."""
    return float(namespace(array).finfo(array.dtype).eps)
