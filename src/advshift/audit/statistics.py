"""Mergeable statistics per class and fold: all that an audit needs to know of a file of predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from advshift.audit.folds import FOLDS, folds_of_ids, folds_of_rows
from advshift.audit.labels import Label, as_labels, sorted_labels
from advshift.errors import InputError
from advshift.numerics.backend import as_numpy
from advshift.types import Array, ArrayLike

__all__ = ["SCHEMA", "ClassStatistics"]

SCHEMA = "advshift.statistics/1"


class ClassStatistics:
    """Per class and fold: a count, the sums of some values of its examples, and the sums of their products.

        n_yf = Σ 1,   s_yf = Σ v,   C_yf = Σ v vᵀ      over the examples of class y in fold f

    A value is a model's error, its loss, or any other number that an example has. Statistics of disjoint sets of
    examples add up (`merge`), in any order and grouping: counts exactly, and sums of zeros and ones too.

    Parameters
    ----------
    values
        The names of the values, in the order of the columns that `update` takes.
    classes
        Classes that are known beforehand; others are added as they come. They are kept in order.
    folds, seed
        How many folds there are, and the seed of the hash that draws them. With one fold there is no cross-fitting.

    >>> statistics = ClassStatistics(["error"])
    >>> statistics.update(["cat", "dog", "dog"], {"error": [0, 0, 1]})
    >>> statistics.classes, statistics.count.tolist(), statistics.means[:, 0].tolist()
    (('cat', 'dog'), [1, 2], [0.0, 0.5])
    """

    def __init__(
        self, values: Sequence[str], *, classes: Sequence[Label] = (), folds: int = FOLDS, seed: int = 0
    ) -> None:
        if len(set(values)) != len(values) or not values:
            raise InputError(f"the values need names, each its own; got {list(values)}")
        if folds < 1:
            raise InputError(f"the number of folds must be 1 or more; got {folds}")
        self.values = tuple(values)
        self.classes = sorted_labels(classes)
        self.folds = folds
        self.seed = seed
        shape = (len(self.classes), folds)
        self.counts: Int[Array, "classes folds"] = np.zeros(shape, dtype=np.int64)
        self.sums: Float[Array, "classes folds values"] = np.zeros((*shape, len(values)))
        self.products: Float[Array, "classes folds values values"] = np.zeros((*shape, len(values), len(values)))

    def __repr__(self) -> str:
        return (
            f"ClassStatistics(values={list(self.values)}, classes={len(self.classes)}, "
            f"examples={int(self.counts.sum())}, folds={self.folds}, seed={self.seed})"
        )

    @property
    def count(self) -> Int[Array, "classes"]:
        """How many examples each class has."""
        return self.counts.sum(axis=1)

    @property
    def means(self) -> Float[Array, "classes values"]:
        """The mean of each value in each class; nan for a class without examples."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.sums.sum(axis=1) / self.count[:, None]

    @property
    def binary(self) -> tuple[bool, ...]:
        """Whether a value could be 0 or 1 everywhere: its sums are whole, and those of its squares the same."""
        squares = np.einsum("yfii->yfi", self.products)
        whole = (self.sums == squares) & (self.sums == np.round(self.sums)) & (self.sums <= self.counts[..., None])
        return tuple(bool(one) for one in whole.all(axis=(0, 1)))

    def update(
        self,
        labels: ArrayLike,
        values: Mapping[str, ArrayLike] | ArrayLike,
        *,
        ids: ArrayLike | None = None,
        source: str = "",
        start: int = 0,
    ) -> None:
        """Add examples.

        Parameters
        ----------
        labels
            The class of each example: whole numbers or text.
        values
            For each name of `values` a number per example; or an array of shape `(examples, values)`.
        ids
            A name or number for each example, which decides its fold. Without ids its place does.
        source, start
            The place of the first example: a file's name, and its row there.
        """
        labels = as_labels(labels)
        columns = self._columns(values, len(labels))
        if ids is None:
            folds = folds_of_rows(np.arange(start, start + len(labels)), source, self.folds, self.seed)
        else:
            folds = folds_of_ids(_checked_ids(ids, len(labels)), self.folds, self.seed)
        found, codes = np.unique(labels, return_inverse=True)
        self._cover(found.tolist())
        position = _positions(self.classes, found.tolist())
        self._add(position[codes] * self.folds + folds, columns)

    def add_groups(
        self,
        labels: Sequence[Label],
        folds: Int[Array, "groups"],
        counts: Int[Array, "groups"],
        sums: Float[Array, "groups values"],
        products: Float[Array, "groups values values"],
    ) -> None:
        """Add examples that something else has grouped already by class and fold, such as a database."""
        self._cover(labels)
        where = (_positions(self.classes, labels), folds)
        np.add.at(self.counts, where, counts)
        np.add.at(self.sums, where, sums)
        np.add.at(self.products, where, products)

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Return the statistics of both sets of examples together."""
        mine, theirs = ((one.values, one.folds, one.seed) for one in (self, other))
        if mine != theirs:
            raise InputError(
                "only statistics of the same values, folds and seed can be merged; "
                f"got {list(mine[0])}, {mine[1]}, {mine[2]} and {list(theirs[0])}, {theirs[1]}, {theirs[2]}"
            )
        merged = self.over(self.classes + other.classes)
        merged.add_groups(*other.groups())
        return merged

    def groups(self) -> tuple[list[Label], Any, Any, Any, Any]:
        """List the groups that have examples: labels, folds, counts, sums and products."""
        rows, folds = np.nonzero(self.counts)
        labels = [self.classes[row] for row in rows]
        return labels, folds, self.counts[rows, folds], self.sums[rows, folds], self.products[rows, folds]

    def over(self, classes: Sequence[Label]) -> ClassStatistics:
        """Copy these statistics, with further classes that have no examples."""
        copy = ClassStatistics(self.values, classes=[*self.classes, *classes], folds=self.folds, seed=self.seed)
        copy.add_groups(*self.groups())
        return copy

    def split(self, folds: int, generator: np.random.Generator) -> ClassStatistics:
        """Deal examples that were aggregated into one fold out to several, at random.

        The values must be zeros and ones, one of them: then a random deal of the examples is a random deal of counts,
        a class's errors in a fold being hypergeometric. Of other values the sums do not tell what a fold would hold.
        """
        if self.folds != 1 or len(self.values) != 1 or not self.binary[0]:
            raise InputError(
                "cross-fitting needs single examples, or counts of zeros and ones: from the sums of other values it "
                "cannot be known what one half of the examples would hold. Give a file with one row per example"
            )
        dealt = ClassStatistics(self.values, classes=self.classes, folds=folds, seed=self.seed)
        base, extra = np.divmod(self.counts[:, 0], folds)
        dealt.counts[:] = base[:, None] + (np.arange(folds) < extra[:, None])
        errors = self.sums[:, 0, 0].astype(np.int64)
        for row, sizes in enumerate(dealt.counts):
            dealt.sums[row, :, 0] = generator.multivariate_hypergeometric(sizes, errors[row], method="marginals")
        dealt.products[..., 0] = dealt.sums
        return dealt

    def to_json(self) -> str:
        """Write the statistics as JSON; numbers keep every digit."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "values": self.values,
                "classes": self.classes,
                "folds": self.folds,
                "seed": self.seed,
                "counts": self.counts.tolist(),
                "sums": self.sums.tolist(),
                "products": self.products.tolist(),
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> ClassStatistics:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
            if fields["schema"].rpartition("/")[0] != SCHEMA.rpartition("/")[0]:
                raise KeyError(fields["schema"])
            read = cls(fields["values"], classes=fields["classes"], folds=fields["folds"], seed=fields["seed"])
            version, known = (int(schema.rpartition("/")[2]) for schema in (fields["schema"], SCHEMA))
            counts, sums, products = (np.asarray(fields[name]) for name in ("counts", "sums", "products"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"expected class statistics in JSON, schema {SCHEMA}; it cannot be read: {error}"
            ) from None
        if version > known:
            raise InputError(f"these statistics have schema {fields['schema']}; this version reads {SCHEMA}: upgrade")
        read._fill(counts, sums, products)
        return read

    def _fill(self, counts: Any, sums: Any, products: Any) -> None:
        """Take over arrays that were read, if they fit."""
        for name, array in (("counts", counts), ("sums", sums), ("products", products)):
            own = getattr(self, name)
            if array.size == own.size == 0:
                continue
            if array.shape != own.shape or array.dtype.kind not in "if" or not np.isfinite(array).all():
                raise InputError(f"class statistics need {name} that are finite numbers of shape {own.shape}")
            setattr(self, name, array.astype(own.dtype))
        if (self.counts < 0).any():
            raise InputError("class statistics need counts that are not negative")

    def _columns(self, values: Mapping[str, ArrayLike] | ArrayLike, examples: int) -> Any:
        """Bring values to one float64 array of shape (examples, values), all finite."""
        if isinstance(values, Mapping):
            if set(values) != set(self.values):
                raise InputError(f"expected the values {list(self.values)}; got {list(values)}")
            values = np.stack([as_numpy(values[name]).astype(np.float64) for name in self.values], axis=-1)
        array = as_numpy(values).astype(np.float64)
        if array.shape != (examples, len(self.values)):
            raise InputError(
                f"expected {len(self.values)} value(s) for each of the {examples} labels; got shape {array.shape}"
            )
        wrong = np.argwhere(~np.isfinite(array))
        if wrong.size:
            row, column = wrong[0].tolist()
            raise InputError(
                f"values must be finite; {self.values[column]!r} is {array[row, column]} in example {row} (from 0)"
            )
        return array

    def _cover(self, labels: Sequence[Label]) -> None:
        """Make room for classes that were not known yet."""
        known = set(self.classes)
        if all(label in known for label in labels):
            return
        wider = self.over(list(labels))
        self.classes, self.counts, self.sums, self.products = wider.classes, wider.counts, wider.sums, wider.products

    def _add(self, cells: Any, columns: Any) -> None:
        """Add each example's row of values to its cell, a flat index of class and fold."""
        size = self.counts.size
        self.counts += np.bincount(cells, minlength=size).reshape(self.counts.shape)
        for i in range(len(self.values)):
            first = columns[:, i]
            self.sums[..., i] += np.bincount(cells, first, size).reshape(self.counts.shape)
            for j in range(i, len(self.values)):
                product = np.bincount(cells, first * columns[:, j], size).reshape(self.counts.shape)
                self.products[..., i, j] += product
                if i != j:
                    self.products[..., j, i] += product


def _positions(classes: Sequence[Label], labels: Sequence[Label]) -> Any:
    place = {label: position for position, label in enumerate(classes)}
    return np.array([place[label] for label in labels], dtype=np.int64)


def _checked_ids(ids: ArrayLike, examples: int) -> Any:
    array = as_numpy(ids)
    if array.shape != (examples,) or array.dtype.kind not in "iuUSO":
        raise InputError(f"ids must be one whole number or text for each of the {examples} examples; got {array.dtype}")
    listed = array.tolist()
    if any(not isinstance(one, (int, str)) or isinstance(one, bool) for one in listed):
        raise InputError("ids must be whole numbers or text, with none missing")
    return listed
