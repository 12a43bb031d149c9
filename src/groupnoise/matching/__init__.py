"""The model: encoders f and g, similarity S, and the normaliser of pair matching."""

from groupnoise.matching._candidates import (
    Candidates,
    CandidateSource,
    FullCandidates,
    InBatchCandidates,
    SampledCandidates,
)
from groupnoise.matching._encoders import (
    EmbeddingEncoder,
    FrozenEncoder,
    IdentityEncoder,
    LinearEncoder,
    MLPEncoder,
)
from groupnoise.matching._item_model import item_model, merge_item_models
from groupnoise.matching._log_normaliser import log_normaliser
from groupnoise.matching._lookup import look_up
from groupnoise.matching._masked import masked_logsumexp, masked_softmax
from groupnoise.matching._model import MatchingModel
from groupnoise.matching._precision import reduced_precision
from groupnoise.matching._similarity import Dot, NegativeKL, Similarity

__all__ = [
    "CandidateSource",
    "Candidates",
    "Dot",
    "EmbeddingEncoder",
    "FrozenEncoder",
    "FullCandidates",
    "IdentityEncoder",
    "InBatchCandidates",
    "LinearEncoder",
    "MLPEncoder",
    "MatchingModel",
    "NegativeKL",
    "SampledCandidates",
    "Similarity",
    "item_model",
    "log_normaliser",
    "look_up",
    "masked_logsumexp",
    "masked_softmax",
    "merge_item_models",
    "reduced_precision",
]
