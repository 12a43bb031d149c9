"""How `fit` decides what is "auto": a portfolio, held-out scores, a budget, and a record of it."""

from groupnoise.decisions._budget import is_auto, parse_budget
from groupnoise.decisions._ensemble import greedy_ensemble
from groupnoise.decisions._halving import Search, successive_halving
from groupnoise.decisions._portfolio import Option, narrow
from groupnoise.decisions._record import Decisions, Trial
from groupnoise.decisions._render import render_decisions

__all__ = [
    "Decisions",
    "Option",
    "Search",
    "Trial",
    "greedy_ensemble",
    "is_auto",
    "narrow",
    "parse_budget",
    "render_decisions",
    "successive_halving",
]
