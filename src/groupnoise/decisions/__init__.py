"""How `fit` decides what is "auto": a portfolio, held-out scores, a budget, and a record of it."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.decisions.record import Decisions as Decisions
    from groupnoise.decisions.trade_off import TradeOff as TradeOff

__getattr__, __dir__, __all__ = lazy_names(__name__)
