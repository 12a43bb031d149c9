"""Real processes that tests may kill, forked from a server that loads libraries once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys

import numpy as np

PROCESSES = multiprocessing.get_context("forkserver")
# Rooms load their modules lazily: what is not named here every process would load again.
PROCESSES.set_forkserver_preload(
    ["torch.optim", "safetensors.numpy", "sklearn.datasets", "training_processes"]
    + ["groupnoise.cli.fit", "groupnoise.reproduce.methods"]
    + ["groupnoise.recall.http.server", "groupnoise.recall.index", "serving_support"]
    + [
        f"groupnoise.{room}.{module}"
        for room in ("bags", "candidates", "clicks")
        for module in ("estimator", "setting")
    ]
)


def start(target, *arguments):
    """Run a function of this module in a process of its own."""
    process = PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def exit_code(process):
    """Wait for a process, not for ever, and return how it ended."""
    process.join(timeout=120)
    return process.exitcode


def recommender():
    """Sparse tables, sampled negatives and a schedule, on planted click histories."""
    from groupnoise import MaxMatchingRecommender

    generator = np.random.default_rng(0)
    histories = [(generator.integers(8) * 5 + generator.integers(5, size=6)) for _ in range(60)]
    model = MaxMatchingRecommender(
        normalization="click", dim=8, n_negatives=16, max_epochs=8, batch_size=32, random_state=0
    )
    return model, ([row.tolist() for row in histories],), None


def partial_labels():
    """Two members with dropout; the best epoch is kept."""
    from groupnoise import MaxMatchingPartialLabelClassifier

    generator = np.random.default_rng(1)
    truth = generator.integers(3, size=90)
    rows = generator.normal(size=(90, 4)) + 3 * np.eye(3, 4)[truth]
    candidates = [{int(t), int(generator.integers(3))} for t in truth]
    model = MaxMatchingPartialLabelClassifier.fixed(
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


def hold_folder(folder, is_held):
    """Train into a folder until this process is ended, as far as others can tell."""
    from groupnoise.training import Checkpoints

    with Checkpoints(folder).held():
        is_held.set()
        signal.pause()


def command_line(words, said, largest_file=None):
    """Run the command line, with what it says on the error stream going to a file."""
    if largest_file is not None:
        sys.dont_write_bytecode = True  # a module compiled under the quota would be cut off
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    _run_command(words)


def command_line_within(extra_bytes, words, small_words, said):
    """Run the command line with little more memory than the same command takes on small data."""
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    with contextlib.suppress(SystemExit):
        _run_command(small_words)
    limit = data_segment() + extra_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    _run_command(words)


def _run_command(words):
    from groupnoise.cli import main

    sys.argv = ["groupnoise", *map(str, words)]
    main()


def fit_bags_within(limit_bytes, features, size, outcome, mapped=True):
    """Fit on bags in a file with no more memory than a limit, and write down what happened."""
    from groupnoise import Groups, MaxMatchingMILClassifier

    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    try:
        rows = np.load(features, mmap_mode="r" if mapped else None)
        bags = Groups(rows, np.arange(0, len(rows) + 1, size))
        model = MaxMatchingMILClassifier(
            scaling="none", batch_size=512, learning_rate=0.05, max_epochs=1, random_state=0
        )
        labels = np.arange(len(bags)) % 4
        model.fit(bags, labels)
        right = model.predict(rows[: 400 * size : size]) == labels[:400]
        outcome.write_text(f"accuracy {right.mean():.3f}")
    except MemoryError:
        outcome.write_text("out of memory")


def fit_windows_within(extra_bytes, folder, outcome, shuffle_pool):
    """Fit on windows in a folder with little more memory than a small training needs."""
    from groupnoise import MaxMatchingRecommender
    from groupnoise.io import open_groups

    windows = open_groups(folder).groups
    model = MaxMatchingRecommender(
        normalization="click",
        dim=4,
        n_negatives=32,
        batch_size=8192,
        max_epochs=1,
        init="random",
        weighting=None,
        shuffle_pool=shuffle_pool,
        random_state=0,
    )
    model.fit(windows[:20_000])
    limit = data_segment() + extra_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        model.fit(windows)
        outcome.write_text(f"loss {model.history_.records[0]['loss']:.3f}")
    except MemoryError:
        outcome.write_text("out of memory")


def data_segment():
    """Return the bytes of this process that RLIMIT_DATA counts: what it wrote, not files mapped."""
    with open("/proc/self/status") as status:
        kilobytes = next(line.split()[1] for line in status if line.startswith("VmData"))
    return 1024 * int(kilobytes)
