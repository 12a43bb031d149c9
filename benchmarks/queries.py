"""Which rows to ask about: accuracy against the number of answers, by strategy.

    python benchmarks/queries.py

A kernel is fitted to candidate labels, asks about rows in rounds, is given their true labels and
fitted again; a linear model of bags does the same with instances. Figures go to
`benchmarks/results/queries.json`, after every set.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from _record import recorded, write_result

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier
from groupnoise.core.groups import Groups
from groupnoise.exceptions import MissingDataError
from groupnoise.reproduce.unseen_sets import read_unseen_sets
from groupnoise.training.calibration import STRATEGIES

SETS = {
    "lost": "l2",
    "msrcv2": "power",
    "birdsong": "standard",
    "digits uniform": "standard",
    "digits 200 uniform": "standard",
}
"""Sets of the list of `groupnoise reproduce unseen`, and the scaling of the kernel."""
BAGS = ("letter words", "letter frost", "hja birdsong")
"""Sets of the same list whose bags have several labels and whose instances have known ones."""
MAX_ROWS = 1500
FEW = {"digits 200 uniform": 4}
"""Answers per round of sets that have too few rows for more."""
UNITS = {"rows": ("training rows", "new rows"), "bags": ("training instances", "new instances")}


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


def bag_trial(data, strategy, seed, rounds, batch):
    """Return accuracy on instances of training bags and of new ones after each round."""
    generator = np.random.default_rng([seed, 11])
    order = generator.permutation(len(data.bags))
    parts = [np.sort(order[: len(order) // 4]), np.sort(order[len(order) // 4 :])]
    (new, _, own), (bags, labels, truth) = (known_bags(data, part) for part in parts)
    known = np.full(len(truth), None, dtype=object)
    curve = []
    for number in range(rounds + 1):
        model = MaxMatchingMILClassifier.fixed(random_state=seed)
        model.fit(bags, labels, truth=known if number else None)
        inside = np.where(labels[bags.group_of_object], model.predict_proba(bags.objects), 0.0)
        right = np.equal(inside.argmax(axis=1), truth) | (known != None)  # noqa: E711
        curve.append([float(right.mean()), float((model.predict(new.objects) == own).mean())])
        if number == rounds:
            break
        if strategy == "random":
            is_open = (labels.sum(axis=1) > 1)[bags.group_of_object] & (known == None)  # noqa: E711
            asked = generator.permutation(np.flatnonzero(is_open))[:batch]
        else:
            asked = model.query(
                bags, labels, batch, strategy=strategy, truth=known if number else None
            )
        known[asked] = truth[asked].tolist()
    return curve


def known_bags(data, part):
    """Return some bags with the instances whose label is known, their labels, and that of each."""
    bags, labels, truth = [], [], []
    for bag in part:
        own = data.instance_labels[data.bags.offsets[bag] : data.bags.offsets[bag + 1]]
        if (own >= 0).any():
            bags.append(data.bags[bag][own >= 0])
            labels.append(data.labels[bag])
            truth.append(own[own >= 0])
    return Groups.from_lists(bags), np.array(labels), np.concatenate(truth)


def curves_of(loaded, kind, name, strategy, options):
    """Return the mean curves over seeds, and the accuracy after all answers seed by seed."""
    curves = []
    for seed in range(options.seeds):
        if kind == "rows":
            found = trial(loaded[seed], SETS[name], strategy, seed, options.rounds, options.batch)
        else:
            found = bag_trial(loaded[seed], strategy, seed, options.rounds, options.batch)
        curves.append(found)
    stacked = np.array(curves)
    figures = {}
    for column, unit in enumerate(UNITS[kind]):
        mean = stacked[:, :, column].mean(axis=0)
        figures[unit] = [round(float(v), 4) for v in mean]
        figures[f"{unit}, mean over answers"] = [
            round(float(v), 4) for v in stacked[:, 1:, column].mean(axis=1)
        ]
    return figures


def main() -> None:
    """Measure all strategies on all sets and keep the curves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=20, help="answers per round")
    parser.add_argument("--sets", nargs="*", help="some of the sets; the others are kept")
    parser.add_argument("--strategies", nargs="*", default=STRATEGIES, help="the others are kept")
    parser.add_argument("--data", type=Path, help="where the files of the sets are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    unseen = {each.name: each for each in read_unseen_sets()}
    sets = recorded("queries", "sets", dict) if options.sets else {}
    missing, batch = [], options.batch
    for name in options.sets or [*SETS, *BAGS]:
        kind = "rows" if name in SETS else "bags"
        try:
            loaded = [unseen[name].load(seed, options.data) for seed in range(options.seeds)]
        except MissingDataError:
            missing.append(name)
            continue
        options.batch = FEW.get(name, batch)
        before = sets.get(name, {}) if len(options.strategies) < len(STRATEGIES) else {}
        sets[name] = before | {"answers": [options.batch * n for n in range(options.rounds + 1)]}
        sets[name]["seeds"] = options.seeds
        for strategy in options.strategies:
            sets[name][strategy] = curves_of(loaded, kind, name, strategy, options)
            print(name, strategy, sets[name][strategy], flush=True)
        write_result("queries", {"missing": missing, "sets": sets})


if __name__ == "__main__":
    main()
