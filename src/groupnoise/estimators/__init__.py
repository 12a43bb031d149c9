"""Estimators: the three settings as presets over one core, under scikit-learn's contract."""

from groupnoise.estimators._base import ObjectScores
from groupnoise.estimators._criteria import (
    GroupCriteria,
    bag_criteria,
    candidate_criteria,
    history_criteria,
)
from groupnoise.estimators._item_vectors import ItemVectors
from groupnoise.estimators._label_issues import LabelIssues, find_label_issues
from groupnoise.estimators._load import load_model
from groupnoise.estimators._mil import MaxMatchingMILClassifier
from groupnoise.estimators._mipl import ChosenPairs, MaxMatchingMIPLClassifier
from groupnoise.estimators._noisy_labels import NoisyLabelClassifier
from groupnoise.estimators._partial_label import MaxMatchingPartialLabelClassifier
from groupnoise.estimators._recall import MaxMatchingRecommender
from groupnoise.estimators._trade_off import TradeOff, TradeOffTrial

__all__ = [
    "ChosenPairs",
    "GroupCriteria",
    "ItemVectors",
    "LabelIssues",
    "MaxMatchingMILClassifier",
    "MaxMatchingMIPLClassifier",
    "MaxMatchingPartialLabelClassifier",
    "MaxMatchingRecommender",
    "NoisyLabelClassifier",
    "ObjectScores",
    "TradeOff",
    "TradeOffTrial",
    "bag_criteria",
    "candidate_criteria",
    "find_label_issues",
    "history_criteria",
    "load_model",
]
