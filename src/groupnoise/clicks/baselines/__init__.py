"""Baseline recommenders: counting methods and sequence models under one contract."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.baselines.base import PopularityRecommender as PopularityRecommender
    from groupnoise.clicks.baselines.counting import (
        CooccurrenceRecommender as CooccurrenceRecommender,
        ItemCFRecommender as ItemCFRecommender,
    )
    from groupnoise.clicks.baselines.least_squares import (
        ALSRecommender as ALSRecommender,
        BlockEASERecommender as BlockEASERecommender,
        EASERecommender as EASERecommender,
    )
    from groupnoise.clicks.baselines.lrurec import LRURecRecommender as LRURecRecommender
    from groupnoise.clicks.baselines.neural_cf import NeuralCFRecommender as NeuralCFRecommender
    from groupnoise.clicks.baselines.sasrec import SASRecRecommender as SASRecRecommender
    from groupnoise.clicks.baselines.short_windows import (
        AttRecRecommender as AttRecRecommender,
        CaserRecommender as CaserRecommender,
        ComiRecRecommender as ComiRecRecommender,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
