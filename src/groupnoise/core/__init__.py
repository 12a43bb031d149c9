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
        "All": "groupnoise.core.selection",
        "ContrastiveWeighting": "groupnoise.core.weighting",
        "Dot": "groupnoise.core.similarity",
        "EmbeddingEncoder": "groupnoise.core.encoders",
        "FrozenEncoder": "groupnoise.core.encoders",
        "FullCandidates": "groupnoise.core.candidates",
        "GroupBatch": "groupnoise.core.batching",
        "GroupLoss": "groupnoise.core.loss",
        "GroupObjective": "groupnoise.core.objective",
        "Groups": "groupnoise.core.groups",
        "IdentityEncoder": "groupnoise.core.encoders",
        "InBatchCandidates": "groupnoise.core.candidates",
        "LinearEncoder": "groupnoise.core.encoders",
        "MLPEncoder": "groupnoise.core.encoders",
        "Marginal": "groupnoise.core.selection",
        "MatchingModel": "groupnoise.core.model",
        "Max": "groupnoise.core.selection",
        "NAMED_OBJECTIVES": "groupnoise.core.objective",
        "NegativeKL": "groupnoise.core.similarity",
        "PairMatching": "groupnoise.core.pair_matching",
        "SampledCandidates": "groupnoise.core.candidates",
        "Selected": "groupnoise.core.selection",
        "SigmoidWeighting": "groupnoise.core.weighting",
        "Tempered": "groupnoise.core.selection",
        "TopK": "groupnoise.core.selection",
        "approximated_accuracy": "groupnoise.core.metrics",
        "batch_rows": "groupnoise.core.batching",
        "collate": "groupnoise.core.batching",
        "expected_calibration_error": "groupnoise.core.metrics",
        "hit_at_k": "groupnoise.core.metrics",
        "named_objective": "groupnoise.core.objective",
        "ndcg_at_k": "groupnoise.core.metrics",
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
