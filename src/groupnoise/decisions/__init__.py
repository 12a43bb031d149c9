"""How `fit` decides what is "auto": a portfolio, held-out scores, a budget, and a record of it."""

from groupnoise.decisions.record import Decisions
from groupnoise.decisions.trade_off import TradeOff

__all__ = ["Decisions", "TradeOff"]
