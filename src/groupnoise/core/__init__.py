"""The model and the loss: groups, encoders, pair matching, group weighting, selection."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.core.batching import GroupBatch, batch_rows, collate
    from groupnoise.core.candidates import (
        Candidates,
        CandidateSource,
        FullCandidates,
        InBatchCandidates,
        SampledCandidates,
    )
    from groupnoise.core.chunked_softmax import log_normalizer
    from groupnoise.core.encoders import (
        EmbeddingEncoder,
        FrozenEncoder,
        IdentityEncoder,
        LinearEncoder,
        MLPEncoder,
    )
    from groupnoise.core.groups import Groups
    from groupnoise.core.joint_matching import JointMatching
    from groupnoise.core.loss import GroupLoss
    from groupnoise.core.metrics import (
        Reliability,
        accuracy,
        accuracy_within,
        approximated_accuracy,
        covering_rate,
        expected_calibration_error,
        hit_at_k,
        ndcg_at_k,
        reliability,
    )
    from groupnoise.core.model import MatchingModel
    from groupnoise.core.objective import (
        NAMED_OBJECTIVES,
        GroupObjective,
        LossOutput,
        make_selection,
        make_weighting,
        named_objective,
    )
    from groupnoise.core.pair_matching import Matcher, Matching, PairMatching, PriorMatching
    from groupnoise.core.selection import All, Marginal, Max, Selected, Selection, Tempered, TopK
    from groupnoise.core.similarity import (
        Dot,
        NegativeKL,
        Similarity,
        masked_logsumexp,
        masked_softmax,
    )
    from groupnoise.core.weighting import ContrastiveWeighting, SigmoidWeighting, Weighting

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "All": "groupnoise.core.selection",
        "CandidateSource": "groupnoise.core.candidates",
        "Candidates": "groupnoise.core.candidates",
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
        "JointMatching": "groupnoise.core.joint_matching",
        "LinearEncoder": "groupnoise.core.encoders",
        "LossOutput": "groupnoise.core.objective",
        "MLPEncoder": "groupnoise.core.encoders",
        "Marginal": "groupnoise.core.selection",
        "Matcher": "groupnoise.core.pair_matching",
        "Matching": "groupnoise.core.pair_matching",
        "MatchingModel": "groupnoise.core.model",
        "Max": "groupnoise.core.selection",
        "NAMED_OBJECTIVES": "groupnoise.core.objective",
        "NegativeKL": "groupnoise.core.similarity",
        "PairMatching": "groupnoise.core.pair_matching",
        "PriorMatching": "groupnoise.core.pair_matching",
        "Reliability": "groupnoise.core.metrics",
        "SampledCandidates": "groupnoise.core.candidates",
        "Selected": "groupnoise.core.selection",
        "Selection": "groupnoise.core.selection",
        "SigmoidWeighting": "groupnoise.core.weighting",
        "Similarity": "groupnoise.core.similarity",
        "Tempered": "groupnoise.core.selection",
        "TopK": "groupnoise.core.selection",
        "Weighting": "groupnoise.core.weighting",
        "accuracy": "groupnoise.core.metrics",
        "accuracy_within": "groupnoise.core.metrics",
        "approximated_accuracy": "groupnoise.core.metrics",
        "batch_rows": "groupnoise.core.batching",
        "collate": "groupnoise.core.batching",
        "covering_rate": "groupnoise.core.metrics",
        "expected_calibration_error": "groupnoise.core.metrics",
        "hit_at_k": "groupnoise.core.metrics",
        "log_normalizer": "groupnoise.core.chunked_softmax",
        "make_selection": "groupnoise.core.objective",
        "make_weighting": "groupnoise.core.objective",
        "masked_logsumexp": "groupnoise.core.similarity",
        "masked_softmax": "groupnoise.core.similarity",
        "named_objective": "groupnoise.core.objective",
        "ndcg_at_k": "groupnoise.core.metrics",
        "reliability": "groupnoise.core.metrics",
    },
)

__all__ = [
    "NAMED_OBJECTIVES",
    "All",
    "CandidateSource",
    "Candidates",
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
    "JointMatching",
    "LinearEncoder",
    "LossOutput",
    "MLPEncoder",
    "Marginal",
    "Matcher",
    "Matching",
    "MatchingModel",
    "Max",
    "NegativeKL",
    "PairMatching",
    "PriorMatching",
    "Reliability",
    "SampledCandidates",
    "Selected",
    "Selection",
    "SigmoidWeighting",
    "Similarity",
    "Tempered",
    "TopK",
    "Weighting",
    "accuracy",
    "accuracy_within",
    "approximated_accuracy",
    "batch_rows",
    "collate",
    "covering_rate",
    "expected_calibration_error",
    "hit_at_k",
    "log_normalizer",
    "make_selection",
    "make_weighting",
    "masked_logsumexp",
    "masked_softmax",
    "named_objective",
    "ndcg_at_k",
    "reliability",
]
