"""How `fit` decides what is "auto": a portfolio, held-out scores, a budget, and a record of it."""

from groupnoise.decisions.criteria import (
    GroupCriteria,
    bag_criteria,
    candidate_criteria,
    history_criteria,
)
from groupnoise.decisions.record import Decisions, render_decisions
from groupnoise.decisions.trade_off import TradeOff

__all__ = [
    "Decisions",
    "GroupCriteria",
    "TradeOff",
    "bag_criteria",
    "candidate_criteria",
    "history_criteria",
    "render_decisions",
]
