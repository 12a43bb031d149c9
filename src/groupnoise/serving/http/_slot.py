"""The place a model is served from: a new one is verified and warmed before it takes over."""

from __future__ import annotations

from pathlib import Path

from groupnoise.exceptions import ModelFileError
from groupnoise.serving._artifact import open_artifact
from groupnoise.serving._model import RecallModel
from groupnoise.serving._options import RecallOptions
from groupnoise.serving.http._answers import as_json, describe


class ModelSlot:
    """Holds the model in use and loads what may replace it.

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
        self.model = self.load()
        """The model that answers now; assigning another switches to it."""

    def load(self) -> RecallModel:
        """Return the artifact now in the folder, verified and warmed; a bad one is refused."""
        model = open_artifact(self._folder, memory_map=False, least_recall=self._least_recall)
        try:
            _warm(model)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise ModelFileError(
                f"{self._folder} is whole but cannot answer a request ({error!r}); export it again."
            ) from None
        return model


def _warm(model: RecallModel) -> None:
    """Answer once, so that the first request finds the library loaded and memory touched."""
    top = min(10, len(model.items))
    popular = model.items.ids_of(model.items.popular_order[:1])
    model.recall([popular, []], RecallOptions(top=top))
    as_json(describe(model))  # a card may hold what JSON cannot
