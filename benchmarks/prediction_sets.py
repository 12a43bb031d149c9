"""Prediction sets calibrated without a true label: do they hold the truth as often as they say.

    python benchmarks/prediction_sets.py

All sets of candidate labels in the list of `groupnoise reproduce unseen` with at most 2000 rows,
a quarter of each tested on. Three calibrations: the rows that the search of `fit` held out; a
fifth of the training rows, held out from a second fit, by their candidates; the same with the
truth of 100 of them. Figures go to `benchmarks/results/prediction_sets.json`.
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

ALPHA, MAX_ROWS, KNOWN = 0.1, 2000, 100
MIN_CLASS = 20
"""Test rows that a class needs to be counted by itself."""


def measured(inside, truth):
    """Return how often sets hold the truth, how large they are, and the worst class."""
    hit = inside[np.arange(len(truth)), truth]
    classes = [label for label in np.unique(truth) if (truth == label).sum() >= MIN_CLASS]
    per_class = [float(hit[truth == label].mean()) for label in classes]
    return {
        "coverage": float(hit.mean()),
        "mean size": float(inside.sum(axis=1).mean()),
        "worst class": min(per_class) if per_class else None,
    }


def trial(data, seed, encoder):
    """Return the figures of the three calibrations, and what abstaining at a risk of .1 brings."""
    generator = np.random.default_rng([seed, 7])
    order = generator.permutation(len(data.features))
    n_test = len(order) // 4
    test, train = order[:n_test], order[n_test:]
    held, rest = train[: len(train) // 5], train[len(train) // 5 :]
    rows, candidates, truth = data.features, data.candidates, data.truth
    names = np.arange(candidates.shape[1])

    def sets(model, **how):
        found = model.predict_set(rows[test], ALPHA, **how)
        inside = np.zeros((len(test), len(names)), dtype=bool)
        inside[:, model.classes_] = found
        return measured(inside, truth[test])

    model = MaxMatchingPartialLabelClassifier(encoder=encoder, random_state=seed)
    model.fit(rows[train], candidates[train])
    results = {"search of fit": sets(model), "search of fit, by class": sets(model, by_class=True)}
    answered = ~model.abstain(rows[test], 0.1)
    right = model.predict(rows[test]) == truth[test]
    results["abstain at risk .1"] = {
        "answered": float(answered.mean()),
        "wrong": float(1 - right[answered].mean()) if answered.any() else None,
        "wrong without abstaining": float(1 - right.mean()),
    }
    smaller = model.decided().fit(rows[rest], candidates[rest])
    smaller.calibrate_sets(rows[held], candidates[held])
    results["held out, candidates"] = sets(smaller)
    some = [int(label) if number < KNOWN else None for number, label in enumerate(truth[held])]
    smaller.calibrate_sets(rows[held], candidates[held], truth=some)
    results[f"held out, truth of {min(KNOWN, len(held))}"] = sets(smaller)
    return results


def main() -> None:
    """Measure all sets and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--encoder", default="kernel", help='"auto" is the plain fit, and slower')
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="where the files of the sets are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sets, missing = {}, []
    for unseen in read_unseen_sets():
        if unseen.setting != "pll":
            continue
        try:
            first = unseen.load(0, options.data)
        except MissingDataError:
            missing.append(unseen.name)
            continue
        if len(first.features) > MAX_ROWS:
            continue
        trials = [
            trial(unseen.load(seed, options.data), seed, options.encoder)
            for seed in range(options.seeds)
        ]
        sets[unseen.name] = {
            name: {
                figure: round(float(np.mean([t[name][figure] for t in trials])), 4)
                for figure in trials[0][name]
                if all(t[name][figure] is not None for t in trials)
            }
            for name in trials[0]
        }
        print(unseen.name, sets[unseen.name], flush=True)
    write_result(
        "prediction_sets",
        {
            "alpha": ALPHA,
            "encoder": options.encoder,
            "seeds": [*range(options.seeds)],
            "missing": missing,
            "sets": sets,
        },
    )


if __name__ == "__main__":
    main()
