"""Recommendation: click histories in, ranked next items out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.estimator import MaxMatchingRecommender
    from groupnoise.clicks.filters import add_stray_clicks, keep_core, merge_repeats
    from groupnoise.clicks.log import read_clicks
    from groupnoise.clicks.ranking import TargetRanks, rank_targets
    from groupnoise.clicks.scoring import ScoringRule
    from groupnoise.clicks.shop import make_shop
    from groupnoise.clicks.splits import split_clicks
    from groupnoise.clicks.streaming import convert_clicks, write_windows
    from groupnoise.clicks.windows import cut_windows

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MaxMatchingRecommender": "groupnoise.clicks.estimator",
        "ScoringRule": "groupnoise.clicks.scoring",
        "TargetRanks": "groupnoise.clicks.ranking",
        "add_stray_clicks": "groupnoise.clicks.filters",
        "convert_clicks": "groupnoise.clicks.streaming",
        "cut_windows": "groupnoise.clicks.windows",
        "keep_core": "groupnoise.clicks.filters",
        "make_shop": "groupnoise.clicks.shop",
        "merge_repeats": "groupnoise.clicks.filters",
        "rank_targets": "groupnoise.clicks.ranking",
        "read_clicks": "groupnoise.clicks.log",
        "split_clicks": "groupnoise.clicks.splits",
        "write_windows": "groupnoise.clicks.streaming",
    },
)

__all__ = [
    "MaxMatchingRecommender",
    "ScoringRule",
    "TargetRanks",
    "add_stray_clicks",
    "convert_clicks",
    "cut_windows",
    "keep_core",
    "make_shop",
    "merge_repeats",
    "rank_targets",
    "read_clicks",
    "split_clicks",
    "write_windows",
]
