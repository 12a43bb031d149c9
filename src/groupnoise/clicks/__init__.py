"""Recommendation: click histories in, ranked next items out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.clicks.history_split import split_histories as split_histories
    from groupnoise.clicks.judged import (
        JudgedTargets as JudgedTargets,
        judge_targets as judge_targets,
    )
    from groupnoise.clicks.log import read_clicks as read_clicks
    from groupnoise.clicks.ranking import rank_targets as rank_targets
    from groupnoise.clicks.shop import make_shop as make_shop
    from groupnoise.clicks.splits import split_clicks as split_clicks
    from groupnoise.clicks.stored_windows import write_windows as write_windows
    from groupnoise.clicks.streaming import convert_clicks as convert_clicks
    from groupnoise.clicks.windows import cut_windows as cut_windows

__getattr__, __dir__, __all__ = lazy_names(__name__)
