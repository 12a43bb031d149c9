"""Recommendation: click histories in, ranked next items out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.estimator import MaxMatchingRecommender
    from groupnoise.clicks.filters import add_stray_clicks, keep_core, merge_repeats
    from groupnoise.clicks.history_scores import ItemVectors
    from groupnoise.clicks.history_windows import SlidingWindows, sliding_windows
    from groupnoise.clicks.log import read_clicks
    from groupnoise.clicks.ranking import PROTOCOLS, Scorer, TargetRanks, rank_targets
    from groupnoise.clicks.shop import make_shop
    from groupnoise.clicks.splits import split_clicks
    from groupnoise.clicks.streaming import (
        clicks_on_disk,
        convert_clicks,
        windows_on_disk,
        write_windows,
    )
    from groupnoise.clicks.windows import cut_windows

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ItemVectors": "groupnoise.clicks.history_scores",
        "MaxMatchingRecommender": "groupnoise.clicks.estimator",
        "PROTOCOLS": "groupnoise.clicks.ranking",
        "Scorer": "groupnoise.clicks.ranking",
        "SlidingWindows": "groupnoise.clicks.history_windows",
        "TargetRanks": "groupnoise.clicks.ranking",
        "add_stray_clicks": "groupnoise.clicks.filters",
        "clicks_on_disk": "groupnoise.clicks.streaming",
        "convert_clicks": "groupnoise.clicks.streaming",
        "cut_windows": "groupnoise.clicks.windows",
        "keep_core": "groupnoise.clicks.filters",
        "make_shop": "groupnoise.clicks.shop",
        "merge_repeats": "groupnoise.clicks.filters",
        "rank_targets": "groupnoise.clicks.ranking",
        "read_clicks": "groupnoise.clicks.log",
        "sliding_windows": "groupnoise.clicks.history_windows",
        "split_clicks": "groupnoise.clicks.splits",
        "windows_on_disk": "groupnoise.clicks.streaming",
        "write_windows": "groupnoise.clicks.streaming",
    },
)

__all__ = [
    "PROTOCOLS",
    "ItemVectors",
    "MaxMatchingRecommender",
    "Scorer",
    "SlidingWindows",
    "TargetRanks",
    "add_stray_clicks",
    "clicks_on_disk",
    "convert_clicks",
    "cut_windows",
    "keep_core",
    "make_shop",
    "merge_repeats",
    "rank_targets",
    "read_clicks",
    "sliding_windows",
    "split_clicks",
    "windows_on_disk",
    "write_windows",
]
