"""What a fitted recommender learns beside its training: items told by their features."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupnoise.clicks.described_items import (
    catalogue_with,
    placed_by_features,
    read_item_features,
)
from groupnoise.clicks.item_table import ItemRows
from groupnoise.clicks.window_training import WindowTraining


class UpdatableRecommender(WindowTraining):
    """Places items by their features."""

    def _read_features(self, item_features: Any) -> ItemRows | None:
        """Return features of items, refused before long work if they are of other items."""
        if item_features is None:
            return None
        rows = read_item_features(item_features, self.items_)
        catalogue_with(self.catalogue_, rows)
        return rows

    def _place_by_features(self, rows: ItemRows | None) -> None:
        """Add the described items that nobody clicked, and place them by their features."""
        if rows is None:
            return
        vectors = self.item_vectors()
        grown = catalogue_with(self.catalogue_, rows)
        clicks = np.pad(self.popularity_, (0, len(grown) - len(self.catalogue_)))
        self.feature_map_, placed = placed_by_features(
            grown, rows, vectors, clicks, self._generator()
        )
        self.catalogue_, self.popularity_ = grown, clicks
        self._hold_vectors(placed)
