"""What background costs: validation accuracy on bags with it, and with it taken out of training.

    python benchmarks/background_cost.py
    python benchmarks/background_cost.py --dataset sival-like --seeds 0:2

Settings are those of `ours` in the recipe `mil` but for the temperature. The bags
validated on are the same in both cases, and test parts are not touched. Figures go to
`benchmarks/results/background_cost_<dataset>.json`.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
import torch
from _record import write_result
from _search import instance_accuracy, mean_accuracy, plain_settings
from bag_search import TEMPERATURES

from groupnoise.cli.demo import parse_seeds
from groupnoise.io import BagDataset, load_dataset
from groupnoise.io.datasets import keep_objects, subset_bags


def main() -> None:
    """Fit with and without background under every seed and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="hja-birdsong")
    parser.add_argument("--seeds", default="0:8", help="FIRST:LAST, the last left out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_dataset(options.dataset)
    assert isinstance(data, BagDataset)
    seeds = parse_seeds(options.seeds)
    settings = plain_settings("mil", options.dataset)
    rows = []
    for temperature in TEMPERATURES:
        for has_background in (True, False):
            varied = {"temperature": list(temperature), "background": has_background}
            fit_and_score = partial(
                instance_accuracy,
                data,
                {**settings, **varied},
                prepare=None if has_background else without_background,
            )
            rows.append({**varied, **mean_accuracy(fit_and_score, seeds)})
            print(rows[-1], flush=True)
    write_result(
        f"background_cost_{options.dataset}",
        {"part": "validation", "seeds": [*seeds], "settings": settings, "rows": rows},
    )


def without_background(data: BagDataset) -> BagDataset:
    """Return the bags without their background instances; bags of nothing else are left out."""
    assert data.instance_labels is not None
    known = data.instance_labels >= 0
    some_known = np.add.reduceat(known, data.bags.offsets[:-1], dtype=np.int64) > 0
    rest = subset_bags(data, some_known)
    assert rest.instance_labels is not None
    return keep_objects(rest, rest.instance_labels >= 0)


if __name__ == "__main__":
    main()
