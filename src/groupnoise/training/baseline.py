"""What every classifier baseline shares: checked rows, and model folders without pickles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_features
from groupnoise.core.feature_names import remember_columns, rows_to_predict
from groupnoise.io.model_files import (
    pack_labels,
    read_model,
    unpack_labels,
    whole_model,
    write_model,
)
from groupnoise.io.parameters import pack_parameters, unpack_parameters

if TYPE_CHECKING:
    from typing_extensions import Self


class SavedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that checks its rows and saves itself as arrays and JSON.

    A subclass lists its fitted arrays in `_fitted_arrays`, or, if its state is of another kind,
    overrides `_arrays` and `_restore`.
    """

    _fitted_arrays: ClassVar[tuple[str, ...]] = ()

    classes_: NDArray[Any]
    n_features_in_: int

    def save(self, folder: Path | str) -> None:
        """Save the fitted classifier as a model folder.

        Parameters
        ----------
        folder : path
            Created if needed; a model already there is replaced atomically.
        """
        check_is_fitted(self, "classes_")
        names = getattr(self, "feature_names_in_", None)
        write_model(
            folder,
            kind=type(self).__name__,
            manifest={
                "parameters": pack_parameters(self.get_params(deep=False)),
                "classes": pack_labels(self.classes_),
                "n_features_in": int(self.n_features_in_),
                "feature_names_in": None if names is None else names.tolist(),
            },
            arrays=self._arrays(),
        )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Load what :meth:`save` wrote.

        Parameters
        ----------
        folder : path
            A model folder of this very class.

        Returns
        -------
        object
            The fitted classifier.

        Raises
        ------
        ModelFileError
            If the folder is missing, altered or holds another kind of model.
        """
        manifest, arrays = read_model(folder, kind=cls.__name__)
        with whole_model(folder):
            model = cls(**unpack_parameters(manifest["parameters"]))
            model.classes_ = _classes(manifest["classes"])
            model.n_features_in_ = int(manifest["n_features_in"])
            if manifest["feature_names_in"] is not None:
                model.feature_names_in_ = np.asarray(manifest["feature_names_in"], dtype=object)
            model._restore(arrays)
        return model

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in self._fitted_arrays}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name in self._fitted_arrays:
            setattr(self, name, arrays[name])

    def _rows_to_fit(self, X: Any) -> FloatArray:
        """Return checked training rows and remember their width and column names."""
        rows = check_features("X", X)
        remember_columns(self, [X])
        return rows.astype(np.float64, copy=False)

    def _rows_to_predict(self, X: Any) -> FloatArray:
        """Return checked rows of the width and column names seen in `fit`."""
        check_is_fitted(self, "classes_")
        return rows_to_predict(self, X).astype(np.float64, copy=False)


def _classes(saved: Any) -> NDArray[Any]:
    """Return the classes of a manifest; folders written before they had a type hold a list."""
    return np.asarray(saved) if isinstance(saved, list) else unpack_labels(saved)
