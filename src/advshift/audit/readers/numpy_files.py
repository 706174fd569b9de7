"""NPZ and NPY files; nothing in them is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from advshift.audit.readers.arrays import Examples
from advshift.audit.readers.columns import USUAL, Wanted, find_columns
from advshift.errors import InputError

__all__ = ["load_arrays"]


def load_arrays(
    path: Path, kind: str, name: str, model: str, wanted: Wanted, *, labelled: bool = True
) -> tuple[Examples, str]:
    """Read a file's arrays by their names; also say what was found.

    Without `labelled`, a file may lack labels: they are None, and an array without names holds probabilities alone.
    """
    try:
        arrays = _load(path, kind)
    except Exception as error:
        # Damaged files make the archive, the decompressor, the header's tokeniser and its parser raise what they like.
        raise InputError(
            f"cannot read {name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None
    if kind == "npy":
        array = arrays["array"]
        bare = not labelled and array.ndim == 2 and not array.dtype.names
        arrays = {"probabilities": array} if bare else _split(array, name)
    types = {key: "DOUBLE[]" if array.ndim == 2 else "DOUBLE" for key, array in arrays.items()}
    found = find_columns(types, wanted, name, labelled=labelled)
    classes = next((key for key in arrays if key.lower() in ("classes", "class_names")), None)
    examples = Examples(
        name=model,
        labels=arrays[found.label] if found.label else None,
        predictions=None if found.prediction is None else arrays[found.prediction],
        probabilities=_probabilities(arrays, found.probabilities, name),
        losses=None if found.loss is None else arrays[found.loss],
        ids=None if found.id is None else arrays[found.id],
        classes=None if classes is None else tuple(arrays[classes].tolist()),
        source=name,
        loss_name=found.loss or "loss",
    )
    return examples, found.describe()


def _load(path: Path, kind: str) -> dict[str, Any]:
    # Opened here, since NumPy leaves a file open that turns out not to be an archive.
    with path.open("rb") as file:
        if kind == "npy":
            return {"array": np.load(file, allow_pickle=False)}
        with np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive}


def _probabilities(arrays: dict[str, Any], names: tuple[str, ...], file: str) -> Any:
    if not names:
        return None
    if len({arrays[name].shape for name in names}) > 1:
        raise InputError(f"the probabilities in {file} differ in their lengths: {', '.join(names)}")
    return arrays[names[0]] if len(names) == 1 else np.stack([arrays[name] for name in names], axis=-1)


def _split(array: Any, file: str) -> dict[str, Any]:
    """Name the columns of a single array: by its fields, or by their number and type."""
    if array.dtype.names:
        return {name: array[name] for name in array.dtype.names}
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(
            f"{file} holds one array of shape {array.shape}; expected named fields, or columns: the label, then a "
            f"prediction (whole numbers), a loss, or a probability per class. An NPZ can name its arrays: "
            f"{', '.join(role[0] for role in USUAL.values())}"
        )
    if array.shape[1] > 2:
        return {"label": array[:, 0], "probabilities": array[:, 1:]}
    return {"label": array[:, 0], "prediction" if array.dtype.kind in "iub" else "loss": array[:, 1]}
