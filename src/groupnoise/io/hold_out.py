"""Drawing what is held out of a training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, IntArray

MAX_HELD_OUT = 10_000
"""Groups that are held out at most; the standard error of a rate is then below half a point."""


def draw_held_out(
    memberships: BoolArray, share: float, seed: int, *, clusters: NDArray[Any] | None = None
) -> IntArray:
    """Draw groups to hold out: of every class its share, and never the last one.

    Result: in rising order; empty where no group can be spared. `memberships`: of shape (n_groups,
    n_classes). `share`: how much to hold out, from 0 to 1. `clusters`: whom each group comes from;
    groups of one cluster are held out together or not at all.
    """
    n_groups = len(memberships)
    wanted = min(MAX_HELD_OUT, max(1, round(share * n_groups))) if share > 0 else 0
    left = memberships.sum(axis=0)
    held: list[int] = []
    for rows in _spread(memberships, share, np.random.default_rng(seed), clusters):
        if len(held) >= wanted:
            break
        gone = memberships[rows].sum(axis=0)
        # A cluster that is far larger than what is left to draw would empty the training.
        fits = clusters is None or not held or len(held) + len(rows) <= 1.5 * wanted
        if fits and (left[gone > 0] > gone[gone > 0]).all():
            left -= gone
            held += rows.tolist()
    return np.sort(np.array(held, dtype=np.int64))


def _spread(
    memberships: BoolArray,
    share: float,
    generator: np.random.Generator,
    clusters: NDArray[Any] | None,
) -> Iterator[IntArray]:
    """Yield clusters of rows, first a share of them that holds its part of every class.

    Clusters are sorted by their rarest class and taken at even steps; the others follow, for
    those that cannot be spared.
    """
    codes = np.arange(len(memberships))
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
    rarity = np.argsort(np.argsort(memberships.sum(axis=0), kind="stable"))
    of_row = np.where(memberships, rarity, len(rarity)).min(axis=1, initial=len(rarity))
    n_units = int(codes.max(initial=-1)) + 1
    stratum = np.full(n_units, len(rarity))
    np.minimum.at(stratum, codes, of_row)
    order = generator.permutation(n_units)
    order = order[np.argsort(stratum[order], kind="stable")]
    n_first = min(n_units, max(1, round(share * n_units)))
    steps = (np.arange(n_first) + generator.random()) * (n_units / n_first)
    is_first = np.zeros(n_units, dtype=bool)
    is_first[np.minimum(steps.astype(np.int64), n_units - 1)] = True
    # In random order each: a limit on what is held out must not cut off a class.
    sequence = np.concatenate(
        [generator.permutation(order[is_first]), generator.permutation(order[~is_first])]
    )
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    yield from (members[unit] for unit in sequence)
