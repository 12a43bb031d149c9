"""Which rows of tables a batch of ids looks up, each once, and what stands in which of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import IntArray
from groupnoise.core.batching import GroupBatch


class LookedUpRows(NamedTuple):
    """Where everything that a batch looks up stands among its distinct rows.

    `n_objects`: how many of them are objects.
    `collisions`: where a candidate is the target of a group itself, and does not count.
    `rows`: distinct rows of f, and then of g; of a table they share, those of objects and then the
        others.
    `objects`: slots of the objects at each position, flat; `members`, flat: of the objects of each
        group and then its target; `candidates`: of the candidates; `others`: of all targets and
        then the candidates.
    """

    n_objects: int
    collisions: tuple[Tensor, Tensor, Tensor] | None
    rows: Tensor
    objects: Tensor
    members: Tensor
    candidates: Tensor
    others: Tensor

    @classmethod
    def of(
        cls, batch: GroupBatch, sample: IntArray, place: IntArray, *, shared: bool
    ) -> LookedUpRows:
        """Find the distinct rows of the ids of a batch and of the candidates `sample`."""
        # Logs on disk may hold narrower numbers.
        objects = _real_objects(batch).astype(np.int64, copy=False)
        targets = batch.targets.numpy().astype(np.int64, copy=False)
        n_positions, n_groups = objects.size, len(targets)
        added = np.concatenate([targets, sample])
        if shared:
            everything = np.concatenate([objects.reshape(-1), added])
            rows, slots, n_objects = _distinct(everything, n_positions, place)
        else:
            rows, slots, n_objects = _distinct(objects.reshape(-1), n_positions, place)
            others, more, _ = _distinct(added, 0, place)
            rows = np.concatenate([rows, others])
            slots = np.concatenate([slots, n_objects + more])
        of_objects, of_others = slots[:n_positions], slots[n_positions:]
        of_targets, of_sample = of_others[:n_groups], of_others[n_groups:]
        members = np.empty((n_groups, objects.shape[1] + 1), dtype=np.int64)
        members[:, :-1] = of_objects.reshape(objects.shape)
        members[:, -1] = of_targets
        collisions = _collisions(of_targets, of_sample, len(rows), objects.shape[1])
        arrays = (rows, of_objects, members.reshape(-1), of_sample, of_others)
        return cls(n_objects, collisions, *map(torch.from_numpy, arrays))


def _distinct(ids: IntArray, n_leading: int, place: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return each id once, the slot of every id among them, and how many are leading ones.

    Ids come in the order in which they first occur, so those among the first `n_leading` before the
    others. `place` (n_ids,): is written to; what it holds does not matter. Nothing is sorted.
    """
    position = np.arange(len(ids))
    place[ids[::-1]] = position[::-1]  # of several the last one counts: the first position
    first = place[ids]
    begins = first == position
    number = np.cumsum(begins)
    return ids[begins], number[first] - 1, int(number[n_leading - 1]) if n_leading else 0


def _real_objects(batch: GroupBatch) -> IntArray:
    """Return the ids of the objects; padding holds one of the batch, and so adds none."""
    objects, mask = batch.objects.numpy(), batch.mask.numpy()
    return objects if mask.all() else np.where(mask, objects, objects.flat[mask.argmax()])


def _collisions(
    targets: IntArray, candidates: IntArray, n_slots: int, size: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return where a candidate is the target of a group itself, None if nowhere.

    The positions of such groups, and rows (of these positions) and columns (of the candidates) that
    do not count. `targets`, `candidates`: their slots, of `n_slots`.
    """
    is_candidate = np.zeros(n_slots, dtype=bool)
    is_candidate[candidates] = True
    groups = np.flatnonzero(is_candidate[targets])
    if not len(groups):
        return None
    row, column = np.nonzero(targets[groups, None] == candidates)
    within = np.arange(size)
    positions = (groups[:, None] * size + within).reshape(-1)
    rows = (row[:, None] * size + within).reshape(-1)
    columns = np.repeat(column, size)
    return torch.from_numpy(positions), torch.from_numpy(rows), torch.from_numpy(columns)
