"""What the baseline recommenders share, and the simplest of them: popularity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from groupnoise.clicks.item_to_item import ItemToItemRecommender
from groupnoise.clicks.items.catalogue import Catalogue, ItemHistories
from groupnoise.clicks.recommender import Recommender
from groupnoise.core.arrays import FloatArray, strip_prefix
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.io.folders.model_files import (
    pack_parameters,
    read_model,
    refuse_incomplete_model,
    unpack_parameters,
    write_model,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class BaselineRecommender(Recommender):
    """A recommender whose learned parameters are arrays.

    A subclass implements training (`_learn`), scoring (`_score_all`, and `_score_some` where that
    is cheaper), and the conversion to and from arrays (`_arrays`, `_restore`).

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        Item ids in index order.
    popularity_ : float ndarray of shape (n_items,)
        Clicks on each item.
    """

    def fit(
        self, histories: ItemHistories | Groups, y: object = None, *, item_ids: Any = None
    ) -> Self:
        """Learn from click histories.

        Parameters
        ----------
        histories : sequence of sequences of item ids, Groups, or a log
            Each user's clicks in time order; a frame of a row per click, or what `read_clicks`
            returned, is put in this form, its columns guessed. Groups hold item indices: without
            targets each is a whole history, with targets each is a window whose next click is
            known.
        y : ignored, optional
            Present for scikit-learn.
        item_ids : array-like of shape (n_items,), optional
            The whole catalogue, so that items nobody clicked exist too. By default every item
            that occurs; for groups, every index up to the largest.

        Returns
        -------
        self
        """
        self._learn(self._prepare(histories, item_ids))
        return self

    def save(self, path: Path | str) -> None:
        """Write the fitted recommender to a folder; see :meth:`load`.

        Parameters
        ----------
        path : path
            A folder; it appears whole or not at all.
        """
        check_is_fitted(self)
        arrays = {
            **self.catalogue_.to_arrays(),
            "popularity": self.popularity_,
            **{f"learned.{name}": array for name, array in self._arrays().items()},
        }
        parameters = pack_parameters(self.get_params(deep=False))
        write_model(
            path, kind=type(self).__name__, manifest={"parameters": parameters}, arrays=arrays
        )

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the recommender that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            A model folder of this very class.

        Returns
        -------
        object
            The fitted recommender.

        Raises
        ------
        ModelFileError
            If the folder is missing, altered or holds another kind of model.
        """
        manifest, arrays = read_model(path, kind=cls.__name__)
        with refuse_incomplete_model(path):
            model = cls(**unpack_parameters(manifest["parameters"]))
            model.catalogue_ = Catalogue.from_arrays(arrays)
            model.popularity_ = arrays["popularity"]
            model._check_popularity()
            model._restore(strip_prefix("learned.", arrays))
        return model

    @abstractmethod
    def _learn(self, training: Groups) -> None:
        """Learn from whole histories, or from windows if the groups have targets."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return learned parameters other than popularity."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the parameters that `_arrays` returned."""


class ItemToItemBaseline(ItemToItemRecommender, BaselineRecommender):
    """A baseline that also finds similar items."""


@inherit_docstring
class PopularityRecommender(BaselineRecommender):
    r"""Rank items by how often they were clicked, whatever the history.

    .. math:: s(y) = \#\{\text{clicks on } y\}

    Every personal method should beat it; that it comes close is common and worth knowing.

    Examples
    --------
    >>> model = PopularityRecommender().fit([["tea", "jam"], ["jam", "rye"]])
    >>> ids, scores = model.recommend([["tea"]], top=2)
    >>> ids.tolist(), scores.tolist()
    ([['jam', 'rye']], [[2.0, 1.0]])
    """

    def _learn(self, training: Groups) -> None:
        """Learn nothing beyond the popularity every recommender counts."""

    def _score_all(self, histories: Groups) -> FloatArray:
        return np.broadcast_to(self.popularity_, (len(histories), self.n_items_))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore nothing: popularity itself is restored for every recommender."""
