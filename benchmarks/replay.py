"""The paper's online comparison by replay: MM, MM+ and NeuralCF in a shop whose truth is known.

    python benchmarks/replay.py --seeds 0 1 2 3 4

A simulated shop logs its clicks and, later, impressions drawn by popularity with some exploration.
Every recommender is trained on the clicks; what it would earn is estimated from the impressions by
inverse propensity (IPS, SNIPS) and set beside its true click-through, known in a simulation only.
The log of impressions is drawn several times, so that one sees how often the intervals are right.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import write_result

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import make_shop
from groupnoise.clicks.baselines import (
    ItemCFRecommender,
    NeuralCFRecommender,
    PopularityRecommender,
)
from groupnoise.clicks.evaluation.replay import chances_of_model, replay_policy

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from impressions import make_impressions

N_USERS, N_ITEMS, N_SHOWN, TOP = 600, 200, 60, 10
N_LOGS = 20
"""Logs of impressions of each shop: how often do intervals hold the truth?"""
BASE = "NeuralCF"
NEURAL_CF = {"dim": 32, "learning_rate": 5e-3, "batch_size": 128, "max_epochs": 6}
"""Chosen on validation clicks of a further shop, seed 100; at its defaults it is far behind."""
METHODS: dict[str, Any] = {
    "popularity": lambda seed: PopularityRecommender(),
    "item-CF": lambda seed: ItemCFRecommender(),
    "NeuralCF": lambda seed: NeuralCFRecommender(**NEURAL_CF, random_state=seed),
    "MM": lambda seed: MaxMatchingRecommender.paper(scope="last", random_state=seed),
    "MM+": lambda seed: MaxMatchingRecommender.paper(scope="group", random_state=seed),
    "no parameter": lambda seed: MaxMatchingRecommender(random_state=seed),
}


def true_click_through(model: Any, simulated: Any, histories: dict[int, list[int]]) -> float:
    """Return the true click-through of a model that shows one of its best items uniformly."""
    lists, _ = model.recommend(list(histories.values()), top=TOP)
    policy = np.zeros(simulated.chances.shape)
    np.put_along_axis(policy, lists, 1 / TOP, axis=1)
    return float(simulated.click_through(policy))


def measure(seed: int) -> list[dict[str, Any]]:
    """Return a row for each method in one shop."""
    shop = make_shop(N_USERS, N_ITEMS, random_state=seed)
    histories = {int(user): history.tolist() for user, history in enumerate(shop.histories)}
    logs = [
        make_impressions(shop, N_SHOWN, random_state=1000 * seed + draw) for draw in range(N_LOGS)
    ]
    rows = []
    for method, make in METHODS.items():
        model = make(seed)
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(shop.histories, item_ids=shop.item_ids)
        seconds = time.process_time() - started
        truth = true_click_through(model, logs[0], histories)
        found = [
            replay_policy(each.log, chances_of_model(model, each.log, histories, top=TOP))
            for each in logs
        ]
        first = found[0]
        rows.append(
            {
                "seed": seed,
                "method": method,
                "fit_seconds": round(seconds, 1),
                "true": round(truth, 4),
                "snips": [round(end, 4) for end in first.snips],
                "ips": [round(end, 4) for end in first.ips],
                "logged": round(float(logs[0].log.clicked.mean()), 4),
                "n_effective": round(first.n_effective),
                "snips_holds_truth": sum(e.snips.low <= truth <= e.snips.high for e in found),
                "ips_holds_truth": sum(e.ips.low <= truth <= e.ips.high for e in found),
                "snips_error": round(float(np.std([e.snips.mean - truth for e in found])), 4),
                "ips_error": round(float(np.std([e.ips.mean - truth for e in found])), 4),
                "logs": N_LOGS,
            }
        )
        print(rows[-1], flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return means over shops: truth, estimates, and the gain over NeuralCF in both."""
    found = {}
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        base = [row for row in rows if row["method"] == BASE]
        gains = [(o["true"] / b["true"] - 1) for o, b in zip(own, base, strict=True)]
        estimated = [(o["snips"][0] / b["snips"][0] - 1) for o, b in zip(own, base, strict=True)]
        n_logs = sum(row["logs"] for row in own)
        found[method] = {
            "true": round(float(np.mean([row["true"] for row in own])), 4),
            "snips": round(float(np.mean([row["snips"][0] for row in own])), 4),
            "ips": round(float(np.mean([row["ips"][0] for row in own])), 4),
            "true_gain": round(float(np.mean(gains)), 3),
            "estimated_gain": round(float(np.mean(estimated)), 3),
            "snips_holds_truth": round(sum(r["snips_holds_truth"] for r in own) / n_logs, 3),
            "ips_holds_truth": round(sum(r["ips_holds_truth"] for r in own) / n_logs, 3),
        }
    return found


def main() -> None:
    """Measure all shops and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    rows = [row for seed in arguments.seeds for row in measure(seed)]
    settings: dict[str, Any] = {"neural_cf": NEURAL_CF, "logs": N_LOGS}
    settings |= {"users": N_USERS, "items": N_ITEMS, "impressions_per_user": N_SHOWN, "top": TOP}
    payload = {"settings": settings, "seeds": arguments.seeds, "summary": summary(rows)}
    print(write_result("replay", {**payload, "rows": rows}))


if __name__ == "__main__":
    main()
