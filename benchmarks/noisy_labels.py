"""Single labels with planted noise: NoisyLabelClassifier, plain training and cleanlab side by side.

    python benchmarks/noisy_labels.py
    python benchmarks/noisy_labels.py --datasets lost --part validation --seeds 0 1 2

All three train the same network with the same settings on the same noisy labels, in the same run;
cleanlab's `CleanLearning` gets out-of-sample probabilities of that network, and the search for
wrong labels is compared on those very probabilities. Every part of a split that is scored keeps
its true labels; only training labels are noisy. Settings were chosen on the validation parts of
seeds 0 and 1, mostly 0; the figures are those of the test parts of other seeds, which chose
nothing. They go to `benchmarks/results/noisy_labels_<data set>.json`.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from _record import in_percent, write_result
from cleanlab.classification import CleanLearning
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from groupnoise import MaxMatchingPartialLabelClassifier, NoisyLabelClassifier, find_label_issues
from groupnoise.candidates import flip_labels
from groupnoise.io import load_dataset
from groupnoise.io.datasets import split_rows
from groupnoise.io.registry import find_dataset, locate_dataset

SEEDS = (10, 11, 12, 13, 14)
NOISE = tuple(itertools.product(("symmetric", "pairwise"), (0.2, 0.4)))
PARTS = {"digits": (0.6, 0.2, 0.2), "letters": (0.2, 0.1, 0.7), "lost": (0.8, 0.1, 0.1)}
NETWORK = {
    "encoder": "mlp",
    "hidden": (300,),
    "dim": 64,
    "dropout": 0.5,
    "normalize": "objects",
    "selection": "marginal",
    "weighting_strength": 0.0,
    "max_epochs": 40,
    "batch_size": 128,
    "learning_rate": 3e-3,
}
"""What all three methods train: a perceptron under cross-entropy."""


class Labelled(NamedTuple):
    """Rows with their true labels, whole numbers from 0."""

    rows: NDArray[Any]
    truth: NDArray[Any]


def load(name: str) -> Labelled:
    if name == "digits":
        digits = load_digits()
        return Labelled(digits.data, digits.target)
    if name == "letters":
        (path, *_) = locate_dataset(find_dataset("letter-walk"))
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            lines = [line.strip().split(",") for line in stream][1:]
        letters = [ord(line[0]) - ord("A") for line in lines]
        return Labelled(np.array([line[1:] for line in lines], dtype=float), np.array(letters))
    lost = load_dataset("lost")
    # Two of the sixteen names have no face; classes are those that occur.
    return Labelled(lost.features, np.unique(lost.truth, return_inverse=True)[1])


def trial(data: Labelled, name: str, noise: tuple[str, float], seed: int, part: str) -> Any:
    """Return the accuracies and AUROCs of one split under one noise."""
    kind, rate = noise
    training, validation, test = split_rows(len(data.truth), PARTS[name], random_state=seed)
    scored = test if part == "test" else validation
    truth = data.truth[training]
    rows, n_classes = data.rows[training], int(data.truth.max()) + 1
    noisy = flip_labels(truth, n_classes, rate=rate, kind=kind, random_state=1000 + seed)
    wrong = noisy != truth

    def network() -> MaxMatchingPartialLabelClassifier:
        return MaxMatchingPartialLabelClassifier.fixed(**NETWORK, random_state=seed)

    def accuracy(model: Any) -> float:
        return float(np.mean(model.predict(data.rows[scored]) == data.truth[scored]))

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    held_out = cross_val_predict(network(), rows, noisy, cv=folds, method="predict_proba")
    baseline = CleanLearning(network(), seed=seed, find_label_issues_kwargs={"n_jobs": 1})
    baseline.fit(
        rows, noisy, label_issues=baseline.find_label_issues(labels=noisy, pred_probs=held_out)
    )
    started = time.perf_counter()
    ours = NoisyLabelClassifier(**NETWORK, random_state=seed).fit(rows, noisy)
    seconds = time.perf_counter() - started
    quality = {
        "cleanlab, self-confidence": get_label_quality_scores(noisy, held_out),
        "cleanlab, normalized margin": get_label_quality_scores(
            noisy, held_out, method="normalized_margin"
        ),
        "find_label_issues, same probabilities": find_label_issues(noisy, held_out).quality,
        "find_label_issues, with features": find_label_issues(noisy, held_out, X=rows).quality,
        "NoisyLabelClassifier.label_issues_": ours.label_issues_.quality,
    }
    return {
        "accuracy": {
            "plain": accuracy(network().fit(rows, noisy)),
            "cleanlab CleanLearning": accuracy(baseline),
            "NoisyLabelClassifier": accuracy(ours),
        },
        "auroc": {method: roc_auc_score(wrong, -score) for method, score in quality.items()},
        "fit_seconds": seconds,
    }


def summary(trials: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Return mean, deviation and single values of each method over the seeds, in percent."""
    return {method: in_percent(each[method] for each in trials) for method in trials[0]}


def run(name: str, seeds: list[int], part: str) -> list[dict[str, Any]]:
    data, figures = load(name), []
    for noise in NOISE:
        trials = [trial(data, name, noise, seed, part) for seed in seeds]
        figures.append(
            {
                "noise": noise[0],
                "rate": noise[1],
                "accuracy": summary([each["accuracy"] for each in trials]),
                "auroc": summary([each["auroc"] for each in trials]),
                "fit_seconds": round(float(np.mean([each["fit_seconds"] for each in trials])), 1),
            }
        )
        for measure in ("accuracy", "auroc"):
            shown = figures[-1][measure].items()
            words = ", ".join(f"{method} {value['mean']}" for method, value in shown)
            print(f"{name} {noise[0]} {noise[1]} {measure}: {words}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--part", choices=("test", "validation"), default="test")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # cleanlab warns where a class keeps few rows after pruning; the figures show what that costs.
    warnings.filterwarnings("ignore", module="cleanlab")
    for name in options.datasets:
        started = time.perf_counter()
        figures = run(name, options.seeds, options.part)
        if options.part == "test":
            write_result(
                f"noisy_labels_{name}",
                {
                    "dataset": name,
                    "split": PARTS[name],
                    "seeds": options.seeds,
                    "network": NETWORK,
                    "noisy_label_classifier": NoisyLabelClassifier(**NETWORK).get_params(),
                    "seconds": round(time.perf_counter() - started, 1),
                    "figures": figures,
                },
                packages=("cleanlab",),
            )


if __name__ == "__main__":
    main()
