"""Scalings of the features and courses of the temperature: accuracy on validation rows.

    python benchmarks/candidate_search.py
    python benchmarks/candidate_search.py --datasets birdsong --seeds 0:8

Settings are those of `ours` in the recipe `pll` but for what is varied, one member.
Test parts are not touched. Figures go to `benchmarks/results/candidate_search.json`.
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial

import torch
from _record import write_result
from _search import candidate_accuracy, mean_accuracy, plain_settings

from groupnoise.cli.demo import parse_seeds
from groupnoise.io import PartialLabelDataset, load_dataset

SCALINGS = ("standard", "l2", "power")
TEMPERATURES = ((1.0, 0.3), (3.0, 0.3), (3.0, 1.0))


def main() -> None:
    """Fit every combination under every seed and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=["lost", "msrcv2", "birdsong"])
    parser.add_argument("--seeds", default="0:4", help="FIRST:LAST, the last left out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(options.seeds)
    rows = []
    for dataset in options.datasets:
        data = load_dataset(dataset)
        assert isinstance(data, PartialLabelDataset)
        for scaling, temperature in itertools.product(SCALINGS, TEMPERATURES):
            varied = {"scaling": scaling, "temperature": list(temperature)}
            settings = {**plain_settings("pll", dataset), **varied, "n_members": 1}
            figures = mean_accuracy(partial(candidate_accuracy, data, settings), seeds)
            rows.append({"dataset": dataset, **varied, **figures})
            print(rows[-1], flush=True)
    write_result("candidate_search", {"part": "validation", "seeds": [*seeds], "rows": rows})


if __name__ == "__main__":
    main()
