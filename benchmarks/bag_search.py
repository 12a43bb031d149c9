"""How long to train on bags, and from which temperature: validation accuracy on instances.

    python benchmarks/bag_search.py                                   # HJA birdsong
    python benchmarks/bag_search.py --dataset sival-like --seeds 0:4 --epochs 30 60

Settings are those of `ours` in the recipe `mil` but for what is varied. Test parts are
not touched. Figures go to `benchmarks/results/bag_search_<dataset>.json`.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from _record import write_result
from _search import instance_accuracy, mean_accuracy, plain_settings

from groupnoise.cli.demo import parse_seeds
from groupnoise.io import BagDataset, load_dataset

TEMPERATURES = ((1.0, 0.7), (10.0, 0.5))


def main() -> None:
    """Fit every combination under every seed and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="hja-birdsong")
    parser.add_argument("--seeds", default="0:8", help="FIRST:LAST, the last left out")
    parser.add_argument("--epochs", nargs="+", type=int, default=[30, 60, 120, 240])
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_dataset(options.dataset)
    assert isinstance(data, BagDataset)
    seeds = parse_seeds(options.seeds)
    settings = plain_settings("mil", options.dataset)
    rows = []
    for temperature in TEMPERATURES:
        for max_epochs in options.epochs:
            varied = {"temperature": list(temperature), "max_epochs": max_epochs}
            fit_and_score = partial(instance_accuracy, data, {**settings, **varied})
            rows.append({**varied, **mean_accuracy(fit_and_score, seeds)})
            print(rows[-1], flush=True)
    write_result(
        f"bag_search_{options.dataset}",
        {"part": "validation", "seeds": [*seeds], "settings": settings, "rows": rows},
    )


if __name__ == "__main__":
    main()
