"""Classifiers of rows that have votes, what they say of rows they did not see, and how surely."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise import __version__
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.io.files import atomic_path, check_writable_folder
from groupnoise.votes.ballots import Votes
from groupnoise.votes.dawid_skene import MIN_PROBABILITY, log_vote_likelihood, softmax
from groupnoise.votes.features import has_unit_rows

TEMPERATURES = np.geomspace(0.25, 8.0, 16)
SHARES = np.linspace(0.0, 1.0, 11)
MIN_WEIGHT = 1e-3
"""Least weight of a named label in training: a vote is evidence, never a proof."""
Fit = Callable[[FloatArray, Any, FloatArray], Any]
"""Trains on rows, candidates (0/1) and their weights, and returns what has `predict_proba`."""
SCALINGS = ("standard", "l2")
"""Scalings to learn under where one is not enough; held-out votes say which, or both."""
KERNEL = {"encoder": "kernel", "normalize": "objects"}
"""Solved at once: a hundredth of the time of a network, and at least as often right from votes."""
MAX_KERNEL_ROWS = 4_000
"""Beyond this a kernel keeps only some of the rows."""
NETWORK = {"weight_decay": 0.3}
"""For candidate sets: a kernel is ahead there by held-out candidates and far behind in truth,
because it learns which labels become candidates together."""


@dataclass(frozen=True)
class MaxMatching:
    """Trains a Max-Matching classifier on weighted candidates.

    `seed`: decides initial weights and batches.
    `parameters`: parameters of the classifier that shall differ from the plain values.
    """

    seed: int
    parameters: Mapping[str, Any]

    def __call__(self, rows: FloatArray, named: Any, weights: FloatArray) -> Any:
        """Return a classifier fitted to rows, their candidates and the weights of these."""
        from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier as Classifier

        model = Classifier.fixed(random_state=self.seed, **self.parameters)
        return model.fit(rows, named, candidate_weights=weights)


def trainings(
    fit: Fit | Sequence[Fit] | None,
    features: FloatArray | None,
    seed: int,
    *,
    is_candidates: bool,
    **parameters: Any,
) -> Sequence[Fit]:
    """Return what trains classifiers: what was given, or Max-Matching with some parameters.

    Votes on up to `MAX_KERNEL_ROWS` rows are learned from by kernels, candidate sets and more rows
    by networks; under two scalings, of which numbers on many rows need but one.
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


class KeptAnswers:
    """Answers of finished trainings in a folder, found again by what they were learned from.

    `folder`: made where there is none; one small file per training.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        check_writable_folder(self.folder)
        self._files: list[Path] = []

    def __call__(self, train: Callable[[], FloatArray], *learned_from: Any) -> FloatArray:
        """Return the answers that are kept, or train and keep them.

        `learned_from`: all that decides them: arrays, and what trains, by its text.
        """
        digest = hashlib.sha256(f"{__version__}\0".encode())
        for part in learned_from:
            digest.update(part.tobytes() if isinstance(part, np.ndarray) else _told(part).encode())
        path = self.folder / f"{digest.hexdigest()[:32]}.npy"
        self._files.append(path)
        if path.is_file():
            return np.asarray(np.load(path, allow_pickle=False))
        answers = train()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.save(stream, answers, allow_pickle=False)
        return answers

    def clear(self) -> None:
        """Delete what was kept, and the folder if nothing else is in it."""
        for path in self._files:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _told(fit: Fit) -> str:
    """Return a text by which a training is known again in another process."""
    return getattr(fit, "__qualname__", None) or repr(fit)


def out_of_fold(
    named: BoolArray,
    features: FloatArray,
    belief: FloatArray,
    n_folds: int,
    fit: Fit,
    seed: int,
    *,
    kept: KeptAnswers | None = None,
    on_fold: Callable[[], None] | None = None,
) -> FloatArray:
    """Return P(label | features) of every row from models that did not see it.

    Of shape (n_rows, n_classes). `named` (n_rows, n_classes): labels that somebody named; rows
    without any are predicted and teach nothing. `features`: of shape (n_rows, n_features). `belief`
    (n_rows, n_classes): how far each named label is trusted. `kept`: answers of an earlier run that
    was interrupted.
    """
    from groupnoise.candidates.label_issues import cross_fit

    def predict(training: IntArray, held: IntArray) -> FloatArray:
        answers = learned_answers(named, features, belief, training, held, fit, kept)
        if on_fold is not None:
            on_fold()
        return answers

    n_classes = named.shape[1]
    best = np.where(named.any(axis=1), belief.argmax(axis=1), n_classes)
    generator = np.random.default_rng(seed)
    return cross_fit(predict, best, n_classes, n_folds, generator)


def learned_answers(
    named: BoolArray,
    features: FloatArray,
    belief: FloatArray,
    training: IntArray,
    held: IntArray,
    fit: Fit,
    kept: KeptAnswers | None,
) -> FloatArray:
    """Return P(label | features) of the rows `held` by a model of the rows `training`."""
    rows = training[named[training].any(axis=1)]
    present = named[rows].any(axis=0)
    learned = named[rows][:, present]
    weights = np.where(learned, np.maximum(belief[rows][:, present], MIN_WEIGHT), 0.0)
    parts = features[rows], learned, weights

    def train() -> FloatArray:
        return np.asarray(fit(*parts).predict_proba(features[held]))

    answers = np.full((len(held), named.shape[1]), MIN_PROBABILITY)
    answers[:, present] = train() if kept is None else kept(train, fit, *parts, features[held])
    return answers


def likeliest(
    predicted: Sequence[FloatArray],
    log_likelihood: FloatArray,
    frequency: FloatArray,
    is_voted: BoolArray,
) -> tuple[FloatArray, float]:
    """Return the tempered predictions of that classifier, or of all, which votes are likeliest by.

    Returns `tempered` (n_rows, n_classes): the probabilities; `share`: how much of them comes from
    the features. `predicted` (n_rows, n_classes): p(label | row) out of fold, by each classifier.
    """
    offered = [*predicted, np.mean(predicted, axis=0)] if len(predicted) > 1 else predicted
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    found, scores = [], []
    for each in offered:
        found.append(calibrate_by_votes(each, log_likelihood, frequency, is_voted))
        foretold = (found[-1][0] * scaled).sum(axis=1)[is_voted]
        scores.append(float(np.log(np.maximum(foretold, MIN_PROBABILITY)).mean()))
    return found[int(np.argmax(scores))]


def calibrate_by_votes(
    predicted: FloatArray, log_likelihood: FloatArray, frequency: FloatArray, is_voted: Any
) -> tuple[FloatArray, float]:
    """Return predictions as sure, and as far from the mere frequencies, as the votes bear out.

    No true label is needed: votes on a row were not seen by the model that predicts it, so their
    likelihood under the prediction judges it.

    Returns `tempered` (n_rows, n_classes): the probabilities; `share`: how much of them comes from
    the features. `predicted` (n_rows, n_classes): p(label | row) out of fold. `log_likelihood`
    (n_rows, n_classes): log P(votes of the row | label). `frequency`: how frequent each label is.
    """
    logs = np.log(np.maximum(predicted, MIN_PROBABILITY))
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))[is_voted]
    by_frequency = scaled @ frequency
    best = (-np.inf, 1.0, 0.0)
    for temperature in TEMPERATURES:
        by_features = (softmax(logs[is_voted] / temperature) * scaled).sum(axis=1)
        for share in SHARES:
            mixed = share * by_features + (1.0 - share) * by_frequency
            score = float(np.log(np.maximum(mixed, MIN_PROBABILITY)).sum())
            best = max(best, (score, float(temperature), float(share)))
    _, temperature, share = best
    return share * softmax(logs / temperature) + (1.0 - share) * frequency, share


def held_out_temperature(votes: Votes, likelihoods: FloatArray, log_prior: FloatArray) -> float:
    """Return the temperature at which all other evidence best foretells each single vote.

    Annotators err together on hard rows, which their model does not know; so the product of their
    votes is too sure of itself. Rows with one vote are foretold by their features.

    `likelihoods` (n_votes, n_classes): p(vote | true label). `log_prior`: log P(label) before the
    votes.
    """
    is_paired = votes.counts[votes.rows] > 1
    if not is_paired.any():
        return 1.0
    logs = np.log(likelihoods)
    total = np.broadcast_to(log_prior, (votes.n_rows, votes.n_classes)).copy()
    np.add.at(total, votes.rows, logs)
    others = (total[votes.rows] - logs)[is_paired]
    likelihoods = likelihoods[is_paired]
    choices = [1.0, *TEMPERATURES[TEMPERATURES > 1.0]]
    scores = [
        np.log(np.maximum((softmax(others / t) * likelihoods).sum(axis=1), MIN_PROBABILITY)).mean()
        for t in choices
    ]
    return float(choices[int(np.argmax(scores))])


def single_vote_temperature(
    votes: Votes, confusion: FloatArray, predicted: FloatArray, belief: FloatArray
) -> float:
    """Return the temperature at which rows with one vote are as sure as the votes bear out.

    A classifier and neighbours say partly the same, so their product is too sure of itself, and on
    a row with one vote nothing else is there. Tempered until the votes are likeliest it is not, but
    then a single vote wins over features that know better; so answers stay, and only how often
    they are expected to be right is taken over.

    `confusion` (n_annotators, n_classes, n_classes): of each annotator.
    `predicted` (n_rows, n_classes): p(label | features), neighbours heeded. `belief` (n_rows,
    n_classes): p(label | votes, features) as it follows from these.
    """
    is_voted, is_single = votes.counts > 0, votes.counts == 1
    likelihood = log_vote_likelihood(votes, confusion)
    frequency = belief[is_voted].mean(axis=0)
    calm, _ = calibrate_by_votes(predicted, likelihood, frequency, is_voted)
    calm = softmax(np.log(np.maximum(calm[is_single], MIN_PROBABILITY)) + likelihood[is_single])
    sharp = belief[is_single]
    expected = float(np.take_along_axis(calm, sharp.argmax(axis=1)[:, None], axis=1).mean())
    logs = np.log(np.maximum(sharp, MIN_PROBABILITY))
    sure = [float(softmax(logs / t).max(axis=1).mean()) for t in TEMPERATURES]
    return float(np.exp(np.interp(-expected, -np.asarray(sure), np.log(TEMPERATURES))))
