"""The model and the loss: groups, encoders, pair matching, group weighting, selection."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.core.batching import GroupBatch, batch_rows, collate
    from groupnoise.core.candidates import FullCandidates, InBatchCandidates, SampledCandidates
    from groupnoise.core.encoders import (
        EmbeddingEncoder,
        FrozenEncoder,
        IdentityEncoder,
        LinearEncoder,
        MLPEncoder,
    )
    from groupnoise.core.groups import Groups
    from groupnoise.core.loss import GroupLoss
    from groupnoise.core.metrics import (
        approximated_accuracy,
        expected_calibration_error,
        hit_at_k,
        ndcg_at_k,
    )
    from groupnoise.core.model import MatchingModel
    from groupnoise.core.objective import NAMED_OBJECTIVES, GroupObjective, named_objective
    from groupnoise.core.pair_matching import PairMatching
    from groupnoise.core.selection import All, Marginal, Max, Selected, Tempered, TopK
    from groupnoise.core.similarity import Dot, NegativeKL
    from groupnoise.core.weighting import ContrastiveWeighting, SigmoidWeighting

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.core.batching": "GroupBatch batch_rows collate",
        "groupnoise.core.candidates": "FullCandidates InBatchCandidates SampledCandidates",
        "groupnoise.core.encoders": (
            "EmbeddingEncoder FrozenEncoder IdentityEncoder LinearEncoder MLPEncoder"
        ),
        "groupnoise.core.groups": "Groups",
        "groupnoise.core.loss": "GroupLoss",
        "groupnoise.core.metrics": (
            "approximated_accuracy expected_calibration_error hit_at_k ndcg_at_k"
        ),
        "groupnoise.core.model": "MatchingModel",
        "groupnoise.core.objective": "GroupObjective NAMED_OBJECTIVES named_objective",
        "groupnoise.core.pair_matching": "PairMatching",
        "groupnoise.core.selection": "All Marginal Max Selected Tempered TopK",
        "groupnoise.core.similarity": "Dot NegativeKL",
        "groupnoise.core.weighting": "ContrastiveWeighting SigmoidWeighting",
    },
)

__all__ = [
    "NAMED_OBJECTIVES",
    "All",
    "ContrastiveWeighting",
    "Dot",
    "EmbeddingEncoder",
    "FrozenEncoder",
    "FullCandidates",
    "GroupBatch",
    "GroupLoss",
    "GroupObjective",
    "Groups",
    "IdentityEncoder",
    "InBatchCandidates",
    "LinearEncoder",
    "MLPEncoder",
    "Marginal",
    "MatchingModel",
    "Max",
    "NegativeKL",
    "PairMatching",
    "SampledCandidates",
    "Selected",
    "SigmoidWeighting",
    "Tempered",
    "TopK",
    "approximated_accuracy",
    "batch_rows",
    "collate",
    "expected_calibration_error",
    "hit_at_k",
    "named_objective",
    "ndcg_at_k",
]
