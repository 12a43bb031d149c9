"""A fitted recommender and a table of what is known of items: new ones placed, rare ones helped."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.clicks.catalogue import Catalogue
from groupnoise.clicks.item_features import FeatureMap, borrowed, learn_feature_map
from groupnoise.clicks.item_table import ItemRows, read_item_rows
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError


def read_item_features(source: Any, item_ids: NDArray[Any]) -> ItemRows:
    """Return features of items as a table.

    Parameters
    ----------
    source : ItemRows, path, frame, or array of shape (n_items, n_features)
        A table with a column of item ids; the rows of an array are those of `item_ids`.
    item_ids : ndarray of shape (n_items,)
        The items that are known.

    Returns
    -------
    ItemRows

    Raises
    ------
    DataError
        If an array has not one row per item.
    """
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

    Parameters
    ----------
    catalogue : Catalogue
        Of the log.
    rows : ItemRows
        Described items.

    Returns
    -------
    Catalogue

    Raises
    ------
    DataError
        If no described item is in the log, or an id is not of the kind that the log has.
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


def placed_by_features(
    catalogue: Catalogue,
    rows: ItemRows,
    vectors: ItemVectors,
    clicks: FloatArray,
    generator: np.random.Generator,
    *,
    strength: float = 0.0,
) -> tuple[FeatureMap, ItemVectors]:
    """Learn a map from features to vectors, and place by it what has few clicks or none.

    Parameters
    ----------
    catalogue : Catalogue
        All items; those beyond the trained vectors are new.
    rows : ItemRows
        Described items, all of them in the catalogue.
    vectors : ItemVectors
        Trained, of the first items of the catalogue.
    clicks : ndarray of shape (n_items,)
        How often each item of the catalogue was clicked.
    generator : numpy Generator
        Decides which items choose the ridge.
    strength : float, default=0.0
        Clicks that features count for beside an item's own.

    Returns
    -------
    features : FeatureMap
    vectors : ItemVectors
        Of all items.
    """
    ids = np.array(rows.ids) if catalogue.ids.dtype.kind == "U" else np.array([*map(int, rows.ids)])
    positions = catalogue.indices_of(ids)
    n_new = len(catalogue) - len(vectors.bias)
    everything = ItemVectors(
        *(np.concatenate([part, np.zeros((n_new, *part.shape[1:]), "f4")]) for part in vectors)
    )
    n_missing = int((clicks > 0).sum() - (clicks[positions] > 0).sum())
    if n_missing:
        warnings.warn(
            f"{n_missing} clicked items have no row in {rows.origin}; they keep what their clicks "
            "say.",
            UserWarning,
            stacklevel=3,
        )
    own = ItemVectors(*(part[positions] for part in everything))
    features = learn_feature_map(rows.columns, own, clicks[positions], generator)
    mixed = borrowed(own, features.vectors(rows.columns), clicks[positions], strength)
    for part, moved in zip(everything, mixed, strict=True):
        part[positions] = moved
    return features, everything
