r"""A student of the members that were taken: self-training on the labels of instances.

Members say how likely an instance x of a training bag has each label, p(y | x). Its bag says more:
only its own labels, and background where there may be some, are possible, and each of its labels is
had by at least one instance. Instances given their features are independent, so that

.. math:: q_i(y) \propto \frac{p(y \mid x_i)}{1 - \prod_{j \ne i} (1 - q_j(y))}

for the labels y of the bag: dividing by the chance that another instance has y already makes y
likelier where no other has it. A regression in the space of a Gaussian kernel learns these soft
labels. What it says of a bag that it has not seen, found in closed form, is averaged with the
members, the labels of instances follow anew, and so on for a few rounds. A kernel tells apart what
lines and small networks do not, and a label that does not fit the instances of other bags is not
learned by heart, as each bag is answered without its own labels.
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
"""Instances that a student learns from; of longer data as many bags are drawn."""
MAX_BAG_ROWS = 1_000
"""Instances of a bag up to which leaving it out is solved for."""
MIN_BAGS = 20
"""Bags that must fit into so many instances: fewer tell a student too little."""
N_LANDMARKS = 500
N_ROUNDS = 3
N_SWEEPS = 5
"""Times that the labels of all instances of a bag are found from those of the others."""
RIDGE, WIDTH = 0.1, 2.0
"""On the diagonal of the kernel, and what squared distances in units of their median are
multiplied by."""
MIN_EIGENVALUE = 1e-5
"""Part of the largest eigenvalue below which a direction of the landmarks is left out."""
MIN_MISSING = 1e-6
"""How unlikely it may be that no other instance has a label of the bag."""
MIN_LIKELY = 1e-9
"""How unlikely the labels of its bag may be of an instance, so that a few cannot decide alone."""
GAINS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""What makes outputs, near zero and one, logits."""
SCALES = (0.5, 1.0, 1.5, 2.0, 3.0)
"""What members and student together are multiplied by."""


def labels_within_bags(
    log_p: FloatArray, labels: BoolArray, bag: IntArray, n_sweeps: int = N_SWEEPS
) -> FloatArray:
    """Return P(target | instance, labels of its bag), (n_rows, n_targets).

    `log_p` (n_rows, n_targets): log P(target | instance), a free target after those named. `labels`
    (n_bags, n_named): of the bags. `bag`: of each instance.
    """
    n_named = labels.shape[1]
    own = labels[bag]
    possible = np.hstack([own, np.ones((len(own), log_p.shape[1] - n_named), dtype=bool)])
    alone = np.where(possible, log_p, -np.inf)
    found = _softmax(alone)
    for _ in range(n_sweeps):
        lacks = np.log1p(-np.minimum(found[:, :n_named], 1.0 - 1e-9))
        total = np.zeros(labels.shape)
        np.add.at(total, bag, lacks)
        by_others = -np.expm1(total[bag] - lacks)
        weighed = alone.copy()
        weighed[:, :n_named] -= np.where(own, np.log(np.maximum(by_others, MIN_MISSING)), 0.0)
        found = _softmax(weighed)
    return found


class BagKernel:
    """Ridge regression in the space of a Gaussian kernel, which leaves whole bags out.

    `rows` (n_rows, n_features): scaled instances. `bag`: of each, in ascending order. `width`,
    `ridge`: see `WIDTH` and `RIDGE`. `seed`: decides which instances are landmarks, where they are
    many.
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
        apart = square_distances(self.landmarks, self.landmarks)
        above = apart[np.triu_indices(len(apart), 1)]
        median = float(np.median(above)) if len(above) else 0.0
        self.sharpness = width / median if median > 0 else width
        values, vectors = np.linalg.eigh(np.exp(-self.sharpness * apart))
        kept = values > MIN_EIGENVALUE * values[-1]
        self.map = vectors[:, kept] / np.sqrt(values[kept])
        near = np.exp(-self.sharpness * square_distances(rows, self.landmarks))
        self.features = np.hstack([near @ self.map, np.ones((len(rows), 1))])
        penalty = np.full(self.features.shape[1], ridge)
        penalty[-1] = 1e-6  # of the constant
        self.inverse = np.linalg.inv(self.features.T @ self.features + np.diag(penalty))
        self.halves = self.features @ self.inverse
        starts = np.flatnonzero(np.r_[True, np.diff(bag) != 0])
        self.bags = [slice(*each) for each in zip(starts, [*starts[1:], len(bag)], strict=True)]

    def solve(self, targets: FloatArray) -> FloatArray:
        """Return the coefficients of the features, (n_features, n_targets), of targets of rows."""
        return self.inverse @ (self.features.T @ targets)

    def leave_bags_out(self, targets: FloatArray) -> FloatArray:
        """Return what is said of the instances of each bag by a regression without that bag."""
        said = self.features @ self.solve(targets)
        for own in self.bags:
            # Leaving rows out of a ridge regression changes their residuals by a linear map.
            left = np.eye(own.stop - own.start) - self.halves[own] @ self.features[own].T
            said[own] = targets[own] - np.linalg.solve(left, targets[own] - said[own])
        return said

    def encoder(self, coefficients: FloatArray) -> KernelEncoder:
        """Return an encoder whose vectors are what coefficients say."""
        n_landmarks, width = self.landmarks.shape
        encoder = KernelEncoder(width, n_landmarks, coefficients.shape[1])
        encoder.landmarks.copy_(torch.from_numpy(self.landmarks))
        encoder.width.fill_((0.5 / self.sharpness) ** 0.5)
        encoder.weight.copy_(torch.from_numpy(self.map @ coefficients[:-1]))
        encoder.bias.copy_(torch.from_numpy(coefficients[-1]))
        return encoder


class Lesson(NamedTuple):
    """What a student learns from.

    `rows` (n_rows, n_features): scaled instances, bag after bag. `log_p` (n_rows, n_targets): what
    members say of them, a free target after those named. `labels` (n_bags, n_named): of the bags.
    `bag`: of each instance.
    """

    rows: FloatArray
    log_p: FloatArray
    labels: BoolArray
    bag: IntArray


def taught_model(lesson: Lesson, settings: MemberSettings, seed: int) -> MatchingModel:
    """Return a student whose logits are those of all targets."""
    rows, log_p, labels, bag = lesson
    kernel = BagKernel(rows, bag, settings.width, settings.weight_decay, seed)
    answers = labels_within_bags(log_p, labels, bag)
    for _ in range(N_ROUNDS):
        said = kernel.leave_bags_out(answers)
        own = _log_softmax(_gain(said, answers) * said)
        together = _standardised(log_p) + _standardised(own)
        answers = labels_within_bags(_likeliest(together, labels, bag), labels, bag)
    gain = _gain(kernel.leave_bags_out(answers), answers)
    return student_model(kernel.encoder(gain * kernel.solve(answers)))


def student_model(encoder: KernelEncoder) -> MatchingModel:
    """Return a model whose f gives the logits themselves: g is one unit vector per target."""
    n_targets = len(encoder.bias)
    return MatchingModel(encoder, unit_vectors(n_targets), n_targets=n_targets).eval()


def student_logits(model: MatchingModel, rows: Tensor, *, binary: bool) -> Tensor:
    """Return what members of a batch would: one logit where there are two targets, one free."""
    with torch.no_grad():
        logits = model.logits(model.encode_objects(rows), torch.arange(model.n_targets))
    return logits[:, :1] - logits[:, 1:] if binary else logits


def bags_to_learn_from(sizes: IntArray, seed: int) -> IntArray:
    """Return the bags of a lesson in ascending order: all, or as many as fit; none if too few.

    `sizes`: of all bags. `seed`: decides which are drawn.
    """
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[sizes[order] <= MAX_BAG_ROWS]
    fits = np.sort(order[np.cumsum(sizes[order]) <= MAX_ROWS])
    return fits if len(fits) >= min(MIN_BAGS, len(sizes)) else fits[:0]


def rows_of_bags(segments: Segments, bags: IntArray) -> tuple[IntArray, IntArray]:
    """Return where the instances of some bags stand, and the place of the bag of each in `bags`."""
    sizes = segments.sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    own = np.repeat(np.arange(len(bags)), sizes[bags])
    first = np.cumsum(sizes[bags]) - sizes[bags]
    return np.arange(len(own)) - first[own] + starts[bags][own], own


def _gain(said: FloatArray, answers: FloatArray) -> float:
    """Return the factor under which answers are likeliest of what was said without them."""
    return max(GAINS, key=lambda gain: float((answers * _log_softmax(gain * said)).sum()))


def _likeliest(together: FloatArray, labels: BoolArray, bag: IntArray) -> FloatArray:
    """Return log probabilities at the scale under which the labels of bags are likeliest."""
    own = np.pad(labels[bag], ((0, 0), (0, together.shape[1] - labels.shape[1])), constant_values=1)

    def told(scale: float) -> float:
        inside = (own * np.exp(_log_softmax(scale * together))).sum(axis=1)
        return float(np.log(np.maximum(inside, MIN_LIKELY)).mean())

    return _log_softmax(max(SCALES, key=told) * together)


def _standardised(log_p: FloatArray) -> FloatArray:
    """Return half of centred log probabilities in units of their spread."""
    centred = np.maximum(log_p, -60.0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return 0.5 * centred / max(float((centred - centred.mean(axis=0)).std()), 1e-6)


def _log_softmax(values: FloatArray) -> FloatArray:
    shifted = values - values.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _softmax(values: FloatArray) -> FloatArray:
    return np.exp(_log_softmax(values))
