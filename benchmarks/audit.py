"""How well an audit finds planted noise, and the effect of retraining on the cleaned copy.

Bag labels are made wrong, candidate sets lose their true label, and the shop simulates stray
clicks; the audit is told nothing of it. Every set is audited out of sample by cross-fitting.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _record import write_result
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from groupnoise import (
    Groups,
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
    find_group_issues,
)
from groupnoise.audit import GroupIssues, cleaned_copy
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import add_candidates, load_digit_candidates
from groupnoise.cli.demo import parse_seeds
from groupnoise.clicks import make_shop, rank_targets
from groupnoise.core import ndcg_at_k
from groupnoise.io import BagDataset, PartialLabelDataset
from groupnoise.io.datasets import subset_rows
from groupnoise.io.registry import find_dataset, locate_dataset
from groupnoise.io.tables.table import read_table

PLANTED = 0.1
"""Share of bags with a wrong label, and of rows whose candidates miss the truth."""
N_FOLDS = 5
N_LETTERS = 4000


@dataclass(frozen=True)
class Planted:
    """Data with known noise, the estimator to audit it with, and a test of the estimator."""

    data: Any
    estimator: Any
    noise: Callable[[GroupIssues], dict[str, tuple[NDArray[Any], NDArray[Any]]]]
    metric: str
    test: Callable[[Any], float]


def digit_bags(seed: int) -> Planted:
    generator = np.random.default_rng(1000 + seed)
    bags = load_digit_bags(400, part="train", random_state=seed)
    test = load_digit_bags(200, part="test", random_state=seed)
    label = bags.labels.argmax(axis=1)
    is_wrong = generator.random(len(label)) < PLANTED
    n_classes = bags.labels.shape[1]
    label[is_wrong] = (label + generator.integers(1, n_classes, len(label)))[is_wrong] % n_classes
    data = replace(bags, labels=label[:, None] == np.arange(n_classes))
    is_foreign = bags.instance_labels != label[bags.bags.group_of_object]
    known = test.instance_labels >= 0

    def noise(issues: GroupIssues) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
        return {
            "wrong bag labels": (is_wrong, issues.groups["doubt"]),
            "foreign instances": (is_foreign, issues.objects["noise"]),
        }

    return Planted(
        data,
        MaxMatchingMILClassifier(random_state=seed),
        noise,
        "instance accuracy",
        lambda fitted: fitted.score(test.bags.objects[known], test.instance_labels[known]),
    )


def digit_candidates(seed: int) -> Planted:
    train = load_digit_candidates(part="train", random_state=seed)
    test = load_digit_candidates(part="test", random_state=seed)
    return _candidates(train, test, seed)


def letter_candidates(seed: int) -> Planted:
    generator = np.random.default_rng(2000 + seed)
    (pool,) = locate_dataset(find_dataset("letter-walk"))
    table = read_table(pool, header=True).frame
    truth = np.array([ord(letter) - ord("A") for letter in table[:, 0]])
    features = table[:, 1:].to_numpy().astype(np.float64)
    rows = generator.permutation(len(truth))[: 2 * N_LETTERS]
    drawn, _ = add_candidates(
        truth[rows], 26, epsilon=1.0, tau=4, correlated=True, random_state=seed
    )
    names = [chr(ord("A") + letter) for letter in range(26)]
    letters = PartialLabelDataset("letters", features[rows], drawn, names, truth[rows])
    train, test = np.split(np.arange(2 * N_LETTERS), 2)
    return _candidates(subset_rows(letters, train), subset_rows(letters, test), seed)


def _candidates(train: PartialLabelDataset, test: PartialLabelDataset, seed: int) -> Planted:
    generator = np.random.default_rng(1000 + seed)
    truth = train.truth
    is_missing = generator.random(len(truth)) < PLANTED
    is_missing &= train.candidates.sum(axis=1) > 1
    candidates = train.candidates.copy()
    candidates[np.flatnonzero(is_missing), truth[is_missing]] = False
    row, label = np.nonzero(candidates)

    def noise(issues: GroupIssues) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
        return {
            "missing true labels": (is_missing, issues.groups["doubt"]),
            "wrong candidates": (truth[row] != label, issues.objects["noise"]),
        }

    return Planted(
        replace(train, candidates=candidates),
        MaxMatchingPartialLabelClassifier.fixed(max_epochs=30, random_state=seed),
        noise,
        "accuracy",
        lambda fitted: float(np.mean(fitted.predict(test.features) == test.truth)),
    )


def shop(seed: int) -> Planted:
    log = make_shop(1500, 400, random_state=seed)
    last = log.histories.offsets[1:] - 1
    before = np.ones(log.histories.n_objects, dtype=bool)
    before[last] = False
    offsets = np.concatenate([[0], np.cumsum(log.histories.sizes - 1)])
    earlier = Groups(log.histories.objects[before], offsets)
    data = replace(log, histories=earlier, is_stray=log.is_stray[before], notes={})
    meant = ~log.is_stray[last]  # a stray click is no test of a recommender
    test = Groups(earlier.objects, offsets, log.histories.objects[last]).subset(meant)
    return Planted(
        data,
        MaxMatchingRecommender(random_state=seed),
        lambda issues: {"stray clicks": (data.is_stray, issues.objects["noise"])},
        "NDCG@10, all items",
        lambda fitted: ndcg_at_k(*rank_targets(fitted, test, data.n_items, "full")),
    )


TASKS: dict[str, Callable[[int], Planted]] = {
    "digit bags": digit_bags,
    "digit candidates": digit_candidates,
    "letter candidates": letter_candidates,
    "shop": shop,
}


def audit_once(task: Planted, seed: int) -> dict[str, Any]:
    """Audit planted data, and train on it as it is and on its cleaned copy."""
    issues = find_group_issues(task.estimator, task.data, n_folds=N_FOLDS, random_state=seed)
    found = {
        name: {
            "auroc": float(roc_auc_score(is_noise, score)),
            "precision": _precision_at_rate(is_noise, score),
            "rate": float(np.mean(is_noise)),
        }
        for name, (is_noise, score) in task.noise(issues).items()
    }
    cleaned = cleaned_copy(task.data, issues)
    return {
        "found": found,
        "listed": issues.summary(),
        "retrained": {
            "metric": task.metric,
            "as it is": task.test(_fitted(task.estimator, task.data)),
            "cleaned": task.test(_fitted(task.estimator, cleaned)),
        },
    }


def _precision_at_rate(is_noise: NDArray[Any], score: NDArray[Any]) -> float:
    """Return the share of noise among as many of the worst as there is noise."""
    worst = np.argsort(-score, kind="stable")[: int(is_noise.sum())]
    return float(is_noise[worst].mean())


def _fitted(estimator: Any, data: Any) -> Any:
    if isinstance(data, BagDataset):
        return clone(estimator).fit(data.bags, data.labels.astype(np.int64))
    if isinstance(data, PartialLabelDataset):
        return clone(estimator).fit(data.features, data.candidates.astype(np.int64))
    return clone(estimator).fit(data.histories, item_ids=data.item_ids)


def _mean_rows(trials: list[dict[str, Any]]) -> Iterator[str]:
    for name in trials[0]["found"]:
        for figure in ("auroc", "precision", "rate"):
            mean = statistics.mean(trial["found"][name][figure] for trial in trials)
            yield f"  {name:<22}{figure:<12}{mean:.3f}"
    for side in ("as it is", "cleaned"):
        mean = statistics.mean(trial["retrained"][side] for trial in trials)
        yield f"  trained on data {side:<17} {mean:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=parse_seeds, default=[10, 11, 12])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--keep", action="store_true", help="write the result file")
    options = parser.parse_args()
    figures = {}
    for name in options.tasks:
        trials = [audit_once(TASKS[name](seed), seed) for seed in options.seeds]
        figures[name] = dict(zip(map(str, options.seeds), trials, strict=True))
        print(name, *_mean_rows(trials), sep="\n", flush=True)
    if options.keep:
        config = {"planted": PLANTED, "n_folds": N_FOLDS, "n_letters": N_LETTERS}
        few = [] if options.tasks == list(TASKS) else options.tasks
        name = "_".join(["audit", *few]).replace(" ", "_")
        write_result(name, {"config": config, "seeds": options.seeds, "figures": figures})


if __name__ == "__main__":
    main()
