"""The simulated shop as two artifacts: Max-Matching, and co-occurrence to set beside it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from groupnoise.cli._export import write_recommender

if TYPE_CHECKING:
    from groupnoise.datasets import ClickDataset

N_USERS = 4000
N_ITEMS = 400
STRAY_RATE = 0.2
SEED = 0
EXAMPLE_CLICKS = 5


def write_demo(folder: Path) -> tuple[Path, Path]:
    """Train both models on the shop and return their artifact folders."""
    from groupnoise.baselines.recall import CooccurrenceRecommender
    from groupnoise.datasets import make_shop, split_clicks
    from groupnoise.estimators import MaxMatchingRecommender
    from groupnoise.evaluation import hit_at_k, ndcg_at_k, rank_targets

    shop = make_shop(N_USERS, N_ITEMS, stray_rate=STRAY_RATE, random_state=SEED)
    split = split_clicks(shop.histories, "leave_one_out")
    ours = MaxMatchingRecommender(dim=32, max_epochs=6, candidates="full", random_state=SEED)
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "max-matching": (
            ours,
            {
                "name": "Max-Matching",
                "summary": "Finds the click that really leads on, and weighs the others down.",
                "example": _example(shop),
            },
        ),
        "co-occurrence": (
            CooccurrenceRecommender(),
            {
                "name": "Co-occurrence",
                "summary": "Counts which items share a history; every click counts alike.",
            },
        ),
    }
    facts = {
        "data": f"simulated shop, {N_USERS} visitors, {STRAY_RATE:.0%} stray clicks",
        "trained": date.today().isoformat(),
    }
    for name, (model, card) in models.items():
        model.fit(split.train.groups, item_ids=shop.item_ids)
        ranks = rank_targets(model, split.test.groups, shop.n_items, "full")
        metrics = {
            "HIT@10 on last clicks": round(hit_at_k(*ranks, k=10), 3),
            "NDCG@10 on last clicks": round(ndcg_at_k(*ranks, k=10), 3),
        }
        write_recommender(
            model,
            folder / name,
            titles=shop.titles,
            categories=shop.categories,
            card={**card, **facts, "metrics": metrics},
        )
    main, second = (folder / name for name in models)
    return main, second


def _example(shop: ClickDataset) -> list[Any]:
    """Return the ids of the first run of clicks with one stray click among one interest's."""
    categories = np.array(shop.categories)
    is_stray = np.asarray(shop.is_stray)
    for user in range(len(shop.histories)):
        begin, end = shop.histories.offsets[user], shop.histories.offsets[user + 1]
        for first in range(begin, end - EXAMPLE_CLICKS + 1):
            window = slice(first, first + EXAMPLE_CLICKS)
            clicks, stray = shop.histories.objects[window], is_stray[window]
            n_interests = len(set(categories[clicks[~stray]]))
            is_clear = stray.sum() == 1 and n_interests == 1 and not stray[-1]
            if is_clear and len(set(clicks.tolist())) == EXAMPLE_CLICKS:
                return list(shop.item_ids[clicks].tolist())
    return []
