"""Comparisons: trials, methods, and the tables they give."""

from groupnoise.experiments._run import Method, TrialResult, run_method, summarise
from groupnoise.experiments._trials import BagTrial, CandidateTrial, ClickTrial, Trial

__all__ = [
    "BagTrial",
    "CandidateTrial",
    "ClickTrial",
    "Method",
    "Trial",
    "TrialResult",
    "run_method",
    "summarise",
]
