"""Trains every kind of estimator; run alone or under torchrun by `test_distributed.py`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)
from groupnoise.core.threads import is_worker
from groupnoise.training.distributed import TorchWorkers, process_group
from groupnoise.training.workers import Workers

N_ITEMS = 103
RECOMMENDERS = {
    "sampled": {"weight_decay": 0.2, "corrected": True},
    "two tables, max": {"shared": False, "item_bias": False, "selection": "max"},
    "in_batch": {"candidates": "in_batch", "corrected": True},
    "spectral": {"init": "spectral"},
    "full": {"candidates": "full"},
    "members": {"n_members": 2, "init": ("spectral", "random")},
}
CLASSIFIERS = {"both": {}, "targets": {"normalize": "targets", "candidates": "full"}}


def make_histories() -> list[list[int]]:
    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.integers(1, 4, size=rng.integers(4, 12))) for _ in range(150)]
    return [((walk + rng.integers(N_ITEMS)) % N_ITEMS).tolist() for walk in walks]


def train_recommenders(workers, folder: Path) -> dict[str, list[float]]:
    losses = {}
    for name, settings in RECOMMENDERS.items():
        model = MaxMatchingRecommender(
            normalization="click",
            dim=8,
            n_negatives=30,
            max_epochs=3,
            batch_size=119,
            random_state=1,
            **settings,
        )
        model.fit(
            make_histories(),
            item_ids=np.arange(N_ITEMS),
            workers=workers,
            validate=lambda fitted: float(fitted.scores([[1, 2, 3]]).max()),
        )
        losses[name] = [*model.history_.column("loss"), *model.history_.column("validation")]
        if workers.rank == 0:
            model.save(folder / name)
    return losses


def train_classifiers(workers) -> dict[str, list[float]]:
    rng = np.random.default_rng(0)
    losses = {}
    network = {"encoder": "mlp", "hidden": (8,), "dropout": 0.0, "max_epochs": 3}
    rows = rng.normal(size=(101, 5))
    labels = [set(rng.choice(4, size=2, replace=False).tolist()) for _ in rows]
    for name, settings in CLASSIFIERS.items():
        model = MaxMatchingPartialLabelClassifier.fixed(
            **network, batch_size=50, n_members=1, random_state=2, **settings
        )
        losses[name] = model.fit(rows, labels, workers=workers).history_.column("loss")
    bags = [rng.normal(size=(rng.integers(1, 6), 4)) for _ in range(61)]
    model = MaxMatchingMILClassifier(**network, batch_size=30, n_members=1, random_state=3)
    model.fit(bags, rng.integers(3, size=len(bags)), workers=workers)
    losses["bags"] = model.history_.column("loss")
    return losses


def main(folder: Path) -> None:
    with process_group() if is_worker() else nullcontext():
        workers = TorchWorkers() if is_worker() else Workers()
        losses = {**train_recommenders(workers, folder), **train_classifiers(workers)}
        if workers.rank == 0:
            (folder / "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
