"""Compare the partial-label baselines with published results.

    python benchmarks/partial_label_agreement.py
    python benchmarks/partial_label_agreement.py --methods pl-svm clpl --datasets lost

Random 8:1:1 splits. Scaling and parameters are chosen on the validation part by accuracy on its
true labels, taken to be the paper's criterion; the test part is scored once per split. The figures
of a method that ran on all data sets go to `benchmarks/results/partial_label_agreement_*.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from _record import in_percent, write_result
from numpy.typing import NDArray
from sklearn.preprocessing import Normalizer, StandardScaler

from groupnoise.candidates.baselines import (
    CCClassifier,
    CLPLClassifier,
    LWSClassifier,
    PALOCClassifier,
    PLKNNClassifier,
    PLSVMClassifier,
    PRODENClassifier,
    SUREClassifier,
)
from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.candidates.baselines.networks import NeuralPartialLabelClassifier
from groupnoise.io import PartialLabelDataset, load_dataset
from groupnoise.io.datasets import split_rows

DATASETS = ("lost", "msrcv2", "birdsong")
# The grids below were drawn up while looking at test figures of seeds 0 to 4 (see
# docs/baselines_classifiers.md), so those splits are spent: the reported ones are others.
SEEDS = (5, 6, 7, 8, 9)

SCALERS: dict[str, Callable[[], Any]] = {"standard": StandardScaler, "unit norm": Normalizer}
# Rows of unit norm lose some twenty points on BirdSong whatever the method: half the work spared.
SCALINGS = {"lost": SCALERS, "msrcv2": SCALERS, "birdsong": {"standard": StandardScaler}}

MLP_GRID = [{"encoder": "mlp", "batch_norm": batch_norm} for batch_norm in (False, True)]
LINEAR_GRID = [{"encoder": "linear", "learning_rate": rate} for rate in (1e-2, 1e-1)]

METHODS: dict[str, tuple[Callable[..., PartialLabelClassifier], list[dict[str, Any]]]] = {
    "pl-knn": (PLKNNClassifier, [{"n_neighbors": k} for k in (5, 10, 20)]),
    "pl-svm": (
        PLSVMClassifier,
        [
            {"regularization": factor, "max_epochs": 20, "random_state": 0}
            for factor in (1e-4, 1e-3, 1e-2, 1e-1, 3e-1)
        ],
    ),
    "clpl": (
        CLPLClassifier,
        [
            {"regularization": factor, "surrogate": surrogate}
            for surrogate in ("logistic", "squared_hinge")
            for factor in (1e-5, 1e-4, 1e-3)
        ],
    ),
    "paloc": (PALOCClassifier, [{"penalty": cost} for cost in (1.0, 10.0)]),
    "sure": (SUREClassifier, [{"sharpness": sharpness} for sharpness in (0.1, 0.3, 1.0)]),
    "cc-linear": (CCClassifier, LINEAR_GRID),
    "cc-mlp": (CCClassifier, MLP_GRID),
    "proden-linear": (PRODENClassifier, LINEAR_GRID),
    "proden-mlp": (PRODENClassifier, MLP_GRID),
    "lws-linear": (LWSClassifier, [{"leverage": 1.0, **params} for params in LINEAR_GRID]),
    "lws-mlp": (LWSClassifier, [{"leverage": 1.0, "learning_rate": 1e-3}]),
}

PAPER = "8:1:1, Max-Matching paper"
FIVE_FOLD = "5-fold, linear models, PRODEN paper"
TEN_FOLD = "10-fold, NCPD paper"
NETWORKS = "80/20, deep networks, conformal cleaning"
CLASSICAL = "80/20, Python ports"
# Accuracy in percent on Lost, MSRCv2 and BirdSong.
PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "pl-knn": {
        PAPER: (42.8, 44.6, 61.3),
        FIVE_FOLD: (35.0, 41.6, 64.2),
        TEN_FOLD: (47.1, 45.7, 68.6),
        CLASSICAL: (43.2, 43.5, 68.2),
    },
    "pl-svm": {PAPER: (80.1, 47.5, 62.5), FIVE_FOLD: (72.9, 39.0, 60.5)},
    "clpl": {
        PAPER: (79.3, 48.0, 62.8),
        FIVE_FOLD: (76.2, 43.6, 67.6),
        CLASSICAL: (72.6, 38.4, 61.8),
    },
    "paloc": {PAPER: (54.6, 46.3, 59.8), CLASSICAL: (54.7, 41.9, 63.9)},
    "sure": {
        FIVE_FOLD: (71.6, 31.6, 58.0),
        TEN_FOLD: (73.9, 50.8, 73.0),
        CLASSICAL: (77.5, 48.9, 76.3),
    },
    "cc-mlp": {NETWORKS: (78.2, 51.0, 74.5)},
    "proden-linear": {FIVE_FOLD: (76.6, 45.3, 72.0)},
    "proden-mlp": {NETWORKS: (78.9, 54.3, 75.6)},
}


def accuracy_on(rows: NDArray[Any], truth: NDArray[Any], model: PartialLabelClassifier) -> float:
    return model.score(rows, truth)


def fits(
    method: str,
    data: PartialLabelDataset,
    parts: tuple[NDArray[Any], ...],
    scalings: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Fit a method in every configuration on one split; yield its scores and its time."""
    factory, grid = METHODS[method]
    train, validation, test = parts
    for scaling, scaler in scalings.items():
        rows = scaler().fit(data.features[train]).transform(data.features)
        for params in grid:
            if issubclass(factory, NeuralPartialLabelClassifier):
                model = factory(random_state=0, **params)
                extra = {"validate": partial(accuracy_on, rows[validation], data.truth[validation])}
            else:
                model, extra = factory(**params), {}
            started = time.perf_counter()
            model.fit(rows[train], data.candidates[train], **extra)
            yield {
                "validation": model.score(rows[validation], data.truth[validation]),
                "test": model.score(rows[test], data.truth[test]),
                "seconds": time.perf_counter() - started,
                "chosen": {"scaling": scaling, **params},
            }


def mean_of(records: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return the mean metrics of one setting over the splits."""
    return {
        **records[0]["chosen"],
        "validation": round(100 * float(np.mean([r["validation"] for r in records])), 1),
        "test": round(100 * float(np.mean([r["test"] for r in records])), 1),
    }


def run(method: str, name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return the figures of one method on one data set."""
    data = load_dataset(name)
    best, everything = [], []
    for seed in seeds:
        parts = split_rows(len(data.features), random_state=seed)
        found = list(fits(method, data, parts, SCALINGS[name]))
        best.append(max(found, key=lambda record: record["validation"]))
        everything.append(found)
    accuracy = in_percent(record["test"] for record in best)
    published = {
        source: figures[DATASETS.index(name)]
        for source, figures in PUBLISHED.get(method, {}).items()
    }
    return {
        "dataset": name,
        "test_accuracy": accuracy.pop("mean"),
        **accuracy,
        "chosen": [record["chosen"] for record in best],
        "every_setting": [mean_of(records) for records in zip(*everything, strict=True)],
        "mean_fit_seconds": round(
            float(np.mean([record["seconds"] for found in everything for record in found])), 2
        ),
        "published": published,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for method in options.methods:
        started = time.perf_counter()
        figures = [run(method, name, tuple(options.seeds)) for name in options.datasets]
        for record in figures:
            published = ", ".join(f"{value:.1f}" for value in record["published"].values())
            print(
                f"{method:15} {record['dataset']:9} "
                f"{record['test_accuracy']:5.1f} ± {record['deviation']}   "
                f"published {published or 'none':25} {record['mean_fit_seconds']:6.2f} s a fit",
                flush=True,
            )
        if options.datasets == list(DATASETS):
            write_result(
                f"partial_label_agreement_{method.replace('-', '_')}",
                {
                    "method": method,
                    "method_seconds": round(time.perf_counter() - started, 1),
                    "split": "8:1:1",
                    "seeds": options.seeds,
                    "criterion": "accuracy on the true labels of the validation part",
                    "grid": METHODS[method][1],
                    "figures": figures,
                },
            )


if __name__ == "__main__":
    main()
