"""Trainings in real processes that tests may kill, forked from a server that loads torch once."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys

import numpy as np

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    # The first optimiser loads torch._dynamo, which takes longer than the trainings below.
    ["torch._dynamo", "safetensors.numpy", "sklearn.datasets", "training_processes"]
    + [f"groupnoise.{name}" for name in ("estimators", "datasets", "experiments", "cli._holdout")]
)


def recommender():
    """Sparse tables, sampled negatives and a schedule, on planted click histories."""
    from groupnoise import MaxMatchingRecommender

    generator = np.random.default_rng(0)
    histories = [(generator.integers(8) * 5 + generator.integers(5, size=6)) for _ in range(60)]
    model = MaxMatchingRecommender(
        dim=8, n_negatives=16, max_epochs=8, batch_size=32, random_state=0
    )
    return model, ([row.tolist() for row in histories],), None


def partial_labels():
    """Two members with dropout; the best epoch is kept."""
    from groupnoise import MaxMatchingPartialLabelClassifier

    generator = np.random.default_rng(1)
    truth = generator.integers(3, size=90)
    rows = generator.normal(size=(90, 4)) + 3 * np.eye(3, 4)[truth]
    candidates = [{int(t), int(generator.integers(3))} for t in truth]
    model = MaxMatchingPartialLabelClassifier(
        hidden=(8,), dim=4, max_epochs=10, batch_size=32, n_members=2, keep="best", random_state=2
    )
    return model, (rows, candidates), lambda fitted: float((fitted.predict(rows) == truth).mean())


def bags():
    """A background target and the absent-class term."""
    from groupnoise import MaxMatchingMILClassifier

    generator = np.random.default_rng(2)
    labels = generator.integers(3, size=80)
    instances = [
        np.concatenate([np.eye(3, 4)[[y]] * 3, np.zeros((generator.integers(1, 4), 4))])
        + generator.normal(size=4)
        for y in labels
    ]
    model = MaxMatchingMILClassifier(
        background=True, absent_strength=0.5, max_epochs=16, batch_size=16, random_state=3
    )
    return model, (instances, labels), None


SETTINGS = {"recommender": recommender, "partial labels": partial_labels, "bags": bags}


def fit_and_save(setting, model_folder, checkpoint_folder=None, resume=False):
    """Train, saving after every step, and write the finished model."""
    import torch

    from groupnoise.training import Checkpoints

    torch.set_num_threads(1)
    estimator, arguments, validate = SETTINGS[setting]()
    checkpoint = None
    if checkpoint_folder is not None:
        checkpoint = Checkpoints(checkpoint_folder, every_steps=1, resume=resume)
    estimator.fit(*arguments, validate=validate, checkpoint=checkpoint)
    estimator.save(model_folder)


def command_line(words, said, largest_file=None):
    """Run the command line, with what it says on the error stream going to a file."""
    from groupnoise.cli import main

    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv = ["groupnoise", *map(str, words)]
    main()
