"""Classifiers trained on votes, their out-of-fold predictions, and calibration by the votes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise import __version__
from groupnoise.core.arrays import FloatArray
from groupnoise.io.files import atomic_path, check_writable_folder
from groupnoise.votes.features import has_unit_rows

Fit = Callable[[FloatArray, Any, FloatArray], Any]
"""Trains on rows, candidates (0/1) and their weights, and returns what has `predict_proba`."""
SCALINGS = ("standard", "l2")
"""Feature scalings that are tried; held-out votes decide for one, or for the mean of both."""
KERNEL = {"encoder": "kernel", "normalize": "objects"}
"""Closed-form kernel model: a hundredth of the time of a network, at least as accurate on votes."""
MAX_KERNEL_ROWS = 4_000
"""Beyond this a kernel keeps only some of the rows."""
NETWORK = {"weight_decay": 0.3}
"""For candidate sets. A kernel predicts held-out candidates better but true labels far worse,
because it learns which labels become candidates together."""


@dataclass(frozen=True)
class MaxMatching:
    """Trains a Max-Matching classifier on weighted candidates.

    `seed`: decides initial weights and batches.
    `parameters`: parameters of the classifier that differ from the defaults.
    """

    seed: int
    parameters: Mapping[str, Any]

    def __call__(self, rows: FloatArray, named: Any, weights: FloatArray) -> Any:
        """Return a classifier fitted to rows, their candidates and the weights of these."""
        from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier as Classifier

        model = Classifier.fixed(random_state=self.seed, **self.parameters)
        return model.fit(rows, named, candidate_weights=weights)


def default_fits(
    fit: Fit | Sequence[Fit] | None,
    features: FloatArray | None,
    seed: int,
    *,
    is_candidates: bool,
    **parameters: Any,
) -> Sequence[Fit]:
    """Return the training functions: those given, or else Max-Matching.

    Votes on up to `MAX_KERNEL_ROWS` rows are fitted by kernels, candidate sets and more rows by
    networks; both scalings are tried, except for numeric features of many rows.
    """
    if fit is not None:
        return [fit] if callable(fit) else fit
    n_rows = 0 if features is None else len(features)
    if not is_candidates and n_rows <= MAX_KERNEL_ROWS:
        return [MaxMatching(seed, {**KERNEL, "scaling": scaling}) for scaling in SCALINGS]
    needs_both = is_candidates or features is None or has_unit_rows(features)
    return [
        MaxMatching(seed, {**NETWORK, **parameters, "scaling": scaling})
        for scaling in (SCALINGS if needs_both else SCALINGS[:1])
    ]


class PredictionCache:
    """Predictions of finished trainings in a folder, keyed by a hash of their inputs.

    `folder`: created if missing; one small file per training.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        check_writable_folder(self.folder)
        self._files: list[Path] = []

    def __call__(self, train: Callable[[], FloatArray], *inputs: Any) -> FloatArray:
        """Return the cached predictions, or train and cache them.

        `inputs`: all that determines them: arrays, and the training function.
        """
        digest = hashlib.sha256(f"{__version__}\0".encode())
        for part in inputs:
            digest.update(
                part.tobytes() if isinstance(part, np.ndarray) else _fit_name(part).encode()
            )
        path = self.folder / f"{digest.hexdigest()[:32]}.npy"
        self._files.append(path)
        if path.is_file():
            return np.asarray(np.load(path, allow_pickle=False))
        answers = train()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.save(stream, answers, allow_pickle=False)
        return answers

    def clear(self) -> None:
        """Delete the cached files, and the folder if nothing else is in it."""
        for path in self._files:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _fit_name(fit: Fit) -> str:
    """Return a name of a training function that is the same in another process."""
    return getattr(fit, "__qualname__", None) or repr(fit)
