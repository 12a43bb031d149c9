"""Partial-label baselines by neighbours and kernels: PL-kNN, SURE and PALOC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.threads import threads_to_solve
from groupnoise.core.words import inherit_docstring


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class SUREClassifier(PartialLabelClassifier):
    r"""Self-guided retraining of label confidences with a Gaussian kernel.

    .. math::
        \min_{W, b, P} \sum_i \Big( \|W \phi(x_i) + b - p_i\|^2 - \lambda \|p_i\|_\infty \Big)
        + \beta \|W\|^2

    over confidences :math:`p_i` that are non-negative, zero outside the candidates and sum to
    one. The two blocks are minimised in turn: kernel ridge regression for W and b, whose
    factorisation is shared by all rounds; and for each row the projection of its output, raised by
    :math:`\lambda/2` at the best candidate, onto the simplex of its candidates, which is the exact
    minimum.

    Parameters
    ----------
    sharpness : float, default=0.3
        The factor lambda: how much a confident row is rewarded.
    regularization : float, default=0.05
        The factor beta.
    kernel_scale : float, default=1.0
        Width of the kernel in units of the mean distance between training rows.
    max_iterations : int, default=30
        Rounds at the most; fewer if the confidences stay as they are.

    References
    ----------
    L. Feng and B. An, "Partial label learning with self-guided retraining", AAAI 2019.

    Examples
    --------
    >>> model = SUREClassifier()
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    _fitted_arrays = ("rows_", "width_", "dual_coef_", "intercept_")

    sharpness: float = 0.3
    regularization: float = 0.05
    kernel_scale: float = 1.0
    max_iterations: int = 30

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("sharpness", self.sharpness, allow_zero=True)
        check_positive("regularization", self.regularization)
        check_positive("kernel_scale", self.kernel_scale)
        check_count("max_iterations", self.max_iterations)
        with threads_to_solve(len(rows)):
            distances = euclidean_distances(rows)
            self.rows_ = rows
            self.width_ = np.array(self.kernel_scale * max(distances.mean(), 1e-12))
            kernel = _gaussian(distances, self.width_)
            factor = cho_factor(kernel + self.regularization * np.eye(len(rows)))
            ones_solved = cho_solve(factor, np.ones(len(rows)))
            confidence = candidates / candidates.sum(axis=1, keepdims=True)
            for _ in range(self.max_iterations):
                # Ridge with a free constant: the dual weights of every class sum to zero.
                solved = cho_solve(factor, confidence)
                self.intercept_ = solved.sum(axis=0) / ones_solved.sum()
                self.dual_coef_ = solved - np.outer(ones_solved, self.intercept_)
                outputs = kernel @ self.dual_coef_ + self.intercept_
                before, confidence = confidence, sharpened(outputs, candidates, self.sharpness)
                if np.abs(confidence - before).max() < 1e-4:
                    break

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        kernel = _gaussian(euclidean_distances(rows, self.rows_), self.width_)
        return np.asarray(kernel @ self.dual_coef_ + self.intercept_)

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the confidences nearest to the outputs: they are fitted to lie on the simplex."""
        return sharpened(scores, np.ones(scores.shape, dtype=bool), 0.0)


def sharpened(outputs: FloatArray, candidates: BoolArray, sharpness: float) -> FloatArray:
    r"""Return the minimiser of :math:`\|p - q\|^2 - \lambda \max_j p_j` on each row's simplex.

    The minimiser keeps the order of q, so its largest entry stands at the best candidate; the
    reward is then linear there, and the problem a projection onto the simplex.

    `outputs`: of shape (n_rows, n_classes). `candidates` (n_rows, n_classes): where p may differ
    from zero.
    """
    raised = np.where(candidates, outputs, -np.inf)
    raised[np.arange(len(raised)), raised.argmax(axis=1)] += sharpness / 2
    descending = -np.sort(-raised, axis=1)
    rank = np.arange(1, raised.shape[1] + 1)
    # Outside the candidates stands -inf, which never enters the support of the projection.
    excess = (np.cumsum(np.where(np.isfinite(descending), descending, 0.0), axis=1) - 1) / rank
    support = (descending > excess).sum(axis=1)
    threshold = excess[np.arange(len(raised)), support - 1]
    return np.asarray(np.maximum(raised - threshold[:, None], 0.0))


def _gaussian(distances: FloatArray, width: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-((distances / width) ** 2) / 2))


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class PLKNNClassifier(PartialLabelClassifier):
    r"""Partial-label k nearest neighbours.

    The neighbours :math:`r = 1..k` of a row, at distances :math:`d_r`, vote for each of their
    candidate labels:

    .. math:: score(y) = \sum_r \Big(1 - \frac{d_r}{\sum_s d_s}\Big) \mathbb{1}[y \in S_r]

    With a single neighbour, or if all distances are zero, the votes count one each.

    Parameters
    ----------
    n_neighbors : int, default=10
        How many neighbours vote; all training rows if there are fewer.
    metric : str, default="euclidean"
        Any metric of :class:`sklearn.neighbors.NearestNeighbors`.
    n_jobs : int, optional
        Threads of the neighbour search.

    References
    ----------
    E. Hüllermeier and J. Beringer, "Learning from ambiguously labeled examples", Intelligent
    Data Analysis 10(5), 2006.

    Examples
    --------
    >>> model = PLKNNClassifier(n_neighbors=2)
    >>> model = model.fit([[0.0], [0.1], [5.0], [5.1]], [{"a"}, {"a", "b"}, {"b"}, {"a", "b"}])
    >>> model.predict([[0.05], [5.05]]).tolist()
    ['a', 'b']
    """

    _fitted_arrays = ("rows_", "candidates_")

    n_neighbors: int = 10
    metric: str = "euclidean"
    n_jobs: int | None = None

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_count("n_neighbors", self.n_neighbors)
        self.rows_, self.candidates_ = rows, candidates
        self._build_index()

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._build_index()

    def _build_index(self) -> None:
        self.index_ = NearestNeighbors(
            n_neighbors=min(self.n_neighbors, len(self.rows_)),
            metric=self.metric,
            n_jobs=self.n_jobs,
        ).fit(self.rows_)

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        distances, neighbors = self.index_.kneighbors(rows)  # (n_rows, k) each
        n_rows, k = distances.shape
        votes = sparse.csr_array(
            (vote_weights(distances).ravel(), neighbors.ravel(), np.arange(0, n_rows * k + 1, k)),
            shape=(n_rows, len(self.rows_)),
        )
        return np.asarray(votes @ self.candidates_.astype(np.float64))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def vote_weights(distances: FloatArray) -> FloatArray:
    """Return the weight of each neighbour's vote, same shape (n_rows, k) as the distances."""
    if distances.shape[1] == 1:
        return np.ones_like(distances)
    total = distances.sum(axis=1, keepdims=True)
    share = np.divide(distances, total, out=np.zeros_like(distances), where=total > 0)
    return np.asarray(1 - share)


@dataclass(frozen=True)
class KernelMachines:
    """Support vector machines with an RBF kernel on shared rows.

    Sharing the rows means one kernel matrix for all fits, and predictions of all machines as one
    matrix product.

    `rows` (n_rows, n_features): the training rows of all machines.
    `weights` (n_rows, n_machines): signed dual weights; zero where a row is no support vector of a
        machine.
    `intercepts`: their constants.
    `gamma`: kernel width.
    """

    rows: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    gamma: FloatArray

    @classmethod
    def fit(
        cls,
        rows: FloatArray,
        problems: Iterable[tuple[BoolArray, BoolArray]],
        *,
        penalty: float,
        gamma: float | None,
    ) -> tuple[KernelMachines, FloatArray]:
        """Fit one machine per problem, a pair of masks (rows that take part, positive rows).

        A problem with one side only gets a constant answer, one without rows the answer 0.

        Returns `machines`: the fitted machines; `outputs` (n_rows, n_machines): their decision
        values on the training rows, which the kernel at hand gives for free.
        """
        # By default scikit-learn's width: one over the number of features times their variance.
        width = gamma or float(1 / (rows.shape[1] * max(rows.var(), 1e-12)))
        kernel = rbf_kernel(rows, gamma=width)  # (n_rows, n_rows)
        columns, intercepts = [], []
        for takes_part, is_positive in problems:
            chosen = np.flatnonzero(takes_part)
            answers = is_positive[chosen]
            column = np.zeros(len(rows))
            if answers.any() and not answers.all():
                machine = SVC(C=penalty, kernel="precomputed")
                machine.fit(kernel[np.ix_(chosen, chosen)], answers)
                column[chosen[machine.support_]] = machine.dual_coef_[0]
                intercepts.append(machine.intercept_[0])
            else:
                intercepts.append(2.0 * answers[0] - 1.0 if len(answers) else 0.0)
            columns.append(column)
        machines = cls(rows, np.stack(columns, axis=1), np.array(intercepts), np.array(width))
        return machines, kernel @ machines.weights + machines.intercepts

    def decide(self, rows: FloatArray) -> FloatArray:
        """Return the decision value of each machine, shape (n_rows, n_machines)."""
        kernel = rbf_kernel(rows, self.rows, gamma=float(self.gamma))
        return np.asarray(kernel @ self.weights + self.intercepts)


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class PALOCClassifier(PartialLabelClassifier):
    r"""Partial-label learning by binary decomposition.

    1. For every pair of labels (j, k) a support vector machine with an RBF kernel separates the
       rows with j but not k among their candidates from those with k but not j.
    2. The label with most votes of these machines, if it is a candidate of a training row,
       becomes the only one of that row.
    3. For every label a second machine separates the rows resolved to it from those that exclude
       it, on the features joined with the signs of all pair machines. A row that still holds the
       label among others is left out.
    4. Prediction: :math:`\arg\max_j\; votes_j + \mu \, \mathbb{1}[\text{machine } j \text{ says
       yes}]`.

    All machines of a stage share one kernel matrix and predict together as one matrix product:
    the same result in a small part of the time. Memory is the square of the number of rows.

    Parameters
    ----------
    penalty : float, default=1.0
        The cost C of a margin violation in every machine.
    gamma : float, optional
        Kernel width; one over (features times variance) if not given, as in scikit-learn.
    rest_weight : float, default=10.0
        The factor mu.

    References
    ----------
    X. Wu and M.-L. Zhang, "Towards enabling binary decomposition for partial label learning",
    IJCAI 2018.

    Examples
    --------
    >>> model = PALOCClassifier()
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    penalty: float = 1.0
    gamma: float | None = None
    rest_weight: float = 10.0

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("penalty", self.penalty)
        check_positive("rest_weight", self.rest_weight, allow_zero=True)
        if self.gamma is not None:
            check_positive("gamma", self.gamma)
        n_classes = candidates.shape[1]
        self.pair_machines_, outputs = KernelMachines.fit(
            rows,
            (
                (candidates[:, j] != candidates[:, k], candidates[:, j])
                for j, k in combinations(range(n_classes), 2)
            ),
            penalty=self.penalty,
            gamma=self.gamma,
        )
        resolved = resolve_by_votes(count_votes(outputs, n_classes), candidates)
        is_single = resolved.sum(axis=1) == 1
        self.rest_machines_, _ = KernelMachines.fit(
            np.hstack([rows, np.sign(outputs)]),
            ((is_single | ~resolved[:, j], resolved[:, j]) for j in range(n_classes)),
            penalty=self.penalty,
            gamma=self.gamma,
        )

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        outputs = self.pair_machines_.decide(rows)  # (n_rows, n_pairs)
        says_yes = self.rest_machines_.decide(np.hstack([rows, np.sign(outputs)])) > 0
        return count_votes(outputs, len(self.classes_)) + self.rest_weight * says_yes

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            f"{stage}.{name}": value
            for stage, machines in (("pair", self.pair_machines_), ("rest", self.rest_machines_))
            for name, value in vars(machines).items()
        }

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        names = [field.name for field in fields(KernelMachines)]
        self.pair_machines_, self.rest_machines_ = (
            KernelMachines(**{name: arrays[f"{stage}.{name}"] for name in names})
            for stage in ("pair", "rest")
        )


def count_votes(outputs: FloatArray, n_classes: int) -> FloatArray:
    """Return the votes each class gets from the pair machines.

    Of shape (n_rows, n_classes). `outputs` (n_rows, n_classes * (n_classes - 1) / 2): decision
    values of the pairs (0, 1), (0, 2), ..., positive for the first of a pair. `n_classes`: how many
    classes there are.
    """
    pairs = list(combinations(range(n_classes), 2))
    first, second = np.zeros((2, len(pairs), n_classes))
    for row, (j, k) in enumerate(pairs):
        first[row, j] = second[row, k] = 1.0
    return np.asarray((outputs > 0) @ first + (outputs < 0) @ second)


def resolve_by_votes(votes: FloatArray, candidates: BoolArray) -> BoolArray:
    """Reduce candidates to the class with most votes where that class is one of them."""
    winner = np.eye(candidates.shape[1], dtype=bool)[votes.argmax(axis=1)]
    is_candidate = (winner & candidates).any(axis=1, keepdims=True)
    return np.where(is_candidate, winner, candidates)
