"""The place a model is served from: a new one is verified and warmed before it takes over."""

from __future__ import annotations

import threading
from pathlib import Path

from groupnoise.serving._artifact import open_artifact
from groupnoise.serving._model import RecallModel
from groupnoise.serving._options import RecallOptions


class ModelSlot:
    """Holds the model in use and replaces it whole.

    Artifacts are read into memory and every byte is checked, so nothing that happens to the files
    afterwards, short of a reload, can reach a request.

    Parameters
    ----------
    folder : path
        The artifact; read again on every reload.
    least_recall : float
        Refuse an artifact whose faiss index was measured below this.
    """

    def __init__(self, folder: Path, *, least_recall: float = 0.0) -> None:
        self._folder = folder
        self._least_recall = least_recall
        self._reloading = threading.Lock()
        self._model = self._load()

    @property
    def model(self) -> RecallModel:
        """The model that answers now."""
        return self._model

    def reload(self) -> tuple[str, str]:
        """Switch to the artifact now in the folder; return the old and the new version.

        A bad artifact raises ModelFileError and the old model stays.
        """
        with self._reloading:
            old = self._model.version
            self._model = self._load()
            return old, self._model.version

    def _load(self) -> RecallModel:
        model = open_artifact(self._folder, memory_map=False, least_recall=self._least_recall)
        _warm(model)
        return model


def _warm(model: RecallModel) -> None:
    """Answer once, so that the first request finds the library loaded and memory touched."""
    top = min(10, len(model.items))
    popular = model.items.ids_of(model.items.popular_order[:1])
    model.recall([popular, []], RecallOptions(top=top))
