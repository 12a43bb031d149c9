"""Which rows to ask about: accuracy against the number of answers, by strategy.

    python benchmarks/queries.py

A kernel is fitted to candidate labels, asks about rows in rounds, is given their true labels and
fitted again. Figures go to `benchmarks/results/queries.json`.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from _record import write_result

from groupnoise.candidates import MaxMatchingPartialLabelClassifier
from groupnoise.exceptions import MissingDataError
from groupnoise.reproduce.unseen_sets import read_unseen_sets
from groupnoise.training.selective import STRATEGIES

SETS = {"lost": "l2", "msrcv2": "power", "birdsong": "standard", "digits uniform": "standard"}
"""Sets of the list of `groupnoise reproduce unseen`, and the scaling of the kernel."""
MAX_ROWS = 1500


def trial(data, scaling, strategy, seed, rounds, batch):
    """Return accuracy on training rows and on new rows after each round."""
    generator = np.random.default_rng([seed, 11])
    order = generator.permutation(len(data.features))[:MAX_ROWS]
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    rows, truth = data.features, data.truth
    candidates = data.candidates[train].copy()
    curve = []
    for number in range(rounds + 1):
        model = MaxMatchingPartialLabelClassifier.fixed(
            encoder="kernel", scaling=scaling, random_state=seed
        )
        model.fit(rows[train], candidates)
        named = model.disambiguate(rows[train], candidates) == truth[train]
        curve.append([float(named.mean()), model.score(rows[test], truth[test])])
        if number == rounds:
            break
        if strategy == "random":
            asked = generator.permutation(np.flatnonzero(candidates.sum(axis=1) > 1))[:batch]
        else:
            asked = model.query(rows[train], candidates, batch, strategy=strategy)
        candidates[asked] = truth[train][asked][:, None] == np.arange(candidates.shape[1])
    return curve


def main() -> None:
    """Measure all strategies on all sets and keep the curves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=20, help="answers per round")
    parser.add_argument("--data", type=Path, help="where the files of the sets are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    unseen = {each.name: each for each in read_unseen_sets()}
    sets, missing = {}, []
    for name, scaling in SETS.items():
        try:
            unseen[name].load(0, options.data)
        except MissingDataError:
            missing.append(name)
            continue
        sets[name] = {}
        for strategy in STRATEGIES:
            curves = [
                trial(
                    unseen[name].load(seed, options.data),
                    scaling,
                    strategy,
                    seed,
                    options.rounds,
                    options.batch,
                )
                for seed in range(options.seeds)
            ]
            mean = np.mean(curves, axis=0)
            sets[name][strategy] = {
                "training rows": [round(float(v), 4) for v in mean[:, 0]],
                "new rows": [round(float(v), 4) for v in mean[:, 1]],
            }
            print(name, strategy, sets[name][strategy], flush=True)
    write_result(
        "queries",
        {
            "answers": [options.batch * number for number in range(options.rounds + 1)],
            "seeds": [*range(options.seeds)],
            "missing": missing,
            "sets": sets,
        },
    )


if __name__ == "__main__":
    main()
