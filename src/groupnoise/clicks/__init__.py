"""Recommendation: click histories in, ranked next items out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.evaluation.history_split import split_histories as split_histories
    from groupnoise.clicks.evaluation.judged import (
        JudgedTargets as JudgedTargets,
        judge_targets as judge_targets,
    )
    from groupnoise.clicks.evaluation.ranking import rank_targets as rank_targets
    from groupnoise.clicks.evaluation.splits import split_clicks as split_clicks
    from groupnoise.clicks.reading.log import read_clicks as read_clicks
    from groupnoise.clicks.reading.streaming import convert_clicks as convert_clicks
    from groupnoise.clicks.shop import make_shop as make_shop
    from groupnoise.clicks.windows.cutting import cut_windows as cut_windows
    from groupnoise.clicks.windows.stored import write_windows as write_windows

__getattr__, __dir__, __all__ = lazy_names(__name__)
