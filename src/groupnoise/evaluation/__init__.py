"""Metrics, and the ranking protocols they are computed from."""

from groupnoise.evaluation._calibration import (
    Reliability,
    expected_calibration_error,
    reliability,
)
from groupnoise.evaluation._metrics import (
    accuracy,
    accuracy_within,
    approximated_accuracy,
    covering_rate,
    hit_at_k,
    ndcg_at_k,
)
from groupnoise.evaluation._ranking import PROTOCOLS, Scorer, TargetRanks, rank_targets

__all__ = [
    "PROTOCOLS",
    "Reliability",
    "Scorer",
    "TargetRanks",
    "accuracy",
    "accuracy_within",
    "approximated_accuracy",
    "covering_rate",
    "expected_calibration_error",
    "hit_at_k",
    "ndcg_at_k",
    "rank_targets",
    "reliability",
]
