"""Impressions in the simulated shop, where the chance of every click is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.replay import Impressions
from groupnoise.clicks.shop import REACH
from groupnoise.io.datasets import ClickDataset

N_THREADS = 2
"""Threads of a history that its user would follow up: as many as interests in the shop."""
BEST_CHANCE = 0.5
"""Chance of a click on what suits a user best."""
LEAST_CHANCE = 0.01
"""Chance of a click on what does not suit at all."""


class SimulatedImpressions(NamedTuple):
    """What was shown in the shop, and the truth behind the clicks.

    `log`: as a shop would keep it.
    `chances` (n_users, n_items): the true chance of each user to click on each item when it is
        shown.
    """

    log: Impressions
    chances: NDArray[np.float64]

    def click_through(self, policy: NDArray[np.float64]) -> float:
        """Return the true click-through of a policy.

        `policy` (n_users, n_items): the chance of each item to be shown to each user; rows sum to
        one.
        """
        return float((policy * self.chances).sum(axis=1).mean())


def make_impressions(
    shop: ClickDataset,
    n_shown: int = 20,
    *,
    exploration: float = 0.2,
    random_state: int = 0,
) -> SimulatedImpressions:
    """Show items to the users of the simulated shop and let them click.

    A user follows up the latest two clicks of the history that meant something and were not
    followed yet: the nearer an item lies on the same shelf, the likelier a click on it. Items are
    shown by how popular they are, some of them evenly at random.

    `exploration`: share of impressions drawn evenly over the catalogue, above 0.
    """
    generator = np.random.default_rng(random_state)
    chances = _chances(shop)
    popularity = np.bincount(shop.histories.objects, minlength=shop.n_items).astype(np.float64)
    shown_by = exploration / shop.n_items + (1 - exploration) * popularity / popularity.sum()
    n_users = len(shop.histories)
    users = np.repeat(np.arange(n_users), n_shown)
    items = generator.choice(shop.n_items, size=len(users), p=shown_by / shown_by.sum())
    log = Impressions(
        users=shop.user_ids[users],
        items=shop.item_ids[items],
        propensity=shown_by[items],
        clicked=generator.random(len(users)) < chances[users, items],
    )
    return SimulatedImpressions(log, chances)


def _chances(shop: ClickDataset) -> NDArray[np.float64]:
    """Return the chance of each user to click on each item, shape (n_users, n_items)."""
    shelf = np.unique(np.asarray(shop.categories), return_inverse=True)[1]
    position = np.arange(shop.n_items)
    sizes = np.bincount(shelf)[shelf]
    distance = np.abs(position[:, None] - position) / sizes[:, None]
    near = np.exp(-distance / REACH) * (shelf[:, None] == shelf) * (distance > 0)
    near /= np.maximum(near.max(axis=1, keepdims=True), 1e-12)  # (items, items)
    chances = np.empty((len(shop.histories), shop.n_items))
    follows = np.asarray(shop.notes["follows"])
    is_stray = np.asarray(shop.is_stray)
    for user, history in enumerate(shop.histories):
        clicks = slice(shop.histories.offsets[user], shop.histories.offsets[user + 1])
        is_open = ~is_stray[clicks]
        is_open[follows[clicks][follows[clicks] >= 0]] = False
        threads = history[np.flatnonzero(is_open)[-N_THREADS:]]
        suits = near[threads].max(axis=0) if len(threads) else np.zeros(shop.n_items)
        chances[user] = LEAST_CHANCE + (BEST_CHANCE - LEAST_CHANCE) * suits
    return chances
