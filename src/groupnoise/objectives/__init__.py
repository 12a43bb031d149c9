"""The loss, in three replaceable parts: pair matching, group weighting, selection."""

from groupnoise.objectives._absent import log_allowed_mass
from groupnoise.objectives._group_weighting import ContrastiveWeighting, SigmoidWeighting, Weighting
from groupnoise.objectives._joint_matching import (
    JointMatching,
    PerObjectWeighting,
    log_joint_probability,
    match_pairs,
)
from groupnoise.objectives._loss import GroupLoss
from groupnoise.objectives._named import (
    NAMED_OBJECTIVES,
    make_selection,
    make_weighting,
    named_objective,
)
from groupnoise.objectives._objective import GroupObjective, LossOutput
from groupnoise.objectives._pair_matching import Matcher, Matching, PairMatching
from groupnoise.objectives._prior import PriorMatching
from groupnoise.objectives._recency import log_recency
from groupnoise.objectives._selection import (
    All,
    Marginal,
    Max,
    Selected,
    Selection,
    Tempered,
    TopK,
)

__all__ = [
    "NAMED_OBJECTIVES",
    "All",
    "ContrastiveWeighting",
    "GroupLoss",
    "GroupObjective",
    "JointMatching",
    "LossOutput",
    "Marginal",
    "Matcher",
    "Matching",
    "Max",
    "PairMatching",
    "PerObjectWeighting",
    "PriorMatching",
    "Selected",
    "Selection",
    "SigmoidWeighting",
    "Tempered",
    "TopK",
    "Weighting",
    "log_allowed_mass",
    "log_joint_probability",
    "log_recency",
    "make_selection",
    "make_weighting",
    "match_pairs",
    "named_objective",
]
