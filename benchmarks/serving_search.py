"""Exact search against faiss Flat and a bare product, and faiss indexes against exact search.

    groupnoise fit amazon-video-games --output runs/video -p max_epochs=8
    python benchmarks/serving_search.py --model runs/video

Baselines take turns in one process on the same queries. Everything runs on one thread and is timed
by processor time, so that other work on the machine does not count; a figure is the median over the
rounds and a ratio the median of the ratios of neighbouring runs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import faiss
import numpy as np
from _record import write_result

from groupnoise import load_model
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.recall import IndexSpec
from groupnoise.recall.index import build_index, load_index
from groupnoise.recall.search import ExactSearch
from groupnoise.recall.vectors import MatchingVectors

ROUNDS = 15
N_ITEMS, DIMENSION, BATCH = 100_000, 64, 64
SEED = 0


def alternate(runs: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return the seconds of each run, taken in turns."""
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return seconds


def summary(seconds: dict[str, list[float]], n_queries: int, base: str) -> dict[str, Any]:
    """Return queries a second for each run, and how many times the base that is."""
    return {
        name: {
            "queries_per_second": round(n_queries / float(np.median(times))),
            f"times_{base}": round(float(np.median(np.array(seconds[base]) / np.array(times))), 2),
        }
        for name, times in seconds.items()
    }


def matching_vectors(table: Any, bias: Any) -> MatchingVectors:
    targets = np.concatenate([table, bias[:, None]], axis=1).astype(np.float32)
    return MatchingVectors(
        targets, targets, np.zeros(len(targets), dtype=np.float32), ScoringRule(scope="last")
    )


def by_last_click(vectors: MatchingVectors) -> Callable[[Any, int], Any]:
    """Return exact search for histories of one click each."""
    search = ExactSearch(vectors)
    return lambda clicks, top: search.search(vectors.mixture(list(clicks[:, None])), top)


def exact_against_flat() -> dict[str, Any]:
    """Compare at batch 64 over 100 000 x 64; ours also adds the item bias."""
    generator = np.random.default_rng(SEED)
    table = generator.standard_normal((N_ITEMS, DIMENSION), dtype=np.float32)
    vectors = matching_vectors(table, np.zeros(N_ITEMS))
    clicks = generator.integers(0, N_ITEMS, BATCH)
    rows = table[clicks]
    ranked = by_last_click(vectors)
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(table)
    results = {}
    for top in (10, 100):

        def bare(top: int = top) -> Any:
            scores = rows @ table.T
            return np.argpartition(scores, N_ITEMS - top, axis=1)[:, N_ITEMS - top :]

        found = ranked(clicks, top)[0]
        agreement = float((found == flat.search(rows, top)[1]).mean())
        seconds = alternate(
            {
                "faiss_flat": lambda top=top: flat.search(rows, top),
                "exact": lambda top=top: ranked(clicks, top),
                "product_and_argpartition": bare,
                "product_alone": lambda: rows @ table.T,
            }
        )
        results[f"top_{top}"] = {
            "same_items_as_faiss": agreement,
            **summary(seconds, BATCH, "faiss_flat"),
        }
    return results


def trained_vectors(folder: Path) -> tuple[MatchingVectors, dict[str, Any]]:
    model = load_model(folder)
    trained = model.item_vectors()
    settings = {name: model.get_params()[name] for name in ("dim", "max_epochs", "selection")}
    return matching_vectors(trained.target, trained.bias), settings


def indexes_against_exact(folder: Path) -> dict[str, Any]:
    """Compare on trained vectors, one query at a time and 64 together, at recall@10 >= .95."""
    vectors, training = trained_vectors(folder)
    n_items = len(vectors.targets)
    clicks = np.random.default_rng(SEED + 1).integers(0, n_items, 512)
    rows = np.concatenate([vectors.features(clicks), np.ones((512, 1), dtype=np.float32)], axis=1)
    ranked = by_last_click(vectors)
    exact = ranked(clicks, 10)[0]
    results: dict[str, Any] = {"training": training, "n_items": n_items}
    for kind in ("ivf", "hnsw"):
        data, described = build_index(vectors, IndexSpec(kind=kind, least_recall=0.95))
        index = load_index(data, described, least_recall=0.95, shape=vectors.targets.shape)
        found = index.search(rows, 10)[0]
        hits = (exact[:, :, None] == found[:, None, :]).any(axis=2)
        results[kind] = {
            "index": described,
            "recall_at_10_on_other_queries": round(float(hits.mean()), 4),
        }
        for batch in (1, 64):
            starts = range(0, 64 if batch == 1 else 512, batch)
            seconds = alternate(
                {
                    "exact": lambda starts=starts, batch=batch: [
                        ranked(clicks[a : a + batch], 10) for a in starts
                    ],
                    kind: lambda starts=starts, batch=batch, index=index: [
                        index.search(rows[a : a + batch], 10) for a in starts
                    ],
                }
            )
            results[kind][f"batch_{batch}"] = summary(seconds, len(starts) * batch, "exact")
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True, help="A recommender fitted on Video.")
    folder = parser.parse_args().model
    faiss.omp_set_num_threads(1)
    payload = {
        "configuration": {
            "items": N_ITEMS,
            "dimension": DIMENSION,
            "batch": BATCH,
            "rounds": ROUNDS,
            "seed": SEED,
            "load_average": os.getloadavg()[0],
        },
        "exact_search": exact_against_flat(),
    }
    payload["indexes_on_video"] = indexes_against_exact(folder)
    print(write_result("serving_search", payload, packages=("faiss-cpu",)))


if __name__ == "__main__":
    main()
