"""How `fit` decides what is "auto": a portfolio, held-out scores, a budget, and a record of it."""

from groupnoise.decisions.budget import is_auto, parse_budget
from groupnoise.decisions.criteria import (
    GroupCriteria,
    bag_criteria,
    candidate_criteria,
    history_criteria,
)
from groupnoise.decisions.ensemble import greedy_ensemble
from groupnoise.decisions.halving import Search, successive_halving
from groupnoise.decisions.portfolio import Option, narrow
from groupnoise.decisions.record import Decisions, Trial
from groupnoise.decisions.render import render_decisions
from groupnoise.decisions.trade_off import TradeOff, TradeOffTrial

__all__ = [
    "Decisions",
    "GroupCriteria",
    "Option",
    "Search",
    "TradeOff",
    "TradeOffTrial",
    "Trial",
    "bag_criteria",
    "candidate_criteria",
    "greedy_ensemble",
    "history_criteria",
    "is_auto",
    "narrow",
    "parse_budget",
    "render_decisions",
    "successive_halving",
]
