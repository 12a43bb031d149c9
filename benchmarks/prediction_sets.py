"""Coverage of prediction sets calibrated without true labels.

    python benchmarks/prediction_sets.py

All sets of candidate labels in the list of `groupnoise reproduce unseen` with at most 2000 rows,
a quarter of each tested on. Three calibrations: the rows that the search of `fit` held out; a
fifth of the training rows, held out from a second fit, by their candidates; the same with the
truth of 100 of them. Besides, sets that are guaranteed, and every class held by itself. Figures of
a class are over the test rows of all seeds. Bags and their instances are tested on a quarter of the
bags after a plain fit. All go to `benchmarks/results/prediction_sets.json`, after every set.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from _record import recorded, write_result
from scipy.stats import binom

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier
from groupnoise.core.selective import n_predictable_candidates
from groupnoise.exceptions import MissingDataError
from groupnoise.reproduce.unseen_sets import read_unseen_sets

ALPHA, MAX_ROWS, KNOWN = 0.1, 2000, 100
MIN_CLASS = 60
"""Test rows that a class needs, over all seeds, to be counted by itself."""
NEAR = 0.02
"""Tolerance of the coverage."""
BAGS = (
    "diabetes 1 in 3",
    "transfusion 1 in 3",
    "spambase 1 in 3",
    "digit bags 30 % witnesses",
    "musk1",
    "letter frost",
    "letter words",
)
"""Sets of bags, of positive and negative ones and of several labels."""
CHANCE = 0.05
"""Family-wise error rate over the classes of a set."""


def measured(trials, name):
    """Return coverage, mean size and coverage by class of prediction sets."""
    hits = np.concatenate([hit for hit, _, _ in (each[name] for each in trials)])
    truth = np.concatenate([own for _, own, _ in (each[name] for each in trials)])
    sizes = np.concatenate([size for _, _, size in (each[name] for each in trials)])
    classes = [label for label in np.unique(truth) if (truth == label).sum() >= MIN_CLASS]
    per_class = [float(hits[truth == label].mean()) for label in classes]
    unlikely = [
        binom.cdf(hits[truth == label].sum(), (truth == label).sum(), 1 - ALPHA - NEAR)
        < CHANCE / len(classes)
        for label in classes
    ]
    found = {"coverage": round(float(hits.mean()), 4), "mean size": round(float(sizes.mean()), 4)}
    found["by seed"] = [round(float(each[name][0].mean()), 4) for each in trials]
    if per_class:
        found |= {
            "classes": len(per_class),
            "classes near or above": sum(each >= 1 - ALPHA - NEAR for each in per_class),
            "classes too low beyond chance": int(sum(unlikely)),
            "worst class": round(min(per_class), 4),
        }
    return found


def trial(data, seed, encoder):
    """Return the coverage of each kind of set, and of abstention at a risk of .1."""
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
    results["foretold"] = n_predictable_candidates(
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


def bag_trial(data, seed):
    """Return which labels of new bags, and of their instances, each kind of set holds."""
    order = np.random.default_rng([seed, 7]).permutation(len(data.bags))
    test, train = np.sort(order[: len(order) // 4]), np.sort(order[len(order) // 4 :])
    seen = data.labels[train].any(axis=0)
    labels, names = data.labels[:, seen], np.flatnonzero(seen)
    test = test[(labels[test].any(axis=1)) & ~data.labels[test][:, ~seen].any(axis=1)]
    train = train[labels[train].any(axis=1)]
    is_single = (labels.sum(axis=1) == 1).all()
    # Names where each bag has one label: which is negative is then told by them.
    given = [data.class_names[names[row.argmax()]] for row in labels[train]]
    model = MaxMatchingMILClassifier(random_state=seed)
    model.fit(data.bags.subset(train), np.asarray(given) if is_single else labels[train])
    known = [data.class_names[name] for name in names]
    place = [known.index(str(name)) for name in model.classes_] if is_single else slice(None)
    new = data.bags.subset(test)
    results = {}
    for way in ("", ", by class"):
        inside = model.predict_bag_set(new, ALPHA, by_class=bool(way))
        row, column = np.nonzero(labels[test][:, place])
        results[f"bags{way}"] = inside[row, column], column, inside.sum(axis=1)
        if data.instance_labels is None:
            continue
        own = np.concatenate(
            [data.instance_labels[data.bags.offsets[b] : data.bags.offsets[b + 1]] for b in test]
        )
        where = np.full(len(data.class_names) + 1, -1)
        where[names[place]] = np.arange(len(names))
        own = where[own]
        sets = model.predict_set(new.objects[own >= 0], ALPHA, by_class=bool(way))
        held = sets[np.arange(len(sets)), own[own >= 0]]
        results[f"instances{way}"] = held, own[own >= 0], sets.sum(axis=1)
    return results


def main() -> None:
    """Measure all sets and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--encoder", default="kernel", help='"auto" is the plain fit, and slower')
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", help="some of the sets; the others are kept")
    parser.add_argument("--bag-seeds", type=int, default=2)
    parser.add_argument("--max-rows", type=int, default=MAX_ROWS, help="larger sets are left out")
    parser.add_argument("--data", type=Path, help="where the files of the sets are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    missing = []
    sets, bags = (
        recorded("prediction_sets", part, dict) if options.sets else {} for part in ("sets", "bags")
    )

    def keep():
        write_result(
            "prediction_sets",
            {
                "alpha": ALPHA,
                "encoder": options.encoder,
                "seeds": [*range(options.seeds)],
                "bag seeds": [*range(options.bag_seeds)],
                "missing": missing,
                "sets": sets,
                "bags": bags,
            },
        )

    for unseen in read_unseen_sets():
        if unseen.setting != "pll" and unseen.name not in BAGS:
            continue
        if options.sets and unseen.name not in options.sets:
            continue
        try:
            first = unseen.load(0, options.data)
        except MissingDataError:
            missing.append(unseen.name)
            continue
        if unseen.name in BAGS:
            seeds = range(options.bag_seeds)
            trials = [bag_trial(unseen.load(seed, options.data), seed) for seed in seeds]
            bags[unseen.name] = {name: measured(trials, name) for name in trials[0]}
            print(unseen.name, bags[unseen.name], flush=True)
            keep()
            continue
        if len(first.features) > options.max_rows:
            continue
        trials = [
            trial(unseen.load(seed, options.data), seed, options.encoder)
            for seed in range(options.seeds)
        ]
        sets[unseen.name] = {
            name: measured(trials, name) for name, each in trials[0].items() if type(each) is tuple
        }
        sets[unseen.name]["abstain at risk .1"] = {
            figure: round(float(np.mean(values)), 4)
            for figure in trials[0]["abstain at risk .1"]
            if None not in (values := [each["abstain at risk .1"][figure] for each in trials])
        }
        sets[unseen.name]["foretold"] = [round(each["foretold"], 2) for each in trials]
        print(unseen.name, sets[unseen.name], flush=True)
        keep()


if __name__ == "__main__":
    main()
