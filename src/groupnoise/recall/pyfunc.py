"""A recall model as MLflow's `python_function` flavour: an artifact, a loader, and no pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupnoise import __version__
from groupnoise.core.checks import require
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.files import replaced_folder, write_json
from groupnoise.recall.artifact import open_artifact
from groupnoise.recall.engines import ABOUT
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions


def write_mlflow(artifact: Path | str, folder: Path | str) -> None:
    """Write an artifact as a folder that MLflow loads (`mlflow.pyfunc.load_model`) and serves."""
    pyfunc = require("mlflow.pyfunc", extra="mlflow")
    version = open_artifact(artifact, memory_map=False).version
    with replaced_folder(Path(folder), marked_by=ABOUT) as place:
        pyfunc.save_model(
            path=str(place / "model"),
            loader_module=__name__,
            data_path=str(artifact),
            pip_requirements=[f"groupnoise=={__version__}"],
        )
        for path in list((place / "model").iterdir()):
            path.rename(place / path.name)
        (place / "model").rmdir()
        write_json(place / ABOUT, {"to": "mlflow", "version": version})


class _Answers:
    """What MLflow calls."""

    def __init__(self, model: RecallModel) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return items and scores of each history, options of a recall being the parameters."""
        if hasattr(model_input, "columns"):
            if "items" not in model_input.columns:
                raise DataError("the table must have a column `items`, a list of ids in each row.")
            model_input = model_input["items"].tolist()
        try:
            options = RecallOptions(**(params or {}))
        except TypeError as error:
            raise ParameterError(f"a recall has no such option: {error}.") from None
        recalled = self._model.recall(model_input, options)
        answers = []
        for number in range(len(recalled.positions)):
            positions, scores = recalled.row(number)
            is_popular = bool(recalled.from_popularity[number])
            answers.append(
                {
                    "items": self._model.items.ids_of(positions),
                    "scores": scores.tolist(),
                    "source": "popularity" if is_popular else "history",
                }
            )
        return answers


def _load_pyfunc(path: str) -> _Answers:
    """Return the model of an artifact folder; the name is MLflow's."""
    return _Answers(open_artifact(path))
