"""What one long history costs those that are answered together with it.

    python benchmarks/serving_long_history.py

A block of short histories is answered alone and with one long history among them, by marking what
each history leaves out before the search, and by a way like the one before it: fetch as many items
as the longest history holds beyond the number asked for, and drop what was seen. All runs take
turns in one process on one thread and are timed by processor time; figures are medians over the
rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from _record import write_result

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.recall.search import Eligible, ExactSearch
from groupnoise.recall.vectors import MatchingVectors

N_ITEMS, DIMENSION, N_HISTORIES, CLICKS, TOP = 100_000, 64, 256, 5, 10
SEED = 0


def fetch_then_drop(search: ExactSearch, vectors: MatchingVectors, histories: list[Any]) -> Any:
    """Answer as before: all rows fetch as much as the longest history may throw out."""
    reach = TOP + max(len(history) for history in histories)
    positions, _ = search.search(vectors.mixture(histories), reach)
    kept = [row[~np.isin(row, own)][:TOP] for row, own in zip(positions, histories, strict=True)]
    return np.array(kept)


def mark_first(search: ExactSearch, vectors: MatchingVectors, histories: list[Any]) -> Any:
    """Answer as now."""
    return search.search(vectors.mixture(histories), TOP, Eligible(seen=histories))[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=[200, 2_000, 20_000])
    arguments = parser.parse_args()
    generator = np.random.default_rng(SEED)
    table = 0.3 * generator.standard_normal((N_ITEMS, DIMENSION + 1), dtype=np.float32)
    rule = ScoringRule(window_size=CLICKS, recency=0.3)
    vectors = MatchingVectors(table, table, np.zeros(N_ITEMS, dtype=np.float32), rule)
    search = ExactSearch(vectors)
    short = [generator.integers(N_ITEMS, size=CLICKS) for _ in range(N_HISTORIES)]
    blocks = {"short": short}
    for length in arguments.lengths:
        blocks[str(length)] = [*short[:-1], generator.integers(N_ITEMS, size=length)]
    ways = {"marked_first": mark_first, "fetched_then_dropped": fetch_then_drop}
    seconds: dict[str, dict[str, list[float]]] = {w: {b: [] for b in blocks} for w in ways}
    for _ in range(arguments.rounds):
        for block, histories in blocks.items():
            answers = []
            for way, answer in ways.items():
                started = time.process_time()
                answers.append(answer(search, vectors, histories))
                seconds[way][block].append(time.process_time() - started)
            assert np.array_equal(*answers)
    figures = {
        way: {
            "seconds_for_short_histories": round(float(np.median(own["short"])), 3),
            "times_with_one_long_history": {
                block: round(float(np.median(np.array(own[block]) / np.array(own["short"]))), 2)
                for block in own
                if block != "short"
            },
        }
        for way, own in seconds.items()
    }
    payload = {
        "configuration": {
            "items": N_ITEMS,
            "dimension": DIMENSION,
            "histories": N_HISTORIES,
            "clicks_per_short_history": CLICKS,
            "top": TOP,
            "rounds": arguments.rounds,
            "seed": SEED,
            "load_average": os.getloadavg()[0],
        },
        "figures": figures,
    }
    print(write_result("serving_long_history", payload))
    print(figures)


if __name__ == "__main__":
    main()
