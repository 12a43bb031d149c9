"""Baseline recommenders: counting methods and sequence models under one contract."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.baselines.base import PopularityRecommender
    from groupnoise.clicks.baselines.counting import CooccurrenceRecommender
    from groupnoise.clicks.baselines.item_cf import ItemCFRecommender
    from groupnoise.clicks.baselines.least_squares import (
        ALSRecommender,
        BlockEASERecommender,
        EASERecommender,
    )
    from groupnoise.clicks.baselines.lrurec import LRURecRecommender
    from groupnoise.clicks.baselines.neural_cf import NeuralCFRecommender
    from groupnoise.clicks.baselines.sasrec import SASRecRecommender
    from groupnoise.clicks.baselines.short_windows import (
        AttRecRecommender,
        CaserRecommender,
        ComiRecRecommender,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.clicks.baselines.short_windows": (
            "AttRecRecommender CaserRecommender ComiRecRecommender"
        ),
        "groupnoise.clicks.baselines.base": "PopularityRecommender",
        "groupnoise.clicks.baselines.counting": "CooccurrenceRecommender",
        "groupnoise.clicks.baselines.item_cf": "ItemCFRecommender",
        "groupnoise.clicks.baselines.least_squares": (
            "ALSRecommender BlockEASERecommender EASERecommender"
        ),
        "groupnoise.clicks.baselines.lrurec": "LRURecRecommender",
        "groupnoise.clicks.baselines.neural_cf": "NeuralCFRecommender",
        "groupnoise.clicks.baselines.sasrec": "SASRecRecommender",
    },
)

__all__ = [
    "ALSRecommender",
    "AttRecRecommender",
    "BlockEASERecommender",
    "CaserRecommender",
    "ComiRecRecommender",
    "CooccurrenceRecommender",
    "EASERecommender",
    "ItemCFRecommender",
    "LRURecRecommender",
    "NeuralCFRecommender",
    "PopularityRecommender",
    "SASRecRecommender",
]
