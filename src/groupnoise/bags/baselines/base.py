"""The contract of multiple-instance baselines; sums and maxima over bags."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.bags.reading.inputs import as_bags, holds_bags, read_bag_labels
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import correct_predictions
from groupnoise.core.scaling import check_same_columns, feature_tables, remember_columns
from groupnoise.core.words import inherit_docstring
from groupnoise.training.baseline import SavedClassifier

if TYPE_CHECKING:
    from typing_extensions import Self


class BagIndex:
    """Finds the instances of a batch of bags."""

    def __init__(self, bags: Groups) -> None:
        self._starts = torch.from_numpy(bags.offsets[:-1].copy())
        self._sizes = torch.from_numpy(bags.sizes)

    def gather(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the instances of the bags of a batch, and the place in the batch of their bag."""
        sizes = self._sizes[batch]
        bag_of = torch.repeat_interleave(torch.arange(len(batch)), sizes)  # (n_instances,)
        first = sizes.cumsum(0) - sizes
        position = torch.arange(len(bag_of)) - first[bag_of]
        return self._starts[batch][bag_of] + position, bag_of


def bag_sum(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the sum of (n_instances, n_columns) values in each bag, (n_bags, n_columns)."""
    return values.new_zeros(n_bags, values.shape[1]).index_add(0, bag_of, values)


def bag_mean(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the mean of the values in each bag, (n_bags, n_columns)."""
    sizes = torch.bincount(bag_of, minlength=n_bags)
    return bag_sum(values, bag_of, n_bags) / sizes[:, None]


def bag_max(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the largest value in each bag, (n_bags, n_columns); ties share the gradient."""
    index = bag_of[:, None].expand_as(values)
    lowest = values.new_full((n_bags, values.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, index, values, "amax", include_self=False)


def bag_softmax(scores: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return scores turned into weights that sum to one in each bag, same shape as scores."""
    highest = bag_max(scores.detach(), bag_of, n_bags)
    raised = (scores - highest[bag_of]).exp()
    return raised / bag_sum(raised, bag_of, n_bags)[bag_of]


@inherit_docstring
class BagClassifier(SavedClassifier):
    """Fits on labels of bags and predicts labels of single instances, and of bags.

    A subclass solves binary problems, "does the bag hold an instance of this class?", one per
    column: one problem for two classes, whose second is the positive one; one for each class
    (one-vs-rest) for more classes or for bags with several labels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the order of all columns.
    n_features_in_ : int
        The number of features of an instance seen in `fit`.
    is_multi_label_ : bool ndarray of shape ()
        True if a bag came with several labels, or with none.
    """

    _fitted_arrays: ClassVar[tuple[str, ...]] = ("is_multi_label_",)

    is_multi_label_: NDArray[np.bool_]

    @abstractmethod
    def _learn(self, bags: Groups, answers: BoolArray) -> None:
        """Fit to bags and the answers of the binary problems, (n_bags, n_problems)."""

    @abstractmethod
    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        """Return the probability of yes for each instance, (n_rows, n_problems)."""

    @abstractmethod
    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        """Return the probability of yes for each bag, (n_bags, n_problems)."""

    def _instance_relevance(self, bags: Groups) -> FloatArray:
        """Return how much each instance speaks for each class of its bag, (n_rows, n_classes)."""
        return self._per_class(self._instance_probabilities(bags.objects))

    def fit(self, bags: Any, y: Any, *, groups: Any = None) -> Self:
        """Fit to bags of which only the labels as a whole are known.

        Parameters
        ----------
        bags : Groups, sequence of arrays, or array
            One array of shape (size, n_features) per bag; a dense array (n_bags, size,
            n_features); or flat rows with `groups`. Flat rows alone are bags of one.
        y : array-like or sequence
            One label per bag; or sets of labels, or a 0/1 matrix (n_bags, n_classes).
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row; `y` then has an entry per bag, in order of first
            appearance, or per row.

        Returns
        -------
        self
        """
        self._learn(*self._training_data(bags, y, groups))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each instance.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Instances, not bags; for bags see :meth:`predict_bags`.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities of each instance, shape (n_rows, n_classes).

        One-vs-rest probabilities are normalized to sum to one; all zeros become even.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of `classes_`.
        """
        scores = self._per_class(self._instance_probabilities(self._rows_to_predict(X)))
        total = scores.sum(axis=1, keepdims=True)
        even = np.full_like(scores, 1 / scores.shape[1])
        return np.asarray(np.divide(scores, total, out=even, where=total > 0))

    def predict_bags(self, bags: Any, *, groups: Any = None) -> NDArray[Any]:
        """Return the label of each bag.

        Returns
        -------
        labels : ndarray
            Labels of shape (n_bags,); or, if fitted on bags with several labels, a boolean
            matrix of shape (n_bags, n_classes).
        """
        scores = self.bag_scores(bags, groups=groups)
        if self.is_multi_label_:
            return np.asarray(scores > 0.5)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def bag_scores(self, bags: Any, *, groups: Any = None) -> FloatArray:
        """Return the probability of each class in each bag, shape (n_bags, n_classes).

        The columns of several classes are separate answers and need not sum to one.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return self._per_class(self._bag_probabilities(self._bags_to_predict(bags, groups)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on single instances with known labels, or on bags.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), sequence of arrays, or Groups
            Instances; or bags, in any form but flat rows.
        y : array-like
            A label per instance; for bags, as in :meth:`fit`. After a fit on bags with several
            labels, a bag is right if all of its labels are.
        sample_weight : array-like of shape (n_rows,) or (n_bags,), optional
            How much each counts.

        Returns
        -------
        score : float
        """
        if not holds_bags(X):
            return float(super().score(X, y, sample_weight))
        predicted = self.predict_bags(X)
        if self.is_multi_label_:
            labels, _ = read_bag_labels(y, len(predicted), self.classes_)
            right = (predicted == labels).all(axis=1)
        else:
            right = correct_predictions(predicted, y, self.classes_)
        return float(np.average(right, weights=sample_weight))

    def instance_scores(self, bags: Any, *, groups: Any = None) -> FloatArray:
        """Return how much each instance speaks for each class of its bag.

        Returns
        -------
        scores : ndarray of shape (n_instances, n_classes)
            The instances of the first bag, then of the second, and so on.
        """
        return self._instance_relevance(self._bags_to_predict(bags, groups))

    def _training_data(self, bags: Any, y: Any, groups: Any) -> tuple[Groups, BoolArray]:
        """Return checked bags and the answers of the problems, and take over the classes."""
        found = as_bags(bags, groups)
        labels, self.classes_ = read_bag_labels(y, len(found), groups=groups)
        remember_columns(self, feature_tables(bags, found.objects))
        self.is_multi_label_ = np.array((labels.sum(axis=1) != 1).any())
        rows = self._learn_scaling(found.objects)
        scaled = found if rows is found.objects else Groups(rows, found.offsets, found.targets)
        return scaled, labels[:, -self._n_problems :]

    @property
    def _n_problems(self) -> int:
        n_classes = len(self.classes_)
        return 1 if n_classes == 2 and not self.is_multi_label_ else n_classes

    def _per_class(self, answers: FloatArray) -> FloatArray:
        """Return one column per class from the answers to the binary problems."""
        return np.hstack([1 - answers, answers]) if answers.shape[1] == 1 else answers

    def _bags_to_predict(self, bags: Any, groups: Any) -> Groups:
        check_is_fitted(self, "classes_")
        found = as_bags(bags, groups)
        check_same_columns(self, feature_tables(bags, found.objects))
        rows = self._scaled(found.objects)
        return found if rows is found.objects else Groups(rows, found.offsets, found.targets)
