"""Prediction sets calibrated without a true label: do they hold the truth as often as they say.

    python benchmarks/prediction_sets.py

All sets of candidate labels in the list of `groupnoise reproduce unseen` with at most 2000 rows,
a quarter of each tested on. Three calibrations: the rows that the search of `fit` held out; a
fifth of the training rows, held out from a second fit, by their candidates; the same with the
truth of 100 of them. Besides, sets that are guaranteed, and every class held by itself. Figures of
a class are over the test rows of all seeds. They go to `benchmarks/results/prediction_sets.json`,
after every set.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from _record import write_result

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.core.selective import foretold_candidates
from groupnoise.exceptions import MissingDataError
from groupnoise.reproduce.unseen_sets import read_unseen_sets

ALPHA, MAX_ROWS, KNOWN = 0.1, 2000, 100
MIN_CLASS = 60
"""Test rows that a class needs, over all seeds, to be counted by itself."""
NEAR = 0.02
"""How far from what is asked a coverage may be."""


def measured(trials, name):
    """Return how often sets hold the truth, how large they are, and what classes have."""
    hits = np.concatenate([hit for hit, _, _ in (each[name] for each in trials)])
    truth = np.concatenate([own for _, own, _ in (each[name] for each in trials)])
    sizes = np.concatenate([size for _, _, size in (each[name] for each in trials)])
    classes = [label for label in np.unique(truth) if (truth == label).sum() >= MIN_CLASS]
    per_class = [float(hits[truth == label].mean()) for label in classes]
    found = {"coverage": round(float(hits.mean()), 4), "mean size": round(float(sizes.mean()), 4)}
    found["by seed"] = [round(float(each[name][0].mean()), 4) for each in trials]
    if per_class:
        found |= {
            "classes": len(per_class),
            "classes near or above": sum(each >= 1 - ALPHA - NEAR for each in per_class),
            "worst class": round(min(per_class), 4),
        }
    return found


def trial(data, seed, encoder):
    """Return which test rows each kind of set holds, and what abstaining at a risk of .1 brings."""
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
        return inside[np.arange(len(test)), truth[test]], truth[test], inside.sum(axis=1)

    model = MaxMatchingPartialLabelClassifier(encoder=encoder, random_state=seed)
    model.fit(rows[train], candidates[train])
    results = {
        "search of fit": sets(model),
        "search of fit, by class": sets(model, by_class=True),
        "search of fit, guaranteed": sets(model, guaranteed=True),
    }
    results["foretold"] = foretold_candidates(
        model.set_calibration_.probabilities, model.set_calibration_.belief > 0
    )
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
    results["held out, truth of some"] = sets(smaller)
    return results


def main() -> None:
    """Measure all sets and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--encoder", default="kernel", help='"auto" is the plain fit, and slower')
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-rows", type=int, default=MAX_ROWS, help="larger sets are left out")
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
        if len(first.features) > options.max_rows:
            continue
        trials = [
            trial(unseen.load(seed, options.data), seed, options.encoder)
            for seed in range(options.seeds)
        ]
        sets[unseen.name] = {
            name: measured(trials, name) for name, kept in trials[0].items() if type(kept) is tuple
        }
        sets[unseen.name]["abstain at risk .1"] = {
            figure: round(float(np.mean(values)), 4)
            for figure in trials[0]["abstain at risk .1"]
            if None not in (values := [each["abstain at risk .1"][figure] for each in trials])
        }
        sets[unseen.name]["foretold"] = [round(each["foretold"], 2) for each in trials]
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
