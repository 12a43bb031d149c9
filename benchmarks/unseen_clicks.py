"""Click logs: a default fit and baselines, leave-one-out in the whole catalogue.

    python benchmarks/unseen_clicks.py shop movietweetings --data DIRECTORY

Of every user's clicks the last is the test and the one before it the validation click, which is
not trained on; seen items are left out. *Design* logs were looked at while the model was built,
*check* logs were not. Rows are added to the result file one by one, replacing older ones.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
from _record import recorded, replace_row, write_result

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import make_shop, rank_targets
from groupnoise.clicks.baselines import (
    ALSRecommender,
    EASERecommender,
    ItemCFRecommender,
    LRURecRecommender,
    PopularityRecommender,
    SASRecRecommender,
)
from groupnoise.core import hit_at_k, ndcg_at_k

NAME = "unseen_clicks"
DESIGN = {
    "shop": "",
    "shop shuffled": "",
    "movietweetings": "movietweetings_100k_5core",
    "movietweetings shuffled": "movietweetings_100k_5core",
    "toys": "amazon_toys_and_games_5core",
    "beauty": "amazon_beauty_5core",
    "sports": "amazon_sports_5core",
    "ml-1m quarter": "movielens_1m_sasrec",
    "ml-1m quarter shuffled": "movielens_1m_sasrec",
    "movietweetings half shuffled": "movietweetings_100k_5core",
}
CHECK = {
    "office": "amazon_office_products_2018_partial",
    "video": "amazon_video_games_sasrec",
    "ml-1m": "movielens_1m_sasrec",
    "beauty bert4rec": "amazon_beauty_bert4rec",
    "beauty full": "amazon_beauty_sasrec_full",
}
MAX_EASE_ITEMS = 16_384
METHODS: dict[str, Any] = {
    "popularity": lambda seed: PopularityRecommender(),
    "item-cf": lambda seed: ItemCFRecommender(),
    "item-knn": lambda seed: ItemCFRecommender(decay="auto"),
    "als": lambda seed: ALSRecommender(random_state=seed),
    "ease": lambda seed: EASERecommender(max_items=MAX_EASE_ITEMS),
    "sasrec": lambda seed: SASRecRecommender(random_state=seed),
    "lrurec": lambda seed: LRURecRecommender(random_state=seed),
    "max-matching": lambda seed: MaxMatchingRecommender(random_state=seed),
}
NETWORKS = ("sasrec", "lrurec")
"""Methods with early stopping on the validation clicks."""


def read_log(name: str, data: Path) -> list[np.ndarray]:
    """Return the histories of a log by its name above."""
    file = {**DESIGN, **CHECK}[name]
    rng = np.random.default_rng(0)
    if not file:
        histories = list(make_shop(3000, 600, random_state=0).histories)
    else:
        with gzip.open(data / f"{file}.txt.gz") as stream:
            users, items = np.loadtxt(stream, dtype=np.int64).T
        _, items = np.unique(items, return_inverse=True)
        histories = np.split(items, np.flatnonzero(np.diff(users)) + 1)
    if "quarter" in name or "half" in name:
        n_kept = 1500 if "quarter" in name else 2000
        histories = [histories[row] for row in rng.permutation(len(histories))[:n_kept]]
    if name.endswith("shuffled"):
        histories = [rng.permutation(history) for history in histories]
    return histories


def as_groups(histories: list[np.ndarray], targets: list[int] | None = None) -> Groups:
    """Return histories as groups, with targets if given."""
    offsets = np.concatenate([[0], np.cumsum([len(history) for history in histories])])
    return Groups(np.concatenate(histories), offsets, None if targets is None else targets)


def figures(model: Any, histories: list[np.ndarray], back: int, n_items: int) -> dict[str, float]:
    """Return the metrics of the clicks `back` from the end, ranked among the whole catalogue."""
    kept = [history for history in histories if len(history) >= 3]
    before = as_groups([h[:-back] for h in kept], [h[-back] for h in kept])
    ranks = rank_targets(model, before, n_items, "full")
    return {
        "HIT@10": round(float(hit_at_k(*ranks)), 4),
        "NDCG@10": round(float(ndcg_at_k(*ranks)), 4),
        "Recall@100": round(float(hit_at_k(*ranks, k=100)), 4),
    }


def among_100(model: Any, histories: list[np.ndarray], n_items: int) -> dict[str, float]:
    """Return the metrics of the last clicks among 100 items that their users never touched."""
    kept = [history for history in histories if len(history) >= 3]
    before = as_groups([h[:-1] for h in kept], [h[-1] for h in kept])
    ranks = rank_targets(model, before, n_items, seen=as_groups(kept))
    return {
        "HIT@10": round(float(hit_at_k(*ranks)), 4),
        "NDCG@10": round(float(ndcg_at_k(*ranks)), 4),
    }


def measure(log: str, method: str, seed: int, data: Path) -> dict[str, Any]:
    """Fit one method on one log and return its row."""
    histories = read_log(log, data)
    n_items = int(max(history.max() for history in histories)) + 1
    training = [history[:-2] if len(history) >= 3 else history for history in histories]
    model = METHODS[method](seed)
    started, busy = time.perf_counter(), time.process_time()
    more = {}
    if method in NETWORKS:
        kept = [history for history in histories if len(history) >= 3][:2000]
        more["validation"] = as_groups([h[:-2] for h in kept], [h[-2] for h in kept])
    model.fit(as_groups(training), item_ids=np.arange(n_items), **more)
    row: dict[str, Any] = {
        "log": log,
        "split": "design" if log in DESIGN else "check",
        "method": method,
        "seed": seed,
        "users": len(histories),
        "items": n_items,
        "fit_seconds": round(time.perf_counter() - started, 1),
        "fit_cpu_seconds": round(time.process_time() - busy, 1),
        "validation": figures(model, histories, 2, n_items),
    }
    started = time.perf_counter()
    row["test"] = figures(model, histories, 1, n_items)
    row["rank_seconds"] = round(time.perf_counter() - started, 1)
    row["among 100"] = among_100(model, histories, n_items)
    if method == "max-matching":
        row["decided"] = model.decisions_.members[0][1]
        row["trials"] = [trial.as_record() for trial in model.decisions_.trials]
        row["said"] = model.decisions_.summary().splitlines()
    return row


def main() -> None:
    """Evaluate logs and add their rows to the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", default=[*DESIGN, *CHECK])
    parser.add_argument("--methods", nargs="*", default=[m for m in METHODS if m not in NETWORKS])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="Holds the .txt.gz files.")
    arguments = parser.parse_args()
    for log in arguments.logs:
        for method in arguments.methods:
            for seed in arguments.seeds:
                row = measure(log, method, seed, arguments.data)
                rows = replace_row(recorded(NAME), row, ("log", "method", "seed"))
                note = (
                    "wall-clock times were taken on a machine shared with other work; "
                    "fit_cpu_seconds, where a row has it, is the time of one core"
                )
                command = (
                    "python benchmarks/unseen_clicks.py LOGS --methods METHODS --data DIRECTORY"
                )
                write_result(NAME, {"command": command, "note": note, "rows": rows})
                print(log, method, row["fit_seconds"], row["validation"], row["test"], flush=True)


if __name__ == "__main__":
    main()
