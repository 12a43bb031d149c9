"""Ablation of `ours`: one part is removed at a time, on ten small data sets.

    python benchmarks/ablation.py [SEEDS]        # such as 40:50; resumes where it stopped
    python benchmarks/ablation.py --report       # from what is done

Every set is cut 8:2 by a seed, nothing is chosen, and the last weights are kept. Differences to the
whole are tested over the seeds by the corrected t-test, and adjusted by Holm over all of them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _record import recorded, write_result
from sklearn.datasets import load_wine

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import add_candidates
from groupnoise.cli.demo import parse_seeds
from groupnoise.clicks import make_shop, split_clicks
from groupnoise.core.metrics import accuracy
from groupnoise.exceptions import MissingDataError
from groupnoise.io import load_dataset
from groupnoise.io.datasets import split_rows, subset_bags
from groupnoise.reproduce.jobs import append_line, read_lines
from groupnoise.reproduce.report.tables import corrected_t_test, holm
from groupnoise.reproduce.trials import instance_accuracy, window_metrics

LOG = Path("runs/ablation/trials.jsonl")
FRACTIONS = (0.8, 0.2)
TEST_TO_TRAIN = 0.25
N_MEMBERS = 2
WHOLE = "whole"

Settings = dict[str, Any]

CANDIDATES: Settings = {
    "encoder": "mlp",
    "normalize": "both",
    "selection": "tempered",
    "temperature": (1.0, 0.3),
    "weighting_strength": 0.0,
    "scaling": "power",
    "max_epochs": 20,
    "n_members": N_MEMBERS,
}
BAGS: Settings = {
    "encoder": "mlp",
    "normalize": "both",
    "selection": "tempered",
    "temperature": (1.0, 0.5),
    "weighting_strength": 0.0,
    "scaling": "standard",
    "absent_strength": 1.0,
    "schedule": "cosine",
    "max_epochs": 25,
    "n_members": N_MEMBERS,
}
CLICKS: Settings = {
    "normalization": "click",
    "dim": 64,
    "selection": "marginal",
    "weighting_strength": 1.0,
    "max_epochs": 6,
    "n_members": N_MEMBERS,
}
CHANGES: dict[str, dict[str, Settings]] = {
    "objective: all pairs count (Pairwise)": {
        "bags": {"selection": "all", "weighting_strength": 0.0},
        "candidates": {"selection": "all", "weighting_strength": 0.0},
        "clicks": {"selection": "all", "weighting_strength": 0.0},
    },
    "soft selection: hard max": {
        "bags": {"selection": "max"},
        "candidates": {"selection": "max"},
        "clicks": {"selection": "max"},
    },
    "second normalizer: left out": {
        "bags": {"normalize": "targets"},
        "candidates": {"normalize": "objects"},
    },
    "weighting: the other of 0 and 1": {
        "bags": {"weighting_strength": 1.0},
        "candidates": {"weighting_strength": 1.0},
        "clicks": {"weighting_strength": 0.0},
    },
    "encoder: linear": {
        "bags": {"encoder": "identity"},
        "candidates": {"encoder": "linear"},
    },
    "scaling: none": {
        "bags": {"scaling": "none"},
        "candidates": {"scaling": "none"},
    },
    "ensemble: one member": {
        "bags": {"n_members": 1},
        "candidates": {"n_members": 1},
        "clicks": {"n_members": 1},
    },
}
"""Replacements of each part, by setting."""


@dataclass(frozen=True)
class StudySet:
    """A data set, its kind, and the whole method on it."""

    name: str
    kind: str
    load: Callable[[int], Any]
    settings: Settings

    def test_figure(self, data: Any, change: Settings, seed: int) -> float:
        """Fit on eight tenths and return the figure of the rest."""
        judge = {"bags": _bag_figure, "candidates": _candidate_figure, "clicks": _click_figure}
        return judge[self.kind](data, {**self.settings, **change}, seed)


def _bag_figure(data: Any, settings: Settings, seed: int) -> float:
    """Accuracy on instances of a class, or on bags where no instance has a label."""
    train, test = split_rows(len(data.bags), FRACTIONS, random_state=seed)
    seen, held = subset_bags(data, train), subset_bags(data, test)
    model = MaxMatchingMILClassifier.fixed(**settings, random_state=seed)
    model.fit(seen.bags, seen.labels.astype(np.int64))
    if held.instance_labels is None:
        return accuracy(held.labels.argmax(axis=1), model.predict_bags(held.bags))
    return instance_accuracy(model, held)


def _candidate_figure(data: Any, settings: Settings, seed: int) -> float:
    features, candidates, truth = data
    train, test = split_rows(len(features), FRACTIONS, random_state=seed)
    model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=seed)
    model.fit(features[train], candidates[train].astype(np.int64))
    return accuracy(truth[test], model.predict(features[test]))


def _click_figure(data: Any, settings: Settings, seed: int) -> float:
    split = split_clicks(data.histories, protocol="authors", size=5, min_size=1, random_state=seed)
    model = MaxMatchingRecommender(**settings, random_state=seed)
    model.fit(split.train.groups, item_ids=data.item_ids)
    return window_metrics(model, data, split.test, seed=seed)[1]


def _candidates(name: str) -> Callable[[int], Any]:
    def load(seed: int) -> Any:
        data = load_dataset(name, random_state=seed)
        return data.features, data.candidates, data.truth

    return load


def _wine(seed: int) -> Any:
    features, truth = load_wine(return_X_y=True)
    drawn, _ = add_candidates(truth, 3, epsilon=0.7, tau=2, random_state=seed)
    return features.astype(np.float32), drawn, truth


def _bags(name: str) -> Callable[[int], Any]:
    return lambda seed: load_dataset(name, random_state=seed)


POSITIVE = {**BAGS, "background_label": 0, "absent_strength": 3.0}
STUDY_SETS = (
    StudySet("lost", "candidates", _candidates("lost"), {**CANDIDATES, "scaling": "l2"}),
    StudySet("msrcv2", "candidates", _candidates("msrcv2"), {**CANDIDATES, "batch_size": 128}),
    StudySet("digit-candidates", "candidates", _candidates("digit-candidates"), CANDIDATES),
    StudySet("wine, drawn", "candidates", _wine, CANDIDATES),
    StudySet("digit-bags", "bags", lambda seed: load_digit_bags(300, random_state=seed), BAGS),
    StudySet("letter-nonsense", "bags", _bags("letter-nonsense"), BAGS),
    StudySet("letter-walk", "bags", _bags("letter-walk"), BAGS),
    StudySet("musk1", "bags", _bags("musk1"), POSITIVE),
    StudySet("elephant", "bags", _bags("elephant"), POSITIVE),
    StudySet("shop", "clicks", lambda seed: make_shop(n_users=500, random_state=seed), CLICKS),
)


def main() -> None:
    """Run missing trials, then write the table."""
    words = sys.argv[1:]
    LOG.parent.mkdir(parents=True, exist_ok=True)
    if "--report" not in words:
        for seed in parse_seeds(words[0] if words else "40:50"):
            for study in STUDY_SETS:
                run_set(study, seed)
    write_result("ablation", summarise(read_log()))


def run_set(study: StudySet, seed: int) -> None:
    """Fit the whole and every change on a set under a seed, and log each as it ends."""
    changes = {WHOLE: {}} | {
        part: kinds[study.kind] for part, kinds in CHANGES.items() if study.kind in kinds
    }
    done = {(each["set"], each["part"], each["seed"]) for each in read_log()}
    missing = [part for part in changes if (study.name, part, seed) not in done]
    if not missing:
        return
    try:
        data = study.load(seed)
    except MissingDataError as error:
        print(error)
        return
    for part in missing:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure = study.test_figure(data, changes[part], seed)
        line = {
            "set": study.name,
            "part": part,
            "seed": seed,
            "figure": round(figure, 6),
            "seconds": round(time.process_time() - started, 2),
        }
        append_line(LOG, line)


def read_log() -> list[dict[str, Any]]:
    """Return finished trials: those of the result file and of the log."""
    trials = [*map(_read_line, recorded("ablation", "trials")), *read_lines(LOG, dict)]
    newest = {(each["set"], each["part"], each["seed"]): each for each in trials}
    return list(newest.values())


def _read_line(line: str) -> dict[str, Any]:
    """Return a trial as the result file holds it."""
    name, part, seed, figure, seconds = line.split(" | ")
    return {
        "set": name,
        "part": part,
        "seed": int(seed.removeprefix("seed ")),
        "figure": float(figure),
        "seconds": float(seconds.removesuffix(" s")),
    }


def summarise(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the full method on every set, and the contribution of each part."""
    found = {(each["set"], each["part"], each["seed"]): each["figure"] for each in trials}
    rows, p_values = [], {}
    for study in STUDY_SETS:
        parts = [WHOLE, *(part for part, kinds in CHANGES.items() if study.kind in kinds)]
        seeds = sorted({seed for name, _, seed in found if name == study.name})
        seeds = [s for s in seeds if all((study.name, part, s) in found for part in parts)]
        if len(seeds) < 2:
            continue
        whole = np.array([found[study.name, WHOLE, seed] for seed in seeds])
        rows.append(_row(study, WHOLE, seeds, float(whole.mean())))
        for part in parts[1:]:
            without = np.array([found[study.name, part, seed] for seed in seeds])
            test = corrected_t_test(whole - without, TEST_TO_TRAIN)
            p_values[f"{study.name} | {part}"] = test.p_value
            row = _row(study, part, seeds, float(without.mean()))
            rows.append({**row, "brings": float(test.mean), "interval": [test.low, test.high]})
    adjusted = holm(p_values)
    for row in rows:
        if row["part"] != WHOLE:
            row["p"] = float(adjusted[f"{row['set']} | {row['part']}"])
    return {
        "seeds": sorted({each["seed"] for each in trials}),
        "whole": {"candidates": CANDIDATES, "bags": BAGS, "clicks": CLICKS},
        "changes": CHANGES,
        "test": "corrected resampled t-test, adjusted by Holm over all comparisons",
        "rows": rows,
        "trials": [
            f"{t['set']} | {t['part']} | seed {t['seed']} | {t['figure']:.4f} | {t['seconds']} s"
            for t in trials
        ],
    }


def _row(study: StudySet, part: str, seeds: list[int], mean: float) -> dict[str, Any]:
    metric = "NDCG@10" if study.kind == "clicks" else "accuracy"
    return {
        "set": study.name,
        "kind": study.kind,
        "part": part,
        "metric": metric,
        "mean": mean,
        "n_seeds": len(seeds),
    }


if __name__ == "__main__":
    main()
