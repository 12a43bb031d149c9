"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service.

Everything here runs on numpy; torch is never imported. The service itself is in
:mod:`groupnoise.serving.http`, which needs the extra `serve`.
"""

from groupnoise.serving._approximate import IndexSpec
from groupnoise.serving._artifact import (
    add_index,
    open_artifact,
    write_artifact,
    write_neighbour_artifact,
)
from groupnoise.serving._batch import BatchProgress, recall_file
from groupnoise.serving._model import Recalled, RecallModel
from groupnoise.serving._neighbours import neighbours_from_scores
from groupnoise.serving._options import RecallOptions

__all__ = [
    "BatchProgress",
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Recalled",
    "add_index",
    "neighbours_from_scores",
    "open_artifact",
    "recall_file",
    "write_artifact",
    "write_neighbour_artifact",
]
