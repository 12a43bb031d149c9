"""Ten nightly updates of a model, compared with retraining every night.

    python benchmarks/nightly.py --data shop --days 6 --arms stale update plain decided today
    python benchmarks/nightly.py --data movietweetings --arms stale decided update

A log is cut by day. Every night the model learns the day's clicks; the next day each click is asked
for after all clicks of its user before it. Seconds are those of the processor. "plain" is a fit
that decides everything anew; where it is run for fewer nights than ten, its seconds are told per
night. "decided" trains from nothing with the decisions of the first fit. "update" is `partial_fit`
with the whole log, "today" with the histories of the day's users alone, "stale" learns nothing.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import write_result

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import make_shop

TOP = 10
NIGHTS = 10
SEED = 0
SECONDS = 86400.0
ARRIVAL_DAYS = 365
"""Over which the users of the simulated shop come; the log ends with the last of them."""
ARMS = ("stale", "today", "update", "decided", "plain")
FIELDS = ("dim", "window_size", "init", "candidates", "n_negatives", "max_epochs", "batch_size",
          "learning_rate", "weight_decay", "shared", "encoder", "linear")  # fmt: skip


def read(name: str, days: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return user, item and day of every click, in time order."""
    if name == "shop":
        shop = make_shop(1500, 700, random_state=SEED)
        users = shop.histories.group_of_object
        items = shop.item_ids[shop.histories.objects]
        times = SECONDS * np.asarray(shop.timestamps, dtype=float)
    else:
        folder = Path(os.environ.get("GROUPNOISE_DATA", "data"))
        with gzip.open(folder / "rs/movietweetings_100k_ratings.dat.gz", "rt") as lines:
            cells = np.array([line.split("::") for line in lines])
        users, items, times = (cells[:, column].astype(np.int64) for column in (0, 1, 3))
    order = np.argsort(times, kind="stable")
    users, items, times = users[order], items[order], times[order]
    day = ((times - times[0]) // SECONDS).astype(np.int64)
    is_in = day < (ARRIVAL_DAYS if name == "shop" else day.max())
    return users[is_in], items[is_in], day[is_in] // days


class Log:
    """Clicks in time order, cut by day."""

    def __init__(self, name: str, days: int) -> None:
        self.users, self.items, self.day = read(name, days)
        self.first = int(self.day.max()) - NIGHTS - 1
        """The day on which the first model is fitted."""

    def histories(self, is_in: np.ndarray) -> dict[int, np.ndarray]:
        """Return the clicks of each user among some."""
        users, items = self.users[is_in], self.items[is_in]
        order = np.argsort(users, kind="stable")
        users, items = users[order], items[order]
        cuts = np.flatnonzero(np.diff(users)) + 1
        return dict(zip(users[np.r_[0, cuts]].tolist(), np.split(items, cuts), strict=True))

    def until(self, day: int) -> list[np.ndarray]:
        """Return all histories up to a day."""
        return list(self.histories(self.day <= day).values())

    def gains(self, model: Any, day: int) -> np.ndarray:
        """Return NDCG@10 of every click of a day, after the clicks of its user before it."""
        before, contexts, targets = self.histories(self.day < day), [], []
        for user, items in self.histories(self.day == day).items():
            past = before.get(user, np.zeros(0, dtype=np.int64)).tolist()
            for item in items.tolist():
                if past:
                    contexts.append(np.array(past))
                    targets.append(item)
                past.append(item)
        found, _ = model.recommend(contexts, top=TOP)
        hits = found == np.array(targets)[:, None]
        return (hits / np.log2(np.arange(TOP) + 2)).sum(axis=1)

    def learn(self, arm: str, model: Any, day: int, taken: dict[str, Any]) -> Any:
        """Return the model of a night."""
        if arm == "stale":
            return model
        if arm == "plain":
            return MaxMatchingRecommender(random_state=SEED).fit(self.until(day))
        if arm == "decided":
            again = {name: taken[name] for name in FIELDS}
            fresh = MaxMatchingRecommender(normalization="history", **again, random_state=SEED)
            return fresh.fit(self.until(day))
        is_in = self.day <= day
        if arm == "today":
            is_in &= np.isin(self.users, self.users[self.day == day])
        before = self.histories(is_in & (self.day < day))
        now = self.histories(is_in)
        known = [len(before.get(user, ())) for user in now]
        return model.partial_fit(list(now.values()), known=known)


def main() -> None:
    """Run all arms and write a result file after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=("shop", "movietweetings"), default="shop")
    parser.add_argument("--plain-nights", type=int, default=NIGHTS)
    parser.add_argument("--days", type=int, default=1, help="Days that pass between two nights.")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    log = Log(options.data, options.days)
    started = time.process_time()
    first = MaxMatchingRecommender(random_state=SEED).fit(log.until(log.first))
    first_seconds = time.process_time() - started
    first.save(folder := Path(os.environ.get("TMPDIR", "/tmp")) / f"nightly-{os.getpid()}")
    name = first.decisions_.taken[0][0]
    taken = next(o.parameters for o in first.decisions_.options if o.name == name)
    rows: dict[str, Any] = {}
    for arm in options.arms:
        model = MaxMatchingRecommender.load(folder)
        n_nights = options.plain_nights if arm == "plain" else NIGHTS
        seconds, gains = [], []
        for night in range(1, n_nights + 1):
            begun = time.process_time()
            model = log.learn(arm, model, log.first + night, taken)
            seconds.append(time.process_time() - begun)
            gains.append(log.gains(model, log.first + night + 1))
        every = np.concatenate(gains)
        rows[arm] = {
            "nights": n_nights,
            "seconds_per_night": round(float(np.mean(seconds)), 2),
            "ndcg@10": round(float(every.mean()), 5),
            "standard_error": round(float(every.std() / np.sqrt(len(every))), 5),
            "by_night": [round(float(each.mean()), 4) for each in gains],
            "questions": len(every),
        }
        print(arm, rows[arm], flush=True)
        write_result(
            f"nightly_{options.data}",
            {
                "config": {
                    "nights": NIGHTS,
                    "days": options.days,
                    "seed": SEED,
                    "taken": {**taken, "option": name},
                },
                "first_fit_seconds": round(first_seconds, 1),
                "clicks": len(log.items),
                "arms": rows,
            },
        )


if __name__ == "__main__":
    main()
