"""Rival recommenders: counting methods and sequence models under one contract."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.baselines.recall._attrec import AttRecRecommender
    from groupnoise.baselines.recall._base import BaselineRecommender
    from groupnoise.baselines.recall._caser import CaserRecommender
    from groupnoise.baselines.recall._cooccurrence import CooccurrenceRecommender
    from groupnoise.baselines.recall._item_cf import ItemCFRecommender
    from groupnoise.baselines.recall._neural_cf import NeuralCFRecommender
    from groupnoise.baselines.recall._popularity import PopularityRecommender
    from groupnoise.baselines.recall._sasrec import SASRecRecommender

# Counting needs no torch; the networks load it only when they are asked for.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttRecRecommender": "groupnoise.baselines.recall._attrec",
        "BaselineRecommender": "groupnoise.baselines.recall._base",
        "CaserRecommender": "groupnoise.baselines.recall._caser",
        "CooccurrenceRecommender": "groupnoise.baselines.recall._cooccurrence",
        "ItemCFRecommender": "groupnoise.baselines.recall._item_cf",
        "NeuralCFRecommender": "groupnoise.baselines.recall._neural_cf",
        "PopularityRecommender": "groupnoise.baselines.recall._popularity",
        "SASRecRecommender": "groupnoise.baselines.recall._sasrec",
    },
)

__all__ = [
    "AttRecRecommender",
    "BaselineRecommender",
    "CaserRecommender",
    "CooccurrenceRecommender",
    "ItemCFRecommender",
    "NeuralCFRecommender",
    "PopularityRecommender",
    "SASRecRecommender",
]
