"""What every classifier baseline shares: checked rows, and model folders without pickles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_features
from groupnoise.core.scaling import (
    Scaler,
    column_state,
    remember_columns,
    restore_columns,
    rows_to_predict,
)
from groupnoise.io.folders.model_files import (
    pack_labels,
    pack_parameters,
    read_model,
    refuse_incomplete_model,
    unpack_labels,
    unpack_parameters,
    write_model,
)

if TYPE_CHECKING:
    from typing_extensions import Self

UNSCALED = "none"


@dataclass(kw_only=True, eq=False, repr=False)
class ScaledFeatures:
    """What every classifier baseline may be told of its features.

    Parameters
    ----------
    scaling : {"none", "standard", "l2", "power", "rms"}, default="none"
        Scaling of the features, learned from the training rows.
    """

    scaling: str = UNSCALED


class SavedClassifier(ClassifierMixin, ScaledFeatures, BaseEstimator):
    """A classifier that checks and scales its rows and saves itself as arrays and JSON.

    A subclass lists its fitted arrays in `_fitted_arrays`, or, if its state is of another kind,
    overrides `_arrays` and `_restore`.
    """

    _fitted_arrays: ClassVar[tuple[str, ...]] = ()

    classes_: NDArray[Any]
    n_features_in_: int
    scaler_: Scaler | None = None

    def save(self, folder: Path | str) -> None:
        """Save the fitted classifier as a model folder.

        Parameters
        ----------
        folder : path
            Created if needed; a model already there is replaced atomically.
        """
        check_is_fitted(self, "classes_")
        write_model(
            folder,
            kind=type(self).__name__,
            manifest={
                "parameters": pack_parameters(self.get_params(deep=False)),
                "classes": pack_labels(self.classes_),
                **column_state(self),
            },
            arrays={**self._arrays(), **({} if self.scaler_ is None else self.scaler_.arrays())},
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
        with refuse_incomplete_model(folder):
            model = cls(**unpack_parameters(manifest["parameters"]))
            model.classes_ = unpack_labels(manifest["classes"])
            restore_columns(model, manifest)
            model.scaler_ = None
            if model.scaling != UNSCALED:
                model.scaler_ = Scaler.from_arrays(model.scaling, arrays)
            model._restore({k: v for k, v in arrays.items() if not k.startswith("scaler.")})
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
        return self._learn_scaling(rows).astype(np.float64, copy=False)

    def _learn_scaling(self, rows: NDArray[Any]) -> NDArray[Any]:
        self.scaler_ = None if self.scaling == UNSCALED else Scaler(self.scaling).fit(rows)
        return self._scaled(rows)

    def _scaled(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self.scaler_ is None else self.scaler_(rows)

    def _rows_to_predict(self, X: Any) -> FloatArray:
        """Return checked rows of the width and column names seen in `fit`."""
        check_is_fitted(self, "classes_")
        return self._scaled(rows_to_predict(self, X)).astype(np.float64, copy=False)
