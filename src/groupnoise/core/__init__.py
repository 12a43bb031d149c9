"""The model and the loss: groups, encoders, pair matching, group weighting, selection."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.core.batching import GroupBatch, batch_rows, collate
    from groupnoise.core.encoders import FrozenEncoder
    from groupnoise.core.groups import Groups
    from groupnoise.core.loss import GroupLoss
    from groupnoise.core.metrics import (
        approximated_accuracy,
        expected_calibration_error,
        hit_at_k,
        ndcg_at_k,
    )
    from groupnoise.core.model import MatchingModel
    from groupnoise.core.objective import NAMED_OBJECTIVES, GroupObjective
    from groupnoise.core.pair_matching import PairMatching
    from groupnoise.core.selection import All, Marginal, Max, Selected, Tempered, TopK

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.core.batching": "GroupBatch batch_rows collate",
        "groupnoise.core.encoders": "FrozenEncoder",
        "groupnoise.core.groups": "Groups",
        "groupnoise.core.loss": "GroupLoss",
        "groupnoise.core.metrics": (
            "approximated_accuracy expected_calibration_error hit_at_k ndcg_at_k"
        ),
        "groupnoise.core.model": "MatchingModel",
        "groupnoise.core.objective": "GroupObjective NAMED_OBJECTIVES",
        "groupnoise.core.pair_matching": "PairMatching",
        "groupnoise.core.selection": "All Marginal Max Selected Tempered TopK",
    },
)

__all__ = [
    "NAMED_OBJECTIVES",
    "All",
    "FrozenEncoder",
    "GroupBatch",
    "GroupLoss",
    "GroupObjective",
    "Groups",
    "Marginal",
    "MatchingModel",
    "Max",
    "PairMatching",
    "Selected",
    "Tempered",
    "TopK",
    "approximated_accuracy",
    "batch_rows",
    "collate",
    "expected_calibration_error",
    "hit_at_k",
    "ndcg_at_k",
]
