r"""Self-training: a student learns pseudo-labels of instances from the chosen members.

The members, its teachers, give each instance x of a training bag a probability p(y | x) of each
label y. The bag adds constraints: an instance has a label of its bag, or is background where that
is possible, and each label of the bag belongs to at least one instance. Instances are taken to be
independent given their features, so that the pseudo-labels satisfy

.. math:: q_i(y) \propto \frac{p(y \mid x_i)}{1 - \prod_{j \ne i} (1 - q_j(y))}

for the labels y of the bag. The divisor is the probability that another instance has y already: a
label becomes likelier in an instance if no other one seems to have it.

The student is a kernel ridge regression on these soft labels. Its leave-one-bag-out predictions,
known in closed form, are averaged with those of the teachers, the average gives new pseudo-labels,
and so on for a few rounds. A Gaussian kernel separates classes that linear models and small
networks do not, and since each bag is predicted without its own labels, the student does not
memorize a label that does not fit the instances of other bags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.bags.search.forests_and_kernels import square_distances
from groupnoise.bags.search.members import MemberSettings
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.encoders import unit_vectors
from groupnoise.core.kernels import KernelEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.quantifier import Segments

MAX_ROWS = 4_000
"""Instances that a student learns from at most; bags are drawn where there are more."""
MAX_BAG_ROWS = 1_000
"""Larger bags are not learned from: leaving one out takes a system of equations of its size."""
MIN_BAGS = 20
"""Bags that must fit into `MAX_ROWS` instances, or all bags if there are fewer."""
N_LANDMARKS = 500
N_ROUNDS = 3
N_SWEEPS = 5
"""Fixed-point iterations of the pseudo-labels of a bag."""
RIDGE, WIDTH = 0.1, 2.0
"""The ridge penalty, and the factor of squared distances in units of their median."""
MIN_EIGENVALUE = 1e-5
"""Eigenvalues of the landmarks' kernel matrix below this part of the largest are left out."""
MIN_IN_OTHERS = 1e-6
"""Lower bound of the probability that another instance has a label of the bag."""
MIN_LIKELY = 1e-9
"""Lower bound of the likelihood of an instance, so that a few outliers cannot decide alone."""
GAINS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Factors tried to turn regression outputs, near zero and one, into logits."""
SCALES = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Factors tried for the summed log probabilities of teachers and student."""


def labels_within_bags(
    log_p: FloatArray, labels: BoolArray, bag: IntArray, n_sweeps: int = N_SWEEPS
) -> FloatArray:
    """Return pseudo-labels, P(target | instance, labels of its bag), (n_rows, n_targets).

    `log_p` (n_rows, n_targets): log P(target | instance), a free target after the named ones.
    `labels` (n_bags, n_named): of the bags. `bag`: the bag of each instance.
    """
    n_named = labels.shape[1]
    allowed = labels[bag]
    possible = np.hstack([allowed, np.ones((len(bag), log_p.shape[1] - n_named), dtype=bool)])
    masked = np.where(possible, log_p, -np.inf)
    proba = _softmax(masked)
    for _ in range(n_sweeps):
        log_absent = np.log1p(-np.minimum(proba[:, :n_named], 1.0 - 1e-9))
        total = np.zeros(labels.shape)
        np.add.at(total, bag, log_absent)
        in_others = -np.expm1(total[bag] - log_absent)
        logits = masked.copy()
        logits[:, :n_named] -= np.where(allowed, np.log(np.maximum(in_others, MIN_IN_OTHERS)), 0.0)
        proba = _softmax(logits)
    return proba


class BagKernel:
    """Kernel ridge regression with leave-one-bag-out predictions in closed form.

    Where there are many instances, the Gaussian kernel is approximated by landmarks (Nyström).

    `rows` (n_rows, n_features): scaled instances. `bag`: the bag of each, in ascending order.
    `width`, `ridge`: see `WIDTH` and `RIDGE`. `seed`: decides which instances are landmarks.
    """

    def __init__(
        self, rows: FloatArray, bag: IntArray, width: float, ridge: float, seed: int
    ) -> None:
        rows = np.asarray(rows, dtype=np.float64)
        chosen = np.arange(len(rows))
        if len(rows) > N_LANDMARKS:
            drawn = np.random.default_rng(seed).choice(len(rows), N_LANDMARKS, replace=False)
            chosen = np.sort(drawn)
        self.landmarks = rows[chosen]
        distances = square_distances(self.landmarks, self.landmarks)
        above = distances[np.triu_indices(len(distances), 1)]
        median = float(np.median(above)) if len(above) else 0.0
        self.gamma = width / median if median > 0 else width
        values, vectors = np.linalg.eigh(np.exp(-self.gamma * distances))
        kept = values > MIN_EIGENVALUE * values[-1]
        self.map = vectors[:, kept] / np.sqrt(values[kept])
        kernel = np.exp(-self.gamma * square_distances(rows, self.landmarks))
        self.features = np.hstack([kernel @ self.map, np.ones((len(rows), 1))])
        penalty = np.full(self.features.shape[1], ridge)
        penalty[-1] = 1e-6  # of the intercept
        self.inverse = np.linalg.inv(self.features.T @ self.features + np.diag(penalty))
        self.solved_features = self.features @ self.inverse
        starts = np.flatnonzero(np.r_[True, np.diff(bag) != 0])
        self.bags = [slice(*each) for each in zip(starts, [*starts[1:], len(bag)], strict=True)]

    def solve(self, targets: FloatArray) -> FloatArray:
        """Return the coefficients, (n_features, n_targets), of a regression on targets of rows."""
        return self.inverse @ (self.features.T @ targets)

    def leave_bags_out(self, targets: FloatArray) -> FloatArray:
        """Return predictions for the instances of each bag by a regression without that bag."""
        predictions = self.features @ self.solve(targets)
        for rows in self.bags:
            # Leaving rows out of a ridge regression changes their residuals by a linear map.
            leverage = self.solved_features[rows] @ self.features[rows].T
            residual = targets[rows] - predictions[rows]
            left_out = np.linalg.solve(np.eye(len(leverage)) - leverage, residual)
            predictions[rows] = targets[rows] - left_out
        return predictions

    def encoder(self, coefficients: FloatArray) -> KernelEncoder:
        """Return an encoder whose vectors are the predictions under some coefficients."""
        n_landmarks, width = self.landmarks.shape
        encoder = KernelEncoder(width, n_landmarks, coefficients.shape[1])
        encoder.landmarks.copy_(torch.from_numpy(self.landmarks))
        encoder.width.fill_((0.5 / self.gamma) ** 0.5)
        encoder.weight.copy_(torch.from_numpy(self.map @ coefficients[:-1]))
        encoder.bias.copy_(torch.from_numpy(coefficients[-1]))
        return encoder


class StudentTrainingSet(NamedTuple):
    """Bags that a student learns from.

    `rows` (n_rows, n_features): scaled instances, bag after bag. `log_p` (n_rows, n_targets): log
    P(target | instance) by the teachers, a free target after the named ones. `labels` (n_bags,
    n_named): of the bags. `bag`: the bag of each instance.
    """

    rows: FloatArray
    log_p: FloatArray
    labels: BoolArray
    bag: IntArray


def train_student_model(
    training_set: StudentTrainingSet, settings: MemberSettings, seed: int
) -> MatchingModel:
    """Return a trained student, with a logit for each target."""
    rows, log_p, labels, bag = training_set
    kernel = BagKernel(rows, bag, settings.width, settings.weight_decay, seed)
    pseudo_labels = labels_within_bags(log_p, labels, bag)
    for _ in range(N_ROUNDS):
        predictions = kernel.leave_bags_out(pseudo_labels)
        log_p_student = _log_softmax(_best_gain(predictions, pseudo_labels) * predictions)
        total = _standardised(log_p) + _standardised(log_p_student)
        pseudo_labels = labels_within_bags(_calibrated(total, labels, bag), labels, bag)
    gain = _best_gain(kernel.leave_bags_out(pseudo_labels), pseudo_labels)
    return student_model(kernel.encoder(gain * kernel.solve(pseudo_labels)))


def student_model(encoder: KernelEncoder) -> MatchingModel:
    """Return a model whose f gives the logits themselves: g is one unit vector per target."""
    n_targets = len(encoder.bias)
    return MatchingModel(encoder, unit_vectors(n_targets), n_targets=n_targets).eval()


def student_logits(model: MatchingModel, rows: Tensor, *, binary: bool) -> Tensor:
    """Return logits in the form of other members: a single one for bags that are `binary`."""
    with torch.no_grad():
        logits = model.logits(model.encode_objects(rows), torch.arange(model.n_targets))
    return logits[:, :1] - logits[:, 1:] if binary else logits


def draw_student_bags(sizes: IntArray, seed: int) -> IntArray:
    """Return the bags that a student learns from, in ascending order: as many as fit.

    None at all if fewer than `MIN_BAGS` fit.

    `sizes`: of all bags. `seed`: decides which are drawn.
    """
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[sizes[order] <= MAX_BAG_ROWS]
    fits = np.sort(order[np.cumsum(sizes[order]) <= MAX_ROWS])
    return fits if len(fits) >= min(MIN_BAGS, len(sizes)) else fits[:0]


def rows_of_bags(segments: Segments, bags: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of the instances of some bags, and for each the index of its bag."""
    sizes = segments.sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    own = np.repeat(np.arange(len(bags)), sizes[bags])
    first = np.cumsum(sizes[bags]) - sizes[bags]
    return np.arange(len(own)) - first[own] + starts[bags][own], own


def _best_gain(predictions: FloatArray, pseudo_labels: FloatArray) -> float:
    """Return the factor of predictions under which the pseudo-labels are likeliest."""

    def log_likelihood(gain: float) -> float:
        return float((pseudo_labels * _log_softmax(gain * predictions)).sum())

    return max(GAINS, key=log_likelihood)


def _calibrated(logits: FloatArray, labels: BoolArray, bag: IntArray) -> FloatArray:
    """Return log probabilities at the scale under which the labels of bags are likeliest."""
    n_free = logits.shape[1] - labels.shape[1]
    allowed = np.pad(labels[bag], ((0, 0), (0, n_free)), constant_values=1)

    def log_likelihood(scale: float) -> float:
        inside = (allowed * np.exp(_log_softmax(scale * logits))).sum(axis=1)
        return float(np.log(np.maximum(inside, MIN_LIKELY)).mean())

    return _log_softmax(max(SCALES, key=log_likelihood) * logits)


def _standardised(log_p: FloatArray) -> FloatArray:
    """Return centred log probabilities divided by twice their standard deviation."""
    centred = np.maximum(log_p, -60.0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return 0.5 * centred / max(float((centred - centred.mean(axis=0)).std()), 1e-6)


def _log_softmax(values: FloatArray) -> FloatArray:
    shifted = values - values.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _softmax(values: FloatArray) -> FloatArray:
    return np.exp(_log_softmax(values))
