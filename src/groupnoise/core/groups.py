"""Groups: flat objects, offsets and targets, so that ragged data needs no padding at rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, IntArray, offsets_from_sizes, ragged_rows
from groupnoise.core.checks import (
    as_rows,
    check_finite,
    check_group_ids,
    check_not_empty,
    checked_offsets,
)
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.exceptions import DataError


@inherit_docstring
class Groups:
    """A ragged collection of groups, each of them tied to one target.

    Group `i` holds the objects `objects[offsets[i]:offsets[i + 1]]`. The arrays may be memory
    mapped; nothing is copied that need not be.

    Parameters
    ----------
    objects : ndarray of shape (n_objects, ...)
        Feature rows, or integer ids, of all groups one after the other.
    offsets : array-like of shape (n_groups + 1,)
        Where each group begins; starts at 0, strictly increasing, ends at `n_objects`.
    targets : ndarray of shape (n_groups, ...), optional
        What each group is tied to: integer ids or feature rows.

    Examples
    --------
    >>> groups = Groups.from_lists([[3, 1], [4]], targets=[0, 1])
    >>> len(groups), groups.n_objects, groups[0].tolist()
    (2, 3, [3, 1])
    """

    __slots__ = ("_objects", "offsets", "targets")

    def __init__(
        self, objects: NDArray[Any], offsets: ArrayLike, targets: NDArray[Any] | None = None
    ) -> None:
        self._objects = as_rows("objects", objects)
        if self.objects.dtype.kind not in "fiub":
            raise DataError(
                f"objects must be numeric features or integer ids; got dtype {self.objects.dtype}."
            )
        self.offsets = checked_offsets(offsets, len(self.objects))
        check_finite("objects", self.objects)
        self.targets = _as_targets(targets)
        if self.targets is not None:
            if len(self.targets) != len(self):
                given = counted(len(self.targets), "targets")
                raise DataError(
                    f"{counted(len(self), 'groups')} came with {given}; give each group one."
                )
            check_finite("targets", self.targets)

    @classmethod
    def from_lists(cls, groups: Iterable[ArrayLike], targets: ArrayLike | None = None) -> Groups:
        """Build from one array-like, or set of ids, per group (feature rows, or plain ids).

        Parameters
        ----------
        groups : iterable of array-like
            The objects of each group: feature rows, or ids (a set of ids is sorted).
        targets : array-like of shape (n_groups, ...), optional
            What each group is tied to.

        Returns
        -------
        Groups
            In the order given.

        Raises
        ------
        EmptyGroupError
            If a group has no object.
        """
        parts = [
            as_rows(f"group {row}", sorted(group) if isinstance(group, Set) else group)
            for row, group in enumerate(groups)
        ]
        if not parts:
            raise DataError("0 groups were given; at least one is needed.")
        check_not_empty(np.array([len(part) for part in parts]))
        widths = {part.shape[1:] for part in parts}
        if len(widths) > 1:
            row = next(i for i, part in enumerate(parts) if part.shape[1:] != parts[0].shape[1:])
            raise DataError(
                f"objects must share one width: group {row} has shape {parts[row].shape}, "
                f"group 0 has {parts[0].shape}."
            )
        offsets = offsets_from_sizes([len(part) for part in parts])
        return cls(np.concatenate(parts), offsets, _as_targets(targets))

    @classmethod
    def from_array(cls, array: ArrayLike, targets: ArrayLike | None = None) -> Groups:
        """Build from a dense array of shape (n_groups, size, ...): groups of equal size.

        Parameters
        ----------
        array : array-like of shape (n_groups, size, ...)
            The objects of each group.

        Returns
        -------
        Groups
            In the order given.
        """
        dense = as_rows("a dense array", array)
        if dense.ndim < 2:
            raise DataError(f"a dense array needs shape (groups, size, ...); got {dense.shape}.")
        n_groups, size = dense.shape[:2]
        if n_groups == 0:
            raise DataError("0 groups were given; at least one is needed.")
        check_not_empty(np.full(n_groups, size))
        offsets = np.arange(n_groups + 1) * size
        return cls(dense.reshape(n_groups * size, *dense.shape[2:]), offsets, _as_targets(targets))

    @classmethod
    def from_rows(
        cls, objects: ArrayLike, groups: ArrayLike, targets: ArrayLike | None = None
    ) -> tuple[Groups, NDArray[Any]]:
        """Build from flat rows with a group id each (`groups=` as in scikit-learn).

        Parameters
        ----------
        objects : array-like of shape (n_rows, ...)
            One row per object; rows of a group need not be adjacent.
        groups : array-like of shape (n_rows,)
            The group id of each row, integers or strings.
        targets : array-like, optional
            One target per row (constant inside a group) or one per group, in order of
            first appearance.

        Returns
        -------
        groups : Groups
            The groups in order of first appearance.
        ids : ndarray of shape (n_groups,)
            The id of each group.
        """
        rows = as_rows("objects", objects)
        keys = np.asarray(groups)
        if keys.ndim != 1 or len(keys) != len(rows):
            raise DataError(
                f"{counted(len(rows), 'rows')} came with group ids of shape {keys.shape}; one id "
                f"per row."
            )
        if len(rows) == 0:
            raise DataError("0 rows were given; at least one is needed.")
        check_group_ids(keys)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        by_appearance = np.argsort(first, kind="stable")
        rank = np.empty_like(by_appearance)
        rank[by_appearance] = np.arange(len(first))
        group_of_row = rank[inverse]
        order = np.argsort(group_of_row, kind="stable")
        sizes = np.bincount(group_of_row, minlength=len(first))
        offsets = offsets_from_sizes(sizes)
        ids = keys[first[by_appearance]]
        per_group = _as_targets(targets)
        if per_group is not None and len(per_group) == len(rows) != len(ids):
            per_row, per_group = per_group, per_group[first[by_appearance]]
            unequal = per_row != per_group[group_of_row]
            differs = np.flatnonzero(unequal.reshape(len(rows), -1).any(axis=1))
            if len(differs):
                raise DataError(
                    f"group {ids[group_of_row[differs[0]]]} has rows with different targets, "
                    f"first at row {differs[0]}; a group is tied to one target."
                )
        return cls(rows[order], offsets, per_group), ids

    @classmethod
    def from_indicator(cls, indicator: Any, targets: ArrayLike | None = None) -> Groups:
        """Build groups of column ids from a 0/1 matrix (dense or scipy sparse).

        Row `i` becomes the group of the columns set in it: candidate labels, for example.

        Parameters
        ----------
        indicator : array-like or scipy sparse matrix of shape (n_groups, n_ids)
            1 where an id belongs to the group, 0 elsewhere.

        Returns
        -------
        Groups
            Groups of ids, ascending inside a group.

        Raises
        ------
        DataError
            If the matrix holds anything but 0 and 1.
        EmptyGroupError
            If a row holds no 1.
        """
        from scipy import sparse

        if not sparse.issparse(indicator) and np.ndim(indicator) != 2:
            raise DataError(f"an indicator must be a matrix; got shape {np.shape(indicator)}.")
        table = sparse.csr_array(indicator, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        table.sort_indices()
        check_finite("indicator", table.data)
        if not (table.data == 1).all():
            raise DataError("an indicator matrix may hold only 0 and 1.")
        columns, offsets = table.indices.astype(np.int64), table.indptr.astype(np.int64)
        if len(offsets) < 2:
            raise DataError("0 rows were given; at least one is needed.")
        return cls(columns, offsets, _as_targets(targets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, row: slice) -> Groups: ...

    def __getitem__(self, row: int | slice) -> NDArray[Any] | Groups:
        if isinstance(row, slice):
            return self.subset(row)
        if not -len(self) <= row < len(self):
            raise IndexError(f"group {row} does not exist; there are {len(self)}.")
        row %= len(self)
        return self.objects[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Groups({counted(len(self), 'groups')}, {counted(self.n_objects, 'objects')}, "
            f"sizes {self.sizes.min()}-{self.sizes.max()})"
        )

    @property
    def objects(self) -> NDArray[Any]:
        """Feature rows or ids of all groups, one after the other, shape (n_objects, ...)."""
        return self._objects

    @property
    def n_objects(self) -> int:
        """How many objects all groups hold together."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> IntArray:
        """The number of objects of each group, shape (n_groups,)."""
        return np.diff(self.offsets)

    @property
    def group_of_object(self) -> IntArray:
        """The row of the group each object belongs to, shape (n_objects,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def position_of_object(self) -> IntArray:
        """Where each object stands in its group, from 0, shape (n_objects,)."""
        return np.arange(self.n_objects) - np.repeat(self.offsets[:-1], self.sizes)

    def gathered(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return a copy of the objects of the groups at `rows`, one group after the other.

        Parameters
        ----------
        rows : int ndarray of shape (groups,)
            Which groups.

        Returns
        -------
        ndarray of shape (objects of these groups, ...)
            Shares no memory with the collection.
        """
        starts = self.offsets[rows]
        return self.objects[ragged_rows(starts, self.offsets[rows + 1] - starts)]

    def padded(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the objects of the groups at `rows`, each group up to the size of the largest.

        Returns
        -------
        ndarray of shape (groups, size, ...)
            The last object of a shorter group is repeated.
        """
        starts, sizes = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        index = starts[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
        return np.ascontiguousarray(self.objects[index])

    def arrays(self) -> tuple[NDArray[Any] | None, ...]:
        """Return the arrays that make up the collection, for a checksum.

        Returns
        -------
        tuple of ndarray or None
            Objects, offsets and targets.
        """
        return self.objects, self.offsets, self.targets

    def subset(self, rows: ArrayLike | slice) -> Groups:
        """Return the groups at `rows` (indices, a boolean mask or a slice), in that order.

        Neighbours in their own order share the memory of this collection; others are copied.

        Parameters
        ----------
        rows : array-like of int, of bool, or slice
            Which groups.

        Returns
        -------
        Groups
            At least one group.

        Raises
        ------
        DataError
            If nothing is left.
        """
        picked = self._picked(rows)
        if (np.diff(picked) == 1).all():
            return self._between(picked[0], picked[-1] + 1)
        starts, sizes = self.offsets[picked], self.sizes[picked]
        offsets = offsets_from_sizes(sizes)
        targets = None if self.targets is None else self.targets[picked]
        return Groups(self.objects[ragged_rows(starts, sizes)], offsets, targets)

    def _picked(self, rows: ArrayLike | slice) -> IntArray:
        """Return the numbers of the groups that a subset names, at least one."""
        if isinstance(rows, slice):
            picked = np.arange(len(self))[rows]
        else:
            # An empty list would become an array of floats, which cannot index.
            as_array = np.asarray(rows, dtype=None if np.size(rows) else np.int64)
            picked = np.arange(len(self))[as_array]
        if len(picked) == 0:
            raise DataError("a subset of 0 groups was asked for; at least one is needed.")
        return picked

    def _between(self, first: int, last: int) -> Groups:
        begin, end = self.offsets[first], self.offsets[last]
        targets = None if self.targets is None else self.targets[first:last]
        return Groups(self.objects[begin:end], self.offsets[first : last + 1] - begin, targets)

    @staticmethod
    def concat(parts: Sequence[Groups]) -> Groups:
        """Join several collections into one; either all have targets or none.

        Parameters
        ----------
        parts : sequence of Groups
            At least one; their objects have one width.

        Returns
        -------
        Groups
            The groups of the first part, then those of the second, and so on.
        """
        if not parts:
            raise DataError("nothing to concatenate.")
        with_targets = {part.targets is not None for part in parts}
        if len(with_targets) > 1:
            raise DataError("some parts have targets and some have none.")
        widths = {part.objects.shape[1:] for part in parts}
        if len(widths) > 1:
            raise DataError(f"objects must share one width; the parts have {sorted(widths)}.")
        sizes = np.concatenate([part.sizes for part in parts])
        return Groups(
            np.concatenate([part.objects for part in parts]),
            offsets_from_sizes(sizes),
            np.concatenate([part.targets for part in parts if part.targets is not None])
            if with_targets == {True}
            else None,
        )


def only_objects(groups: Groups, kept: BoolArray) -> Groups:
    """Return groups with only the objects kept; a group left empty goes, and its target too."""
    sizes = np.add.reduceat(kept, groups.offsets[:-1], dtype=np.int64)
    targets = None if groups.targets is None else np.asarray(groups.targets)[sizes > 0]
    return Groups(np.asarray(groups.objects)[kept], offsets_from_sizes(sizes[sizes > 0]), targets)


def _as_targets(targets: ArrayLike | None) -> NDArray[Any] | None:
    return None if targets is None else as_rows("targets", targets)
