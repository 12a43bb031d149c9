"""Recommendation: click histories in, ranked next items out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.estimator import MaxMatchingRecommender
    from groupnoise.clicks.filters import add_stray_clicks, keep_core, merge_repeats
    from groupnoise.clicks.history_split import HistorySplit, split_histories
    from groupnoise.clicks.impressions import make_impressions
    from groupnoise.clicks.judged import JudgedTargets, judge_targets
    from groupnoise.clicks.log import read_clicks
    from groupnoise.clicks.ranking import TargetRanks, rank_targets
    from groupnoise.clicks.replay import read_impressions, replay_policy
    from groupnoise.clicks.scoring import ScoringRule
    from groupnoise.clicks.shop import make_shop
    from groupnoise.clicks.splits import split_clicks
    from groupnoise.clicks.stored_windows import write_windows
    from groupnoise.clicks.streaming import convert_clicks
    from groupnoise.clicks.windows import cut_windows

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.clicks.estimator": "MaxMatchingRecommender",
        "groupnoise.clicks.filters": "add_stray_clicks keep_core merge_repeats",
        "groupnoise.clicks.history_split": "HistorySplit split_histories",
        "groupnoise.clicks.impressions": "make_impressions",
        "groupnoise.clicks.judged": "JudgedTargets judge_targets",
        "groupnoise.clicks.log": "read_clicks",
        "groupnoise.clicks.ranking": "TargetRanks rank_targets",
        "groupnoise.clicks.replay": "read_impressions replay_policy",
        "groupnoise.clicks.scoring": "ScoringRule",
        "groupnoise.clicks.shop": "make_shop",
        "groupnoise.clicks.splits": "split_clicks",
        "groupnoise.clicks.stored_windows": "write_windows",
        "groupnoise.clicks.streaming": "convert_clicks",
        "groupnoise.clicks.windows": "cut_windows",
    },
)

__all__ = [
    "HistorySplit",
    "JudgedTargets",
    "MaxMatchingRecommender",
    "ScoringRule",
    "TargetRanks",
    "add_stray_clicks",
    "convert_clicks",
    "cut_windows",
    "judge_targets",
    "keep_core",
    "make_impressions",
    "make_shop",
    "merge_repeats",
    "rank_targets",
    "read_clicks",
    "read_impressions",
    "replay_policy",
    "split_clicks",
    "split_histories",
    "write_windows",
]
