"""One label per row from simulated annotators: ours beside majority, Dawid-Skene and cleanlab.

    python benchmarks/annotators.py --seeds 3

Digits are labelled by annotators whose skills lie in a range and who confuse some classes more than
others. Each case of the grid compares label accuracy, and how many of the tenth of the rows that a
method would look at first carry a wrong majority label, as means over the seeds. cleanlab gets
out-of-fold probabilities of the same classifiers, averaged, trained on majority labels; with one
vote per row it keeps the votes. Then votes alone, of two to four annotators with and without one
who says one thing in 98 of 100 rows: how many labels are expected to be wrong, and how many are;
and grades from 1 to 5 that raters miss by a little.
Goes to `benchmarks/results/annotators.json`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from _record import recorded, replace_row, write_result
from cleanlab.multiannotator import get_label_quality_multiannotator
from cleanlab.rank import get_label_quality_scores
from sklearn.datasets import load_digits

from groupnoise.votes import DawidSkene, Votes
from groupnoise.votes.classifiers import default_fits
from groupnoise.votes.cross_fit import CrossFit
from groupnoise.votes.inference import infer_labels

N_ROWS = 300
SKILLS = {"low": (0.55, 0.70), "mixed": (0.55, 0.95), "high": (0.80, 0.95)}
WEAK_NOISE = 12.0
"""Deviation of the noise that makes features weak; a pixel lies between 0 and 16."""
CASES = [
    (annotators, skills, n_votes, "digits")
    for n_votes, annotators, skills in product((3, 1, 5), (5, 10, 3), SKILLS)
    if n_votes <= annotators
]
FEW_SEEDS = range(100, 105)
WEAK_CASES = [(5, "mixed", 3, "weak"), (5, "low", 1, "weak"), (5, "high", 5, "weak")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--votes", type=int, help="votes per row; other cases are kept")
    options = parser.parse_args()
    seeds = list(range(options.seeds))
    if options.votes is None:
        few, grades, done = few_annotators(), graded(), []
        print(few, grades, flush=True)
    else:
        few, grades, done = (recorded("annotators", part) for part in ("few", "grades", "cases"))
    for case in (*WEAK_CASES, *CASES):
        if options.votes not in (None, case[2]):
            continue
        found = mean_of([measure(case, seed) for seed in seeds])
        done = replace_row(done, found, ("annotators", "skills", "votes", "features"))
        print(done[-1], flush=True)
        write_result(
            "annotators",
            {
                "rows": N_ROWS,
                "seeds": seeds,
                "skills": SKILLS,
                "cases": done,
                "few": few,
                "grades": grades,
            },
            packages=("cleanlab",),
        )


def few_annotators() -> list[dict[str, Any]]:
    """Return shares of labels expected to be wrong, and wrong, where votes stand alone."""
    done = []
    for n_lazy, n_people in product((0, 1), (2, 3, 4)):
        figures = []
        for n_classes, share, seed in product((2, 3, 5), (1.0, 0.7), FEW_SEEDS):
            truth, votes = votes_alone(n_people, n_lazy, n_classes, share, seed)
            is_voted = votes.counts > 0
            row = []
            for belief in (
                DawidSkene().fit(votes).probabilities_,
                infer_labels(votes, None).probabilities,
            ):
                belief = belief[is_voted]
                row += [1.0 - belief.max(axis=1).mean(),
                        (belief.argmax(axis=1) != truth[is_voted]).mean()]  # fmt: skip
            figures.append(row)
        means = np.round(np.mean(figures, axis=0), 4).tolist()
        off = np.abs(np.array(figures) @ [[1, 0], [-1, 0], [0, 1], [0, -1]]).mean(axis=0)
        off = np.round(off, 4).tolist()
        done.append({
            "annotators": n_people, "lazy": n_lazy, "runs": len(figures),
            "dawid_skene": {"expected": means[0], "wrong": means[1], "off by": off[0]},
            "ours": {"expected": means[2], "wrong": means[3], "off by": off[1]},
        })  # fmt: skip
    return done


def votes_alone(
    n_people: int, n_lazy: int, n_classes: int, share: float, seed: int
) -> tuple[Any, Votes]:
    """Return true labels of 240 rows and votes of skills from .6 to .9 on a share of the rows."""
    generator = np.random.default_rng([seed, n_people, n_lazy, n_classes, int(10 * share)])
    n_rows = 240
    truth = generator.integers(n_classes, size=n_rows)
    entries = []
    for who in range(n_people):
        skill = generator.uniform(0.6, 0.9)
        other = (truth + generator.integers(1, n_classes, size=n_rows)) % n_classes
        said = np.where(generator.random(n_rows) < skill, truth, other)
        asked = np.flatnonzero(generator.random(n_rows) < share)
        entries += [(int(row), f"a{who}", str(said[row]), None) for row in asked]
    for who in range(n_lazy):
        always = generator.integers(n_classes)
        said = np.where(generator.random(n_rows) < 0.98, always, truth)
        entries += [(row, f"lazy{who}", str(label), None) for row, label in enumerate(said)]
    names = [str(label) for label in range(n_classes)]
    return truth, Votes.from_entries(entries, n_rows, class_names=names)


def graded() -> list[dict[str, Any]]:
    """Return how often grades are right that raters miss by .5 to 1 at one deviation."""
    done = []
    for n_people in (2, 3, 5):
        figures = []
        for seed in FEW_SEEDS:
            generator = np.random.default_rng([seed, n_people])
            truth = generator.integers(5, size=240)
            entries = []
            for who in range(n_people):
                errors = generator.normal(scale=generator.uniform(0.5, 1.0), size=240)
                said = np.clip(np.rint(truth + errors), 0, 4).astype(int) + 1
                entries += [(row, f"a{who}", str(grade), None) for row, grade in enumerate(said)]
            votes = Votes.from_entries(entries, 240, class_names=[*"12345"])
            belief = infer_labels(votes, None).probabilities
            model = DawidSkene().fit(votes).probabilities_
            found = (votes.totals(), model, belief)
            figures.append([*((each.argmax(axis=1) == truth).mean() for each in found),
                            model.max(axis=1).mean(), belief.max(axis=1).mean()])  # fmt: skip
        means = np.round(np.mean(figures, axis=0), 4).tolist()
        names = ("majority", "dawid_skene", "ours", "dawid_skene probability", "probability")
        done.append({"annotators": n_people, **dict(zip(names, means, strict=True))})
    return done


def mean_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one record of a case: means of its figures over the seeds."""
    record: dict[str, Any] = {}
    for key, first in runs[0].items():
        if isinstance(first, dict):
            record[key] = {
                name: round(float(np.mean([run[key][name] for run in runs])), 4) for name in first
            }
        elif isinstance(first, float):
            record[key] = round(float(np.mean([run[key] for run in runs])), 4)
        else:
            record[key] = first
    return record


def simulate(case: tuple[int, str, int, str], seed: int) -> tuple[Any, Any, Votes]:
    n_annotators, skills, n_votes, features = case
    generator = np.random.default_rng([seed, n_annotators, n_votes, len(skills), len(features)])
    rows, truth = load_digits(return_X_y=True)
    chosen = generator.permutation(len(rows))[:N_ROWS]
    rows, truth = rows[chosen], truth[chosen]
    if features == "weak":
        rows = rows + generator.normal(scale=WEAK_NOISE, size=rows.shape)
    skill = generator.uniform(*SKILLS[skills], size=n_annotators)
    # Each annotator has classes that he takes for one other class, half of the times he errs.
    favourite = generator.integers(10, size=(n_annotators, 10))
    entries = []
    for row, true in enumerate(truth):
        for who in generator.choice(n_annotators, size=n_votes, replace=False):
            said = true
            if generator.random() > skill[who]:
                others = [label for label in range(10) if label != true]
                said = generator.choice(others)
                if generator.random() < 0.5 and favourite[who, true] != true:
                    said = favourite[who, true]
            entries.append((row, f"a{who}", str(said), None))
    names = [str(label) for label in range(10)]
    return rows, truth, Votes.from_entries(entries, N_ROWS, class_names=names)


def measure(case: tuple[int, str, int, str], seed: int) -> dict[str, Any]:
    started = time.process_time()
    rows, truth, votes = simulate(case, seed)
    majority = votes.totals().argmax(axis=1)
    beliefs = {
        "majority": votes.shares(),
        "dawid_skene": DawidSkene().fit(votes).probabilities_,
        "ours": infer_labels(votes, rows, seed=seed).probabilities,
    }
    labels = {name: belief.argmax(axis=1) for name, belief in beliefs.items()}
    quality = {name: belief[np.arange(N_ROWS), majority] for name, belief in beliefs.items()}
    hard = np.eye(10)[majority]
    fits = default_fits(None, rows, seed, is_candidates=False)
    predicted = np.mean(CrossFit(hard > 0, rows, fits, seed=seed).out_of_fold(hard), axis=0)
    predicted /= predicted.sum(axis=1, keepdims=True)
    labels["cleanlab"], quality["cleanlab"] = by_cleanlab(votes, predicted, majority)
    is_wrong = majority != truth
    first = max(1, N_ROWS // 10)
    return {
        "annotators": case[0],
        "skills": case[1],
        "votes": case[2],
        "features": case[3],
        "wrong majority labels": float(is_wrong.sum()),
        "accuracy": {name: round(float((k == truth).mean()), 4) for name, k in labels.items()},
        "first tenth wrong": {
            name: round(float(is_wrong[np.argsort(scores, kind="stable")[:first]].mean()), 4)
            for name, scores in quality.items()
        },
        "probability": round(float(beliefs["ours"].max(axis=1).mean()), 4),
        "seconds": round(time.process_time() - started, 2),
    }


def by_cleanlab(votes: Votes, predicted: Any, majority: Any) -> tuple[Any, Any]:
    """Return cleanlab's labels, and its quality of the majority labels."""
    if votes.counts.max() == 1:  # its functions for several annotators refuse such votes
        return majority, get_label_quality_scores(majority, predicted)
    table = np.full((N_ROWS, len(votes.annotator_names)), np.nan)
    table[votes.rows, votes.annotators] = votes.weights.argmax(axis=1)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("best_quality", "majority_vote"):
            found[method] = get_label_quality_multiannotator(
                pd.DataFrame(table), predicted, consensus_method=method, verbose=False
            )["label_quality"]
    labels = found["best_quality"]["consensus_label"].to_numpy().astype(int)
    is_same = found["majority_vote"]["consensus_label"].to_numpy().astype(int) == majority
    scores = found["majority_vote"]["consensus_quality_score"].to_numpy()
    # Ties of the majority that cleanlab breaks otherwise are doubtful for sure.
    return labels, np.where(is_same, scores, 0.0)


if __name__ == "__main__":
    main()
