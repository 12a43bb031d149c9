"""A fitted recommender and a table of what is known of items: new ones placed, rare ones helped."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.clicks.catalogue import Catalogue
from groupnoise.clicks.evidence import Evidence, HeldOut, evidence_gains
from groupnoise.clicks.item_features import Ask, FeatureMap, Stand, borrowed, learn_feature_map
from groupnoise.clicks.item_table import ItemRows, read_item_rows
from groupnoise.clicks.linear_evidence import MIN_LEAD
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.core.arrays import FloatArray, IntArray, count_ids
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError

STRENGTHS = (0.5, 1.0, 2.0, 5.0)
"""Clicks that features may count for beside an item's own."""


def read_item_features(source: Any, item_ids: NDArray[Any]) -> ItemRows:
    """Return features of items as a table."""
    if isinstance(source, ItemRows):
        return source
    if not isinstance(source, np.ndarray):
        return read_item_rows(source, item_ids)
    if source.ndim != 2 or len(source) != len(item_ids):
        raise DataError(
            f"item_features must have one row for each of the {len(item_ids)} items; got shape "
            f"{source.shape}. Give a frame with a column of item ids to describe others."
        )
    table = pl.DataFrame({"features": source.astype(np.float64)})
    return ItemRows([str(each) for each in item_ids.tolist()], table, "item_features")


def catalogue_with(catalogue: Catalogue, rows: ItemRows) -> Catalogue:
    """Return a catalogue that also has the described items which it did not know, at its end.

    Raises DataError if no described item is in the log, or an id is not of the kind that the log
    has.
    """
    known = {str(each) for each in catalogue.ids.tolist()}
    new = [each for each in rows.ids if each not in known]
    if len(new) == len(rows.ids):
        raise DataError(
            f"none of the {len(new)} items of {rows.origin} is in the log, such as {new[0]!r}; "
            "give ids as the log has them."
        )
    if catalogue.ids.dtype.kind != "i":
        return Catalogue([*catalogue.ids.tolist(), *new])
    for each in new:
        if not each.removeprefix("-").isdecimal():
            raise DataError(
                f"{rows.origin}: item {each!r} is no whole number, as ids of the log are."
            )
    return Catalogue([*catalogue.ids.tolist(), *map(int, new)])


def chosen_strength(
    catalogue: Catalogue,
    rows: ItemRows,
    trial: Evidence,
    held: HeldOut,
    generator: np.random.Generator,
) -> float:
    """Return for how many clicks features are to count, by held-out clicks.

    0 where borrowing is not ahead beyond chance: then no item that was clicked is moved. `trial`:
    learned without the held-out clicks.
    """
    clicks = count_ids(held.training.objects, len(catalogue)).astype(np.float64)
    positions = positions_of(catalogue, rows)
    known = np.flatnonzero(positions >= 0)
    positions = positions[known]
    table = rows.columns[known.tolist()]
    own = ItemVectors(trial.objects[positions], trial.targets[positions], trial.bias[positions])
    told = learn_feature_map(table, own, clicks[positions], generator).vectors(table)

    def gains_with(strength: float) -> FloatArray:
        mixed = borrowed(own, told, clicks[positions], strength)
        parts = [part.copy() for part in (trial.objects, trial.targets, trial.bias)]
        for part, moved in zip(parts, mixed, strict=True):
            part[positions] = moved
        objects, targets, bias = parts
        evidence = replace(trial, objects=objects, targets=targets, bias=bias)
        return evidence_gains(evidence, held.asked)

    plain = gains_with(0.0)
    tried = {strength: gains_with(strength) for strength in STRENGTHS}
    best = max(tried, key=lambda strength: float(tried[strength].mean()))
    lead = tried[best] - plain
    is_ahead = lead.mean() > MIN_LEAD * lead.std() / np.sqrt(len(lead))
    return best if is_ahead else 0.0


def positions_of(catalogue: Catalogue, rows: ItemRows) -> IntArray:
    """Return where described items stand in a catalogue, -1 where they are new."""
    place = {str(each): number for number, each in enumerate(catalogue.ids.tolist())}
    return np.array([place.get(each, -1) for each in rows.ids], dtype=np.int64)


def placed_by_features(
    catalogue: Catalogue,
    rows: ItemRows,
    vectors: ItemVectors,
    clicks: FloatArray,
    generator: np.random.Generator,
    *,
    strength: float = 0.0,
    ask: Ask | None = None,
    stand: Stand | None = None,
) -> tuple[FeatureMap, ItemVectors]:
    """Learn a map from features to vectors, and place by it what has few clicks or none.

    Returns `features`; `vectors`: of all items.
    `catalogue`: all items; those beyond the trained vectors are new.
    `strength`: clicks that features count for beside an item's own.
    `ask`: maps positions of held-out items to what came before clicks on them.
    `stand`: judges how far back items without a click are to stand.
    """
    positions = positions_of(catalogue, rows)
    n_new = len(catalogue) - len(vectors.bias)
    everything = ItemVectors(
        *(np.concatenate([part, np.zeros((n_new, *part.shape[1:]), "f4")]) for part in vectors)
    )
    n_missing = int((clicks > 0).sum() - (clicks[positions] > 0).sum())
    if n_missing:
        warnings.warn(
            f"{counted(n_missing, 'clicked items')} {'has' if n_missing == 1 else 'have'} no row "
            f"in "
            f"{rows.origin}; they keep what their clicks say.",
            UserWarning,
            stacklevel=3,
        )
    own = ItemVectors(*(part[positions] for part in everything))
    features = learn_feature_map(
        rows.columns, own, clicks[positions], generator, positions=positions, ask=ask, stand=stand
    )
    described = features.vectors(rows.columns)
    new = np.flatnonzero(clicks[positions] == 0)
    if len(new):  # a clicked item would be most like itself
        placed = features.vectors(rows.columns[new.tolist()], everything)
        for part, moved in zip(described, placed, strict=True):
            part[new] = moved
    mixed = borrowed(own, described, clicks[positions], strength)
    for part, moved in zip(everything, mixed, strict=True):
        part[positions] = moved
    return features, everything
