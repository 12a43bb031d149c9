"""Cold items: recommendation of new items by their features.

    python benchmarks/cold_items.py --data shop movietweetings beauty toys

A tenth of the items is held out with all clicks on them. Every click on such an item, after at
least one other click of its user, is a question: is it among the best ten of the new items, or of
all items, where all new items were added or that one alone? "features" is a plain fit with
`item_features`. Beside it: random order, popularity,
which new items have none of, the most similar item of the history by the same features (content
kNN), and a hybrid in the manner of LightFM: users and features have vectors, an item is the sum of
those of its features and one of its own, trained by BPR. Known items: HIT@10 of the last click of
users, with and without features.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from _record import recorded, write_result
from scipy import sparse
from sklearn.preprocessing import normalize

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import make_shop
from groupnoise.clicks.items.features import feature_matrix

TOP = 10
NEW_SHARE = 0.1
MAX_QUESTIONS = 8000


def read(name: str) -> tuple[list[np.ndarray], pl.DataFrame]:
    """Return histories and a table of items."""
    if name == "shop":
        shop = make_shop(random_state=0)
        about = {"item": shop.item_ids, "title": shop.titles, "category": shop.categories}
        return list(map(np.asarray, shop.histories)), pl.DataFrame(about)
    folder = Path(os.environ.get("GROUPNOISE_DATA", "data")) / "rs"
    log, table = {
        "beauty": ("amazon_beauty_5core", "amazon_beauty_5core_items.tsv.gz"),
        "toys": ("amazon_toys_and_games_5core", None),
        "movietweetings": ("movietweetings_100k_5core", "movietweetings_100k_5core_items.tsv.gz"),
    }[name]
    with gzip.open(folder / f"{log}.txt.gz", "rt") as lines:
        clicks = np.array([line.split() for line in lines], dtype=np.int64)
    histories = np.split(clicks[:, 1], np.flatnonzero(np.diff(clicks[:, 0])) + 1)
    if table is None:
        with gzip.open(folder / "amazon_toys_and_games_5core_attributes.json.gz", "rt") as file:
            found = json.load(file)
        items = pl.DataFrame(
            {
                "item": [int(key) for key in found],
                "category": ["|".join(map(str, each)) for each in found.values()],
            }
        )
    else:
        with gzip.open(folder / table) as file:
            items = pl.read_csv(file.read(), separator="\t", quote_char=None)
        items = items.drop([c for c in ("asin", "imdb") if c in items.columns])
    return histories, items


def hit(scores: np.ndarray, targets: np.ndarray) -> float:
    """Return the share of targets among the best ten; of equal scores half are ahead."""
    own = scores[np.arange(len(targets)), targets][:, None]
    ahead = (scores > own).sum(axis=1) + 0.5 * ((scores == own).sum(axis=1) - 1)
    return round(float((ahead < TOP).mean()), 4)


def hybrid(
    histories: list[np.ndarray], features: sparse.csr_array, users: np.ndarray, seed: int
) -> np.ndarray:
    """Return scores of all items for some users, by sums of the vectors of features and BPR."""
    generator = torch.Generator().manual_seed(seed)
    n_items = features.shape[0]
    both = sparse.csr_array(sparse.hstack([features, sparse.eye_array(n_items)]))
    table = torch.sparse_csr_tensor(
        torch.from_numpy(both.indptr.astype(np.int64)),
        torch.from_numpy(both.indices.astype(np.int64)),
        torch.from_numpy(both.data.astype(np.float32)),
        size=both.shape,
    )
    dim = 64
    of_feature = torch.nn.Parameter(0.05 * torch.randn(both.shape[1], dim, generator=generator))
    of_user = torch.nn.Parameter(0.05 * torch.randn(len(histories), dim, generator=generator))
    optimizer = torch.optim.Adam([of_feature, of_user], lr=5e-3, weight_decay=1e-6)
    who = torch.from_numpy(np.repeat(np.arange(len(histories)), [len(h) for h in histories]))
    what = torch.from_numpy(np.concatenate(histories))
    clicked = torch.zeros(n_items, dtype=torch.bool)
    clicked[what] = True
    pool = torch.nonzero(clicked).ravel()
    for _ in range(12):
        for rows in torch.randperm(len(who), generator=generator).split(4096):
            items = table @ of_feature
            drawn = pool[torch.randint(len(pool), (len(rows),), generator=generator)]
            user = of_user[who[rows]]
            margin = (user * (items[what[rows]] - items[drawn])).sum(-1)
            loss = torch.nn.functional.softplus(-margin).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (of_user[torch.from_numpy(users)] @ (table @ of_feature).T).numpy()


def measure(name: str, seed: int) -> dict[str, Any]:
    """Return the figures of one log."""
    generator = np.random.default_rng(seed)
    histories, table = read(name)
    items = np.unique(np.concatenate(histories))
    new = np.sort(generator.choice(items, round(NEW_SHARE * len(items)), replace=False))
    kept, contexts, targets, users, last = [], [], [], [], []
    for history in histories:
        is_new = np.isin(history, new)
        known = history[~is_new]
        if len(known) < 3:
            continue
        for place in np.flatnonzero(is_new):
            before = history[:place][~is_new[:place]]
            before = before[before != known[-1]]
            if len(before):
                contexts.append(before)
                targets.append(history[place])
                users.append(len(kept))
        kept.append(known[:-1])
        last.append(known[-1])
    if len(contexts) > MAX_QUESTIONS:
        chosen = np.sort(generator.choice(len(contexts), MAX_QUESTIONS, replace=False))
        contexts, targets, users = (
            [each[k] for k in chosen] for each in (contexts, targets, users)
        )
    tested = np.sort(generator.choice(len(kept), min(3000, len(kept)), replace=False))

    class Watched(MaxMatchingRecommender):
        """A plain fit with features, asked about known items before it has placed any."""

        def _place_by_features(self, *arguments: Any) -> None:
            self.known_before = known_hits(self, kept, last, tested)
            begun = time.process_time()
            super()._place_by_features(*arguments)
            self.place_seconds = time.process_time() - begun

    begun = time.process_time()
    model = Watched(random_state=seed).fit(kept, item_features=table)
    fit_seconds = time.process_time() - begun - model.place_seconds
    known_before, place_seconds = model.known_before, model.place_seconds
    known_after = known_hits(model, kept, last, tested)
    known_among = known_hits(model, kept, last, tested, without=new)
    columns = model.catalogue_.indices_of(new)
    positions = np.searchsorted(new, np.array(targets))
    scores = model.scores(contexts)
    for row, history in enumerate(contexts):
        scores[row, model.catalogue_.indices_of(history)] = -np.inf
    places = model.catalogue_.indices_of(np.array(targets))
    new_item_bias = model.feature_map_.new_item_bias
    offsets = (
        [new_item_bias.offset_for(n) for n in (len(new), 1)]
        if new_item_bias is not None
        else [0.0] * 2
    )
    own = scores[np.arange(len(places)), places] - offsets[0] + offsets[1]
    n_ahead = (np.delete(scores, columns, axis=1) > own[:, None]).sum(axis=1)
    rows = {"features": (scores[:, columns], scores, places)}
    order = {str(each): row for row, each in enumerate(table["item"].to_list())}
    described = table[[order[str(each)] for each in model.items_.tolist()]]
    features = feature_matrix(model.feature_map_.columns, described)
    unit = normalize(features)
    close = np.asarray((unit @ unit[columns].T).todense())
    nearest = np.stack([close[model.catalogue_.indices_of(h)].max(axis=0) for h in contexts])
    indexed = [model.catalogue_.indices_of(history) for history in kept]
    mixed = hybrid(indexed, features, np.array(users), seed)
    figures: dict[str, Any] = {
        "features": {
            "new": hit(rows["features"][0], positions),
            "all": hit(rows["features"][1], rows["features"][2]),
            "all, one at a time": round(float((n_ahead < TOP).mean()), 4),
            "median rank, one at a time": int(np.median(n_ahead)) + 1,
        },
        "content kNN": {"new": hit(nearest, positions)},
        "LightFM-like hybrid": {"new": hit(mixed[:, columns], positions)},
        "popularity": {"new": round(TOP / len(new), 4), "all": 0.0},
        "random": {"new": round(TOP / len(new), 4), "all": round(TOP / model.n_items_, 4)},
    }
    return {
        "new_items": len(new),
        "items": len(items),
        "questions": len(contexts),
        "hit@10": figures,
        "known_items_hit@10": {
            "without features": known_before,
            "with features, among known items": known_among,
            "with features, new items ranked too": known_after,
        },
        "fit_seconds": round(fit_seconds, 1),
        "place_seconds": round(place_seconds, 1),
        "share_of_like_items": 0.0
        if (similar := model.feature_map_.similar) is None
        else similar.share,
        "columns": [(c.name, c.kind, c.width) for c in model.feature_map_.columns],
    }


def known_hits(
    model: Any, kept: list[np.ndarray], last: list[int], rows: np.ndarray, without: Any = None
) -> float:
    """Return HIT@10 of held-out last clicks on known items."""
    contexts, targets = [kept[row] for row in rows], np.array([last[row] for row in rows])
    depth = TOP if without is None else model.n_items_
    found, _ = model.recommend(contexts, top=min(depth, 400))
    hits = 0
    for best, target in zip(found, targets, strict=True):
        own = best if without is None else best[~np.isin(best, without)]
        hits += int(target in own[:TOP])
    return round(hits / len(rows), 4)


def main() -> None:
    """Evaluate each log, and update the result file after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["shop", "movietweetings", "beauty", "toys"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = recorded("cold_items", "logs", dict)
    for name in options.data:
        found[name] = measure(name, options.seed)
        print(name, json.dumps(found[name]), flush=True)
        command = "python benchmarks/cold_items.py --data shop movietweetings beauty toys"
        config = {"seed": options.seed, "share": NEW_SHARE}
        write_result("cold_items", {"command": command, "config": config, "logs": found})


if __name__ == "__main__":
    main()
