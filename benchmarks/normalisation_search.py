"""One normalization or both, under real and drawn candidates: accuracy on validation rows.

    python benchmarks/normalisation_search.py
    python benchmarks/normalisation_search.py --datasets birdsong --seeds 0:8

Settings are those of `ours` in the recipe `pll` but for what is varied, one member.
Test parts are not touched. Figures go to `benchmarks/results/normalisation_search.json`.
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial
from typing import Any

import torch
from _record import write_result
from _search import candidate_accuracy, mean_accuracy, plain_settings

from groupnoise.candidates.noise import replace_candidates
from groupnoise.cli.demo import parse_seeds
from groupnoise.io import PartialLabelDataset, load_dataset

NORMALISATIONS = ("both", "objects")
# Candidates as they came, and drawn ones: the share of rows that get more than one, and how many.
LEVELS = (None, {"epsilon": 0.7, "tau": 3}, {"epsilon": 0.7, "tau": 6})


def main() -> None:
    """Fit every combination under every seed and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=["lost", "msrcv2", "birdsong"])
    parser.add_argument("--seeds", default="0:6", help="FIRST:LAST, the last left out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(options.seeds)
    rows = []
    for dataset in options.datasets:
        data = load_dataset(dataset)
        assert isinstance(data, PartialLabelDataset)
        for level, normalize in itertools.product(LEVELS, NORMALISATIONS):
            settings = {**plain_settings("pll", dataset), "normalize": normalize, "n_members": 1}
            figures = mean_accuracy(partial(score, data, level, settings), seeds)
            rows.append({"dataset": dataset, "drawn": level, "normalize": normalize, **figures})
            print(rows[-1], flush=True)
    write_result("normalisation_search", {"part": "validation", "seeds": [*seeds], "rows": rows})


def score(
    data: PartialLabelDataset, level: dict[str, Any] | None, settings: dict[str, Any], seed: int
) -> float:
    """Return the accuracy on validation rows, candidates drawn anew where a level is given."""
    drawn = data if level is None else replace_candidates(data, **level, random_state=seed)
    return candidate_accuracy(drawn, settings, seed)


if __name__ == "__main__":
    main()
